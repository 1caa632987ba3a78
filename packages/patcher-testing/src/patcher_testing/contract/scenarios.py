"""What happens in each fresh process. A scenario gives back the problems it found; none means that it passed."""

from __future__ import annotations

import functools
import importlib.util
import pickle
import sys
from types import FunctionType
from typing import Any, Callable, Iterator

from .subject import NOTHING, UNREADABLE, Slot, Subject

Problems = Iterator[str]
SCENARIOS: dict[str, Callable[[Subject], Problems]] = {}
#: names of those that begin with the library imported, unpatched
WITH_LIBRARY_IN_USE: list[str] = []
#: names of those in which the library is not what it is here
WITHOUT_LIBRARY: list[str] = []


def scenario(function: Callable[[Subject], Problems]) -> Callable[[Subject], Problems]:
    SCENARIOS[function.__name__] = function
    return function


def with_library_in_use(function: Callable[[Subject], Problems]) -> Callable[[Subject], Problems]:
    @functools.wraps(function)
    def whole(subject: Subject) -> Problems:
        subject.import_what_works_unpatched()
        yield from function(subject)

    WITH_LIBRARY_IN_USE.append(function.__name__)
    return scenario(whole)


def without_library(function: Callable[[Subject], Problems]) -> Callable[[Subject], Problems]:
    WITHOUT_LIBRARY.append(function.__name__)
    return scenario(function)


def _statuses(patcher: Any) -> dict[str, str]:
    """By target; a target that one group applied and another skipped is applied."""
    found: dict[str, str] = {}
    for result in patcher.report.results:
        if found.get(result.name) != "applied":
            found[result.name] = f"{result.status}" + (f" ({result.reason})" if result.reason else "")
        if f"{result.status}" == "applied":
            found[result.name] = "applied"
    return found


def _not_replaced(subject: Subject, patcher: Any, before: dict[str, Slot]) -> Problems:
    statuses = _statuses(patcher)
    now = subject.snapshot()
    for name, slot in before.items():
        status = statuses.get(name, "not in the report")
        if status != "applied":
            yield f"{name}: {status}, expected applied"
        elif now[name].is_same(slot):
            yield f"{name}: reported as applied, but still holds what it held before"


def _not_back(subject: Subject, before: dict[str, Slot]) -> Problems:
    for name, slot in subject.snapshot().items():
        if before[name] is not UNREADABLE and not slot.is_same(before[name]):
            yield f"{name}: holds {slot.value!r}, expected the very object it held before, {before[name].value!r}"


@with_library_in_use
def imported_before(subject: Subject) -> Problems:
    """The library is in use already when apply() runs."""
    before = subject.snapshot()
    yield from _not_replaced(subject, subject.new_patcher().apply(), before)


@scenario
def imported_after(subject: Subject) -> Problems:
    """apply() runs first, at the top of the program."""
    patcher = subject.new_patcher()
    for library in subject.libraries:
        if library in sys.modules:
            yield f"{library}: imported by the patch set's own import, before anything was applied"
    at_once = _statuses(patcher.apply())
    subject.import_library()
    # what is found by its source is known by name only once its module is there
    statuses = {**_statuses(patcher), **at_once}
    for target in subject.targets:
        if statuses.get(target.name) != "applied":
            yield f"{target.name}: {statuses.get(target.name, 'not in the report')}, expected applied"
    applied = subject.snapshot()
    patcher.restore()
    for name, slot in subject.snapshot().items():
        if slot.is_same(applied[name]):
            yield f"{name}: reported as applied, but restore() changed nothing"


@scenario
def applied_lazily(subject: Subject) -> Problems:
    """apply(lazy=True) imports nothing, and each target is replaced once its module is there."""
    patcher = subject.new_patcher()
    roots = set(subject.libraries)
    loaded = {name for name in sys.modules if name.partition(".")[0] in roots}
    patcher.apply(lazy=True)
    for name in sorted({name for name in sys.modules if name.partition(".")[0] in roots} - loaded):
        yield f"{name}: imported by apply(lazy=True)"
    subject.import_library()
    statuses = _statuses(patcher)
    for target in subject.targets:
        if statuses.get(target.name) != "applied":
            yield f"{target.name}: {statuses.get(target.name, 'not in the report')} after its module was imported"


@scenario
def applied_twice(subject: Subject) -> Problems:
    """A second apply() wraps nothing a second time."""
    patcher = subject.new_patcher().apply()
    once = subject.snapshot()
    patcher.apply()
    for name, slot in subject.snapshot().items():
        if not slot.is_same(once[name]):
            yield f"{name}: the second apply() put another object there"


@with_library_in_use
def restored(subject: Subject) -> Problems:
    """restore() puts back the identical objects, twice is once, and apply() works again."""
    before = subject.snapshot()
    patcher = subject.new_patcher().apply()
    patcher.restore()
    yield from _not_back(subject, before)
    patcher.restore()
    yield from _not_back(subject, before)
    yield from _not_replaced(subject, patcher.apply(), before)
    patcher.restore()
    yield from _not_back(subject, before)


@scenario
def disabled(subject: Subject) -> Problems:
    """A disabled group touches nothing; the others are applied."""
    with subject.new_patcher():
        # what one group makes importable shall not be missed of the others
        subject.import_library()
    before = subject.snapshot()
    for group in subject.group_names:
        patcher = subject.new_patcher().disable(group).apply()
        now = subject.snapshot()
        by_others = {result.name for result in patcher.report.results if f"{result.status}" == "applied"}
        own = {target.name for target in subject.targets if target.group == group} - by_others
        for name in sorted(own):
            if not now[name].is_same(before[name]):
                yield f"{name}: replaced although {group} is disabled"
        if any(result.group == group for result in patcher.report.results):
            yield f"{group}: in the report although it is disabled"
        patcher.restore()
        yield from _not_back(subject, before)


@without_library
def library_absent(subject: Subject) -> Problems:
    """Without the library nothing fails and nothing is applied to it."""
    for library in subject.libraries:
        if importlib.util.find_spec(library) is not None:
            yield f"{library}: still importable, the scenario proves nothing"
    yield from _skipped(subject, "without the library")


@without_library
def library_of_another_version(subject: Subject) -> Problems:
    """Outside the pins nothing fails and nothing is applied."""
    yield from _skipped(subject, "in a version outside the pins")


def _skipped(subject: Subject, circumstance: str) -> Problems:
    patcher = subject.new_patcher().apply()
    for result in patcher.report.results:
        concerns_library = result.module in subject.libraries or result.name in subject.group_names
        if f"{result.status}" == "failed" or (f"{result.status}" == "applied" and concerns_library):
            yield f"{result.name}: {result.status} {circumstance} ({result.reason})"
    if not patcher.report.results:
        yield f"the report is empty {circumstance}: it does not say why nothing was done"


@with_library_in_use
def pickled(subject: Subject) -> Problems:
    """What is installed pickles by reference wherever the original did."""
    picklable = {name for name, slot in subject.snapshot().items() if _pickles(slot.function)}
    subject.new_patcher().apply()
    for name, slot in subject.snapshot().items():
        if name in picklable and not _pickles(slot.function):
            yield f"{name}: {slot.function!r} does not pickle by reference, the original did"


def _pickles(value: Any) -> bool:
    if not isinstance(value, (FunctionType, type)):
        return False
    try:
        return pickle.loads(pickle.dumps(value)) is value
    except (pickle.PicklingError, AttributeError, ImportError):
        return False


@with_library_in_use
def stale_references(subject: Subject) -> Problems:
    """No loaded module still holds an original; and the journal's original is the object that was there."""
    before = {name: slot.function for name, slot in subject.snapshot().items() if slot is not UNREADABLE}
    patcher = subject.new_patcher().apply()
    yield from _wrong_originals(subject, patcher, before)
    originals = {
        id(value): name
        for name, value in before.items()
        if isinstance(value, (FunctionType, type)) and f"{value.__module__}.{value.__qualname__}" == name
    }
    roots = _keepers()
    for module_name, module in list(sys.modules.items()):
        if module is None or module_name.partition(".")[0] in roots:
            continue
        for name, value in list(getattr(module, "__dict__", {}).items()):
            path = f"{module_name}.{name}"
            kept = module_name in subject.kept or path in subject.kept
            if id(value) in originals and not kept and not name.startswith("__"):
                yield f"{path}: still holds the original of {originals[id(value)]}"


def _keepers() -> set[str]:
    """Roots whose modules may hold originals: the engine, this package, and every installed patch set."""
    from patcher_core.discovery import patch_sets

    return {"patcher_core", "patcher_testing", *(found.module.partition(".")[0] for found in patch_sets())}


def _wrong_originals(subject: Subject, patcher: Any, before: dict[str, Any]) -> Problems:
    """Apply the patches one by one in a list of our own, so that each can be asked for its original."""
    from patcher_core import Patcher

    backends = {result.group: result.backend.partition(" ")[0] for result in patcher.report.results}
    patcher.restore()
    patches = [
        patch for group in subject.load_groups() for patch in _atomic_patches(group, subject, backends)
    ]
    with Patcher().add(*patches):
        applied = [patch for patch in patches if patch.is_applied]
        for patch in applied:
            found = before.get(patch.target, NOTHING)
            if not patch.create and found is not NOTHING and patch.original is not found:
                yield f"{patch.target}: patch.original is {patch.original!r}, what was there is {found!r}"
            if patch.original is not None and patch.original is patch.replacement:
                yield f"{patch.target}: the original is the replacement, so comparing the two proves nothing"
    patcher.apply()


def _atomic_patches(group: Any, subject: Subject, backends: dict[str, str]) -> Iterator[Any]:
    from patcher_core import AtomicPatch

    if isinstance(group, AtomicPatch):
        yield group
    elif hasattr(group, "patches"):
        backend = backends.get(group.name)
        options = {**subject.options, **({"backend": backend} if backend else {})}
        for part in group.patches(options or None):
            yield from _atomic_patches(part, subject, backends)


@with_library_in_use
def signatures(subject: Subject) -> Problems:
    """In strict mode, where a replacement that upstream's callers do not fit is an error, apply() succeeds."""
    from patcher_core import PatchError, configure_patcher_logging

    configure_patcher_logging(on_fail="exception")
    try:
        subject.new_patcher().apply()
    except PatchError as error:
        yield str(error)


@scenario
def declarations(subject: Subject) -> Problems:
    """Every group says why it exists, where upstream stands, and what it was verified with; names are unique."""
    names: dict[str, str] = {}
    for group in subject.load_groups():
        cls = group if isinstance(group, type) else type(group)
        for attribute in ("why", "upstream"):
            if not getattr(cls, attribute, ""):
                yield f"{cls.__name__}: has no `{attribute}`"
        if not (cls.requires or cls.library):
            yield f"{cls.__name__}: has neither `requires` nor a `library` whose pins hold for it"
        for name in {cls.name, cls.legacy_name} - {""}:
            if name in names:
                yield f"{cls.__name__}: its name {name!r} is also that of {names[name]}"
            names[name] = cls.__name__
