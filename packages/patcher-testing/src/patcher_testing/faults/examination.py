"""The pytest plugin of the process in which faults are planted.

First every test runs while it is watched which replacements it calls. Then one fault at a time is planted, and of the
tests that call what is wrong now, one after the other runs until one fails. Each fault, and the watched run, has a
process forked from this one: everything is imported, and nothing was applied yet.
"""

from __future__ import annotations

import json
import time
import warnings
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any, Iterable, Iterator, NamedTuple

import pytest

from patcher_core import EnvironmentStep

from ..fork import in_fork
from ..npu_if_wanted import simulated_npu_if
from .planting import Recording, fault, plant
from .request import Request, Verdict

REQUEST_OPTION = "--planted-faults"

#: How many of the tests that call a wrong replacement are tried.
TRIES = 12

#: Processor seconds after which a test that a fault keeps from ending is taken to have failed in its own way.
LIMIT_SECONDS = 60


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        REQUEST_OPTION, metavar="FILE", help="used by PlantedFaults: what to plant, and where to say"
    )


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    request = Request.read(config.getoption(REQUEST_OPTION))
    items[:] = enough_variants(item for item in items if is_on_npu(item) == request.on_npu)


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    if session.testsfailed:
        raise session.Interrupted(f"{session.testsfailed} errors during collection")
    request = Request.read(session.config.getoption(REQUEST_OPTION))
    with simulated_npu_if(request.on_npu):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # their own, at import
            for module in request.modules:
                import_module(module)
        verdicts = Examination(session, request).verdicts()
    Path(request.answer).write_text(json.dumps([verdict._asdict() for verdict in verdicts]), encoding="utf-8")
    return True


def is_on_npu(item: pytest.Item) -> bool:
    return item.get_closest_marker("simulated_npu") is not None or "simulated_npu" in getattr(
        item, "fixturenames", ()
    )


def enough_variants(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Of the parametrised variants of each test so many that every value of every parameter occurs."""
    seen: set[tuple[str, str, int]] = set()
    chosen = []
    for item in items:
        callspec = getattr(item, "callspec", None)
        test = item.nodeid.partition("[")[0]
        values = {(test, name, index) for name, index in callspec.indices.items()} if callspec else set()
        if callspec is None or values - seen:
            chosen.append(item)
        seen |= values
    return chosen


class WatchedTest(NamedTuple):
    """A test that passed while it was watched."""

    id: str
    #: of the processor
    seconds: float
    #: names of the faults in what it called
    called: list[str]
    #: of these the ones that would have made a difference to the caller
    visible: list[str]

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]


def witnesses(name: str, watched: list[dict[str, Any]], is_value: bool) -> tuple[list[str], bool]:
    """The tests that may notice a fault; and whether the fault is that nothing is done.

    The quickest first, but a variant of each test before another variant of any.
    """
    tests = sorted((WatchedTest(**facts) for facts in watched), key=lambda test: test.seconds)
    called = [test.id for test in tests if name in test.called]
    visible = [test.id for test in tests if name in test.visible]
    return _one_variant_of_each_first(visible or called), not visible and not is_value


def _one_variant_of_each_first(ids: list[str]) -> list[str]:
    seen: Counter[str] = Counter()
    rounds = {}
    for test_id in ids:
        test = test_id.partition("[")[0]
        rounds[test_id] = seen[test]
        seen[test] += 1
    return sorted(ids, key=rounds.__getitem__)


class Examination:
    """One patch set, its tests, and what comes of planting faults."""

    def __init__(self, session: pytest.Session, request: Request) -> None:
        self._session = session
        module, _, attribute = request.groups.partition(":")
        groups = getattr(import_module(module), attribute)
        self._groups = [group for group in groups if not issubclass(group, EnvironmentStep)]

    def verdicts(self) -> Iterator[Verdict]:
        """One for each replacement that the tests put in, and one for each group that they never apply."""
        watched = in_fork(self._watch)
        if isinstance(watched, str):
            raise RuntimeError(f"the watched run of the tests {watched}")
        for name in watched["put_in"]:
            yield self._examine(name, *witnesses(name, watched["tests"], name in watched["values"]))
        applied = {name.partition(": ")[0] for name in watched["put_in"]}
        for group in self._groups:
            if group.name not in applied:
                yield Verdict(f"{group.name}: ", "", [])

    def _watch(self) -> dict[str, Any]:
        """Run every test: which passed, in how many processor seconds, and what they called."""
        recording = Recording()
        plant(self._groups, recording)
        tests = []
        items = self._session.items
        for item, following in zip(items, [*items[1:], None]):
            recording.called.clear()
            recording.visible.clear()
            start = time.process_time()
            reports = run(item, following)
            seconds = time.process_time() - start
            if reports and all(report.passed for report in reports):
                test = WatchedTest(item.nodeid, seconds, sorted(recording.called), sorted(recording.visible))
                tests.append(test._asdict())
        return {"put_in": sorted(recording.put_in), "values": sorted(recording.values), "tests": tests}

    def _examine(self, name: str, tests: list[str], does_nothing: bool) -> Verdict:
        said = []
        for test in tests[:TRIES]:
            outcome = in_fork(lambda chosen=test: self._run_with_fault(name, does_nothing, chosen))
            if outcome == "":
                return Verdict(name, test, said)
            said.append(f"{test} {outcome}")
        return Verdict(name, "", said)

    def _run_with_fault(self, name: str, does_nothing: bool, chosen: str) -> str:
        """ "" where an assertion fails; else what happened instead."""
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_SECONDS, LIMIT_SECONDS))
        plant(self._groups, fault(name, does_nothing))
        (item,) = (item for item in self._session.items if item.nodeid == chosen)
        reports = run(item, None)
        if any(report.when == "call" and report.failed and report.by_assertion for report in reports):
            return ""
        errors = [str(report.longrepr).splitlines()[-1] for report in reports if report.failed]
        return f"breaks: {errors[0]}" if errors else "passes"


def run(item: pytest.Item, following: pytest.Item | None) -> list[Any]:
    """The reports of a test that runs here and now, with all that belongs to it."""
    reporter = _Reporter()
    item.config.pluginmanager.register(reporter)
    try:
        item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
    finally:
        item.config.pluginmanager.unregister(reporter)
    return reporter.reports


class _Reporter:
    """Keeps the reports of one test, and which of them are of an assertion that failed."""

    def __init__(self) -> None:
        self.reports: list[Any] = []

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        outcome: Any = yield
        report = outcome.get_result()
        report.by_assertion = call.excinfo is not None and (
            call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            or call.excinfo.typename
            == "GradcheckError"  # by which torch.autograd.gradcheck says what it found
        )

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.reports.append(report)
