"""The pytest plugin: tests on the simulated NPU, each group in a process of its own.

A test that asks for the fixture `simulated_npu` (or carries the marker of that name) runs in a fresh Python
process together with the other such tests of its module, or of its group:
`@pytest.mark.simulated_npu(group="transfer")`. Device names and `transfer_to_npu` last as long as a process,
and the process that pytest started in never loads torch_npu.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator

import pytest

from .another_pytest import another_pytest
from .npu import SimulatedNpu, SimulatedNpuUnavailable, simulated_npu
from .npu.session import has_real_runtime
from .seeds import fresh_seed, how_to_repeat

MARKER = "simulated_npu"
GROUP_REPORTS_OPTION = "--simulated-npu-reports"

#: Warnings that torch_npu 2.13.0 causes by itself: no test that turns warnings into errors is about them.
WARNINGS_OF_TORCH_NPU = ("ignore:TypedStorage is deprecated:UserWarning",)


# Where torch_npu is installed like any package, torch would try to start it when imported, which a conftest may do.
if not has_real_runtime():
    os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        MARKER,
        "what happens to tests on the simulated NPU where it cannot start: they fail ('required') or are "
        "skipped ('optional'); either way with the reason",
        default="required",
    )
    parser.addoption(
        GROUP_REPORTS_OPTION, metavar="FILE", help="used by the plugin: write reports here, run in place"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARKER}(group=None): run on the simulated NPU, in one fresh process with the other tests of the "
        "module, or of the named group",
    )
    reports = config.getoption(GROUP_REPORTS_OPTION)
    if reports:
        config.pluginmanager.register(_ReportWriter(config, Path(reports)))
    else:
        config.pluginmanager.register(_GroupRunner(config))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _group_of(item) is not None:
            for warning in WARNINGS_OF_TORCH_NPU:
                item.add_marker(pytest.mark.filterwarnings(warning))


@pytest.fixture(scope="session", name=MARKER)
def simulated_npu_fixture(request: pytest.FixtureRequest) -> Iterator[SimulatedNpu]:
    """The simulated NPU of this test's process; torch_npu and mx_driving can be imported."""
    try:
        with simulated_npu() as device:
            yield device
    except SimulatedNpuUnavailable as reason:
        _unavailable(request.config, str(reason))


@pytest.fixture
def random_seed() -> int:
    """A fresh seed, given to torch, and shown if the test fails."""
    import torch

    seed = fresh_seed()
    print(how_to_repeat(seed))
    torch.manual_seed(seed)
    return seed


@pytest.fixture(autouse=True)
def _start_for_marked_tests(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker(MARKER) and MARKER not in request.fixturenames:
        request.getfixturevalue(MARKER)


def _unavailable(config: pytest.Config, reason: str) -> None:
    policy = config.getini(MARKER)
    if policy == "optional":
        pytest.skip(reason)
    if policy != "required":
        raise pytest.UsageError(f"ini option {MARKER} must be 'required' or 'optional', got {policy!r}")
    pytest.fail(f"{reason}\n(skip instead: pytest -o {MARKER}=optional)", pytrace=False)


class _ReportWriter:
    """In a group's process: hands every report to the process that started it."""

    def __init__(self, config: pytest.Config, path: Path) -> None:
        self._config = config
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(data) + "\n")


class _GroupRunner:
    """In the process that pytest was started in: runs each group elsewhere and shows its reports here."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._groups: dict[str, list[pytest.Item]] = {}
        self._reports: dict[str, list[pytest.TestReport]] = {}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            group = _group_of(item)
            if group is not None:
                self._groups.setdefault(group, []).append(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        group = _group_of(item)
        if group is None:
            return None
        if item.nodeid not in self._reports:
            self._run(self._groups[group])
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports[item.nodeid]:
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        # The test before it may have left fixtures standing for the rest of its file, which this test may end.
        item.session._setupstate.teardown_exact(nextitem)
        return True

    def _run(self, items: list[pytest.Item]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            reports = Path(folder) / "reports"
            reports.touch()
            done = subprocess.run(
                [
                    *another_pytest(self._config),
                    f"{GROUP_REPORTS_OPTION}={reports}",
                    *(item.nodeid for item in items),
                ],
                cwd=self._config.rootpath,
                capture_output=True,
                text=True,
                errors="replace",
            )
            lines = reports.read_text(encoding="utf-8").splitlines()
        for item in items:
            self._reports[item.nodeid] = []
        for line in lines:
            report = _read_report(self._config, line)
            self._reports.setdefault(report.nodeid, []).append(report)
        for item in items:
            if not self._reports[item.nodeid] or self._reports[item.nodeid][-1].when != "teardown":
                self._reports[item.nodeid].append(_crash_report(item, done))


def _read_report(config: pytest.Config, line: str) -> pytest.TestReport:
    report = config.hook.pytest_report_from_serializable(config=config, data=json.loads(line))
    # why a test was skipped is a tuple (file, line, reason), and JSON has none
    if isinstance(report.longrepr, list):
        report.longrepr = tuple(report.longrepr)
    return report


def _group_of(item: pytest.Item) -> str | None:
    """The name of the group in which this test runs elsewhere; None if it runs here."""
    marker = item.get_closest_marker(MARKER)
    if marker is None and MARKER not in getattr(item, "fixturenames", ()):
        return None
    module = item.nodeid.partition("::")[0]
    named = marker.kwargs.get("group") if marker else None
    return f"{module}::{named}" if named else module


def _crash_report(item: pytest.Item, done: subprocess.CompletedProcess[str]) -> pytest.TestReport:
    text = f"the process of this test's group ended with status {done.returncode} before the test did\n"
    return pytest.TestReport(
        nodeid=item.nodeid,
        location=item.location,
        keywords={item.name: 1},
        outcome="failed",
        longrepr=text + done.stdout + done.stderr,
        when="call",
    )
