"""A patch that is no attribute lives like any other; what patches replace can be asked for."""

from __future__ import annotations

from pathlib import Path

from patcher_core import (
    AtomicPatch,
    CustomPatch,
    Patcher,
    PatchStatus,
    PutIn,
    number_of_changes,
    replaced_functions,
)
from patcher_core.imports import ImportControl, installed_spec


class TablePatch(CustomPatch):
    """Puts a function into a table; one patcher at a time."""

    def __init__(self, table, key, function):
        self.name = f"tables.{key}"
        self.table = table
        self.key = key
        self.function = function

    def put_in(self, holder, *, imports):
        if self.key in self.table:
            return PutIn(PatchStatus.SKIPPED, "taken")
        self.table[self.key] = self.function
        return PutIn(PatchStatus.APPLIED, f"by {holder}", lambda: self.table.pop(self.key))


def outcome(patcher):
    (result,) = patcher.report
    return result.status, result.name, result.reason


def test_it_is_put_in_once_and_taken_out():
    table = {}
    patcher = Patcher().add(TablePatch(table, "add", len))
    patcher.apply().apply()
    assert table == {"add": len}
    assert outcome(patcher) == (PatchStatus.APPLIED, "tables.add", f"by {patcher}")
    patcher.restore()
    patcher.restore()
    assert table == {}
    with patcher:
        assert table == {"add": len}
    assert table == {}


def test_disabled_it_is_not_put_in():
    table = {}
    Patcher().add(TablePatch(table, "add", len)).disable("tables.add").apply()
    assert table == {}


def test_one_that_was_skipped_takes_nothing_out():
    table = {"add": max}
    patcher = Patcher().add(TablePatch(table, "add", len)).apply()
    assert outcome(patcher) == (PatchStatus.SKIPPED, "tables.add", "taken")
    patcher.restore()
    assert table == {"add": max}


def test_one_that_raises_has_failed_and_the_others_are_applied():
    class Broken(CustomPatch):
        name = "tables.broken"

        def put_in(self, holder, *, imports):
            raise OSError("no table")

    table = {}
    with Patcher().add(Broken(), TablePatch(table, "add", len)) as patcher:
        broken, good = patcher.report
        assert broken.status is PatchStatus.FAILED and "no table" in broken.reason
        assert good.status is PatchStatus.APPLIED and table == {"add": len}


def test_one_that_waits_is_put_in_when_its_module_is_imported(run_python):
    done = run_python(
        """
        import sys
        from patcher_core import CustomPatch, Patcher, PatchStatus, PutIn

        class Waits(CustomPatch):
            name = "tables.add"

            def put_in(self, holder, *, imports):
                assert not imports
                if "tables" not in sys.modules:
                    return PutIn(PatchStatus.PENDING, "waiting for the import of tables")
                sys.modules["tables"].TABLE["add"] = len
                return PutIn(PatchStatus.APPLIED, "", sys.modules["tables"].TABLE.clear)

        patcher = Patcher().add(Waits()).apply(lazy=True)
        print(*(result.status for result in patcher.report))
        import tables
        print(*(result.status for result in patcher.report), tables.TABLE)
        patcher.restore()
        print(tables.TABLE)
        """,
        {"tables.py": "TABLE = {}"},
    )
    assert done.stdout.splitlines() == ["pending", "applied {'add': <built-in function len>}", "{}"]


def test_what_is_replaced_is_told_with_what_was_there(make_module):
    class Box:
        @staticmethod
        def area(): ...

    def first(): ...

    def second(): ...

    module = make_module("boxes", Box=Box, count=first)
    original, area, before = module.count, Box.area, number_of_changes()
    lower = Patcher().add(AtomicPatch("boxes.count", second), AtomicPatch("boxes.Box.area", first)).apply()
    assert number_of_changes() != before
    with Patcher().add(AtomicPatch("boxes.count", len)):
        assert sorted(replaced_functions("boxes"), key=lambda one: (one.path, one.present is len)) == [
            ("boxes.Box.area", first, area),
            ("boxes.count", second, original),
            ("boxes.count", len, original),
        ]
        assert replaced_functions("box") == []
    between = number_of_changes()
    lower.restore()
    assert replaced_functions("boxes") == [] and number_of_changes() != between


def test_a_subclass_must_say_how_it_is_put_in():
    class Forgotten(CustomPatch):
        name = "tables.forgotten"

    patcher = Patcher().add(Forgotten()).apply()
    ((status, _, reason),) = [outcome(patcher)]
    assert status is PatchStatus.FAILED and "NotImplementedError" in reason


def test_the_spec_of_an_installed_module_is_told_although_another_is_in_its_place():
    control = ImportControl()
    control.skip("colorsys")
    control.activate()
    try:
        spec = installed_spec("colorsys")
    finally:
        control.restore()
    assert spec.name == "colorsys" and Path(spec.origin).name == "colorsys.py"
    assert installed_spec("no_such_module_at_all") is None
