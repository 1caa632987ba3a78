"""What is said, where, and how loudly."""

from __future__ import annotations

import logging

import pytest

import patcher_core
from patcher_core import AtomicPatch, Patch, Patcher, PatchError, patcher_logger


@pytest.fixture(autouse=True)
def default_configuration():
    yield
    patcher_core.configure_patcher_logging(
        level="INFO", on_apply="info", on_skip="info", on_fail="warning", on_error="warning"
    )
    patcher_core.configure_summary(True, "INFO", show_applied=True, show_skipped=True, show_failed=True)
    patcher_logger.summary.sections.clear()
    patcher_logger.set_rank_from_env()


@pytest.fixture
def library(make_module):
    return make_module("evt_lib", "def f(): return 'old'\ndef g(): return 'old'\n__version__ = '2.1.0'")


class Group(Patch):
    name = "my_group"

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("evt_lib.f", lambda: "new"),
            AtomicPatch("evt_lib.g", lambda: "new", precheck=lambda: False),
            AtomicPatch("evt_lib.h", "evt_lib.f", create=True, precheck=lambda: 1 / 0),
        ]


def summary_of(messages):
    return next((text for text in messages() if "PATCHER SUMMARY" in text), "")


def test_the_summary_has_the_documented_shape(library, messages):
    Patcher().add(Group).apply()
    rule = "=" * 70
    assert summary_of(messages).strip("\n") == "\n".join(
        [
            rule,
            "  PATCHER SUMMARY",
            rule,
            "  Applied Patches:",
            "    [evt_lib] (2.1.0)",
            "      my_group:",
            "        + evt_lib.f",
            "  Skipped Patches:",
            "    [evt_lib] (2.1.0)",
            "      my_group:",
            "        ~ evt_lib.g (precheck failed)",
            "  Failed Patches:",
            "    [evt_lib] (2.1.0)",
            "      my_group:",
            "        ! evt_lib.h (precheck raised ZeroDivisionError: division by zero)",
            rule,
        ]
    )


def test_a_silent_event_is_neither_logged_nor_shown_unless_asked_for(library, messages):
    patcher_core.configure_patcher_logging(on_skip="silent", on_fail="silent")
    Patcher().add(Group).apply()
    assert messages(logging.WARNING) == []
    assert "Skipped" not in summary_of(messages) and "Failed" not in summary_of(messages)


def test_a_silent_events_section_can_be_asked_for(library, messages):
    patcher_core.configure_patcher_logging(on_skip="silent")
    patcher_core.configure_summary(show_skipped=True)
    Patcher().add(Group).apply()
    assert "Skipped Patches" in summary_of(messages)


def test_the_summary_can_be_switched_off_and_events_are_then_lines(library, messages):
    patcher_core.configure_summary(False)
    Patcher().add(Group).apply()
    assert summary_of(messages) == ""
    assert any("applied evt_lib.f" in text for text in messages(logging.INFO))


def test_the_level_governs_the_summary(library, messages):
    patcher_core.set_patcher_log_level("WARNING")
    Patcher().add(Group).apply()
    assert summary_of(messages) == ""


def test_actions_choose_the_level(library, messages):
    patcher_core.configure_patcher_logging(on_apply="warning", on_skip="error")
    Patcher().add(Group).apply()
    assert any("applied evt_lib.f" in text for text in messages(logging.WARNING))
    assert any("skipped evt_lib.g" in text for text in messages(logging.ERROR))


def test_exit_ends_the_program_after_taking_the_writes_back(library):
    patcher_core.configure_patcher_logging(on_fail="exit")
    with pytest.raises(SystemExit) as caught:
        Patcher().add(Group).apply()
    assert caught.value.code == 1 and library.f() == "old"


def test_exception_raises_on_every_rank(library):
    patcher_logger.set_rank(3)
    patcher_core.configure_patcher_logging(on_fail="exception")
    with pytest.raises(PatchError, match=r"evt_lib\.h"):
        Patcher().add(Group).apply()


def test_other_ranks_say_failures_only(library, messages):
    patcher_logger.set_rank(1)
    Patcher().add(Group).apply()
    assert [text for text in messages() if "evt_lib.h" not in text] == []


@pytest.mark.parametrize(
    "variable", ["RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"]
)
def test_the_rank_is_read_from_the_launchers_environment(monkeypatch, variable):
    for name in ("RANK", "LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"):
        monkeypatch.delenv(name, raising=False)
    assert patcher_logger.is_main_process
    monkeypatch.setenv(variable, "2")
    assert patcher_logger.rank == 2 and not patcher_logger.is_main_process


def test_without_a_configuration_it_is_on_stderr_with_a_prefix(run_python):
    done = run_python(
        """
        import json, logging
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("json.nothing", 1)).apply()
        assert logging.getLogger().handlers == []
        """
    )
    assert (
        done.stdout == ""
        and "[Patcher] INFO:" in done.stderr
        and "[Patcher] WARNING: nothing was applied" in done.stderr
    )


def test_the_users_configuration_is_respected(run_python):
    done = run_python(
        """
        import json, logging
        logging.basicConfig(format="MINE %(name)s %(message)s", level="INFO")
        from patcher_core import AtomicPatch, Patcher
        Patcher().add(AtomicPatch("json.dumps", lambda *a, **k: "new")).apply()
        logging.getLogger("patcher_core").setLevel("ERROR")
        Patcher().add(AtomicPatch("json.loads", lambda *a, **k: "new")).apply()
        """
    )
    assert done.stderr.count("MINE patcher_core") == 1 and "[Patcher]" not in done.stderr


def test_print_info_lists_states(library, messages):
    patcher = Patcher().add(Group).disable("evt_lib.g")
    patcher.print_info()
    assert "[pending] my_group" in messages()[-1]
    patcher.apply().print_info()
    text = messages()[-1]
    assert "[applied] evt_lib.f" in text and "[disabled] evt_lib.g" in text and "[failed:" in text


def test_print_info_shows_the_failure_of_a_group_of_which_something_else_was_skipped_first(library, messages):
    patcher = Patcher().add(Group).disable("evt_lib.f").apply()
    assert [result.status.value for result in patcher.report] == ["skipped", "failed"]
    patcher.print_info()
    line = next(line for line in messages()[-1].splitlines() if line.endswith("] my_group"))
    assert "[failed: " in line and "ZeroDivisionError" in line


def test_print_info_with_diff_shows_both_sources(run_python):
    done = run_python(
        """
        from patcher_core import AtomicPatch, Patcher
        import old_lib, new_lib
        Patcher().add(AtomicPatch("old_lib.f", new_lib.g)).apply().print_info(diff=True)
        """,
        {"old_lib.py": "def f(x):\n    return x + 1\n", "new_lib.py": "def g(x):\n    return x + 2\n"},
    )
    assert "old_lib.f: old_lib.f -> new_lib.g" in done.stderr
    assert "-    return x + 1" in done.stderr and "+    return x + 2" in done.stderr


def test_the_report_is_data(library):
    patcher = Patcher().add(Group).apply()
    report = patcher.report
    assert [len(report.applied), len(report.skipped), len(report.failed), len(report.pending)] == [1, 1, 1, 0]
    first = report.to_dict()["results"][0]
    assert (first["status"], first["name"], first["group"]) == ("applied", "evt_lib.f", "my_group")
    assert "PATCHER SUMMARY" in str(report)
