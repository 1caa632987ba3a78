"""``Patcher``: collects patches and import control, applies them in order, restores them."""

from __future__ import annotations

import contextlib
import difflib
import itertools
import sys
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Mapping, Sequence

from .arming import Arming
from .backends import checked_backend
from .entries import Entry, Selection, check_conflicts, checked_item
from .environment import Environment, is_environment_step
from .events import LogAction, PatchError, patcher_logger
from .imports import ImportControl
from .installation import Installation, Line
from .journal import Transition
from .references import follow
from .results import ApplyReport, PatchResult, PatchStatus

if TYPE_CHECKING:
    from types import TracebackType

_numbers = itertools.count(1)


class Patcher:
    """A set of patches and import rules for one program.

    Every configuring method gives back the patcher itself. ``with patcher:`` applies and restores, also on an error.
    What the environment does (a library absent, broken or of another version) never stops the others or the
    program; mistakes in the program raise. With ``configure_patcher_logging(on_fail="exception")`` failures raise
    :class:`PatchError` as well, after the writes of that ``apply()`` were undone.

    Args:
        module_patches, blacklist, allow_internal_format: the 1.0 form: function patches by module name, and the
            names of those to leave out; see :mod:`patcher_core.legacy`.
        backend: which implementation patches shall use; None lets each patch choose what runs here.
        name: what reports of other patchers call it.
    """

    def __init__(
        self,
        module_patches: Mapping[str, Iterable[Any]] | None = None,
        blacklist: Iterable[str] | None = None,
        allow_internal_format: bool = False,
        *,
        backend: str | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or f"patcher {next(_numbers)}"
        self._backend = checked_backend(backend)
        self._entries: list[Entry] = []
        self._disabled: list[Any] = []
        self._imports = ImportControl()
        self._notes: list[str] = []
        self._reported: set[Any] = set()
        self._arming = Arming(self._imported)
        self._environment = Environment(lambda step: self._is_disabled(Entry(step, None, self)))
        self._is_applied = False
        if module_patches is not None:
            from .legacy import add_module_patches

            add_module_patches(self, module_patches, blacklist or ())
        if allow_internal_format:
            self.allow_internal_format()

    # ------------------------------------------------------------------ configuring
    def add(self, *patches: Any, options: Mapping[str, Any] | None = None) -> Patcher:
        """Add patches and groups (classes or instances), to be applied in this order.

        Args:
            options: handed to ``patches()`` of every group in this call.

        Raises:
            TypeError: naming what is no patch; nothing is added then.
        """
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options must be a mapping or None, got {options!r}")
        if options is not None:
            checked_backend(options.get("backend"), "options['backend']")
        entries = [Entry(checked_item(patch), options, self) for patch in patches]
        known = {id(entry.item) for entry in self._entries}
        self._entries += [entry for entry in entries if id(entry.item) not in known]
        conflict = check_conflicts(self._enabled())
        if conflict:
            patcher_logger.warning(conflict)
        return self

    def disable(self, *patches: Any) -> Patcher:
        """Leave these out: names (of groups, 1.0 names, targets), classes or instances."""
        for patch in patches:
            if not isinstance(patch, (str, type)) and not hasattr(patch, "name"):
                raise TypeError(f"disable() takes names, classes and patches, got {patch!r}")
            if isinstance(patch, str) and not patch:
                raise ValueError("disable() got an empty name")
        self._disabled += patches
        return self

    def skip_import(
        self, *names: str, on_call: str = "none", only_for: Sequence[str] | None = None
    ) -> Patcher:
        """Let these modules and all their children import as empty stubs; acts at once.

        Args:
            on_call: what calling a stub from inside a function does: ``"none"`` gives back None, ``"raise"`` raises
                :class:`SkippedModuleError`.
            only_for: packages whose modules see the stubs; everybody by default. A library that decides by trying
                ``import name`` (apex in T5, triton in torch) believes in a stub that everybody sees: name the
                model's packages here.
        """
        self._imports.skip(*names, on_call=on_call, only_for=only_for)
        return self

    def replace_import(
        self,
        module_path: str,
        replacement: Any = None,
        *,
        base_module: Any = None,
        exports: Mapping[str, Any] | None = None,
        **attrs: Any,
    ) -> Patcher:
        """Give importers of ``module_path`` a stand-in; acts at once.

        Args:
            replacement: a module, the path of one, or ``replace_with.module(base, **exports)``.
            base_module: instead of a replacement: the module whose exports the stand-in starts from.
            exports, attrs: names of the stand-in, over those of the base.
        """
        self._imports.replace(module_path, replacement, base_module=base_module, exports=exports, **attrs)
        return self

    def inject_import(self, source_module: str, class_name: str, target_module: str) -> Patcher:
        """Make ``source_module.class_name`` an attribute of ``target_module`` unless it has one; runs at once."""
        self._imports.inject(source_module, class_name, target_module)
        return self

    def allow_internal_format(self, allow: bool = True) -> Patcher:
        """Let tensors on the device take formats of its own, which are off by default; acts at once if applied."""
        if not isinstance(allow, bool):
            raise TypeError(f"allow must be True or False, got {allow!r}")
        self._environment.change("allow_internal_format", allow)
        return self

    def disallow_internal_format(self) -> Patcher:
        """Undo :meth:`allow_internal_format`."""
        return self.allow_internal_format(False)

    # ------------------------------------------------------------------ applying
    @property
    def is_applied(self) -> bool:
        """True from ``apply()`` to ``restore()``."""
        return self._is_applied

    @property
    def report(self) -> ApplyReport:
        """What this patcher has done so far."""
        results = with_versions(result for entry in self._enabled() for result in entry.results())
        notes = (*self._notes, *self._environment.notes)
        return ApplyReport(tuple(results), tuple(self._imports.outcomes), notes)

    def apply(self, lazy: bool = False, *, allow_internal_format: bool | None = None) -> Patcher:
        """Apply everything that was added and is not in force yet.

        Applying twice wraps once; patches added since, and those that could not be applied before, are tried again.
        A module that is reloaded later is patched again.

        Args:
            lazy: import nothing; a target in a module that is not imported yet is ``pending`` and applied right
                after that module's import, before its importer sees it.
            allow_internal_format: the same as :meth:`allow_internal_format`; None leaves that as it is.

        Raises:
            ValueError: two groups that exclude each other are both enabled.
            PatchError: in strict mode, something failed.
        """
        if allow_internal_format is not None:
            self.allow_internal_format(allow_internal_format)
        return self._apply(imports=not lazy, summary=True)

    def _apply_alone(self) -> tuple[PatchResult, ...]:
        """Apply without a summary, for a patch that is applied on its own; gives back its results."""
        return self._apply(imports=True, summary=False).report.results

    def _apply(self, *, imports: bool, summary: bool) -> Patcher:
        conflict = check_conflicts(self._enabled())
        if conflict:
            raise ValueError(conflict)
        before = self._installations_in_force()
        choice = Selection(self._is_disabled, self._backend)
        self._imports.activate()
        steps = [entry.cls for entry in self._entries if is_environment_step(entry.cls)]
        transitions: list[Transition] = []
        first = [entry for entry in self._enabled() if getattr(entry.item, "apply_before_collect", False)]
        try:
            self._environment.prepare(steps, imports=imports)
            for stage in (first, [entry for entry in self._enabled() if entry not in first]):
                for entry in stage:
                    entry.collect(choice, imports=imports)
                for entry in stage:
                    for installation in entry.enabled_installations(choice):
                        transitions += installation.install(imports=imports)
            self._follow(transitions, list(sys.modules.items()))
            self._lend(self._installations())
            self._is_applied = True
            self._tell_entries()
            self._arming.arm(self._installations())
            self._environment.patched(written=True)
            if summary:
                self._environment.run(imports=imports)
                patcher_logger.flush_summary(lambda: self.report)
                if not self._has_any(PatchStatus.APPLIED, PatchStatus.PENDING):
                    _tell_that_nothing_was_applied(self.report)
        except (PatchError, SystemExit):
            self._take_back([one for one in self._installations() if one not in before])
            self._imports.restore()
            self._environment.forget()
            self._is_applied = bool(before)
            raise
        return self

    def restore(self) -> Patcher:
        """Undo everything: attributes, copies, imports. Doing it twice does no harm."""
        self._arming.disarm()
        remarks = self._take_back(self._installations())
        self._imports.restore()
        self._environment.forget()
        self._is_applied = False
        self._reported.clear()
        self._notes.clear()
        for remark in remarks:
            patcher_logger.warning(remark)
        return self

    def __enter__(self) -> Patcher:
        return self.apply()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.restore()

    # ------------------------------------------------------------------ saying
    def print_info(self, diff: bool = False) -> Patcher:
        """Log one line per patch with its state, by library; with ``diff`` what is replaced by what, as source."""
        from .reporting.info import render_info

        patcher_logger.info(render_info(self._entries, self._is_disabled, diff))
        return self

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        state = "applied" if self._is_applied else "not applied"
        return f"<Patcher {self.name!r}: {len(self._entries)} entries, {state}>"

    # ------------------------------------------------------------------ inside
    def _is_disabled(self, entry: Entry) -> bool:
        return any(entry.is_meant_by(disabled) for disabled in self._disabled)

    def _enabled(self) -> list[Entry]:
        return (
            [entry for entry in self._entries if not self._is_disabled(entry)]
            if self._disabled
            else self._entries
        )

    def _installations(self) -> list[Installation]:
        return [one for entry in self._entries for one in entry.tree]

    def _has_any(self, *statuses: PatchStatus) -> bool:
        return any(line.status in statuses for one in self._installations() for line in one.all_lines())

    def _installations_in_force(self) -> set[Installation]:
        return {one for one in self._installations() if any(line.layer for line in one.all_lines())}

    def _take_back(self, installations: list[Installation]) -> list[str]:
        transitions: list[Transition] = []
        remarks: list[str] = []
        for installation in reversed(installations):
            changed, said = installation.remove()
            transitions += changed
            remarks += said
        follow(transitions, list(sys.modules.items()), self._patch_set_roots())
        self._environment.patched(written=False)
        return remarks

    def _imported(
        self, installations: list[Installation], transitions: list[Transition], modules: list[tuple[str, Any]]
    ) -> None:
        """A module was imported or reloaded, and ``installations`` were tried again."""
        self._follow(transitions, modules)
        self._lend(installations)
        self._environment.patched(written=True)
        self._tell(installations)

    def _follow(self, transitions: list[Transition], modules: list[tuple[str, Any]]) -> None:
        """Rebind the copies that others took of what was replaced, and name those that are kept on purpose."""
        if not transitions:
            return
        _, kept = follow(transitions, modules, self._patch_set_roots())
        for copy in kept:
            patcher_logger.debug(f"{copy.path} keeps the original of {copy.transition.slot.attribute.path}")

    def _patch_set_roots(self) -> set[str]:
        from .discovery import patch_sets

        return {patch_set.module.partition(".")[0] for patch_set in patch_sets()}

    def _lend(self, installations: list[Installation]) -> None:
        """Let functions that wait for lent imports have them now, before anything is compiled."""
        lent = sys.modules.get("patcher_core.lent_imports")
        if lent is None:
            return
        layers = [line.layer for one in installations for line in one.all_lines() if line.layer is not None]
        candidates = [layer.value for layer in layers]
        for layer in layers:  # a dispatcher shows neither of the functions that it calls
            candidates.append(getattr(layer.patch, "runtime_check", None))
            with contextlib.suppress(PatchError):  # a path that resolved when written need not now
                candidates.append(getattr(layer.patch, "replacement", None))
        for candidate, error in lent.lend_all(candidates):
            patcher_logger.warning(
                f"with_imports of {getattr(candidate, '__qualname__', candidate)}: {error}"
            )

    def _tell_entries(self) -> None:
        """Log what is new in all of them, and what was to be disabled but is not there."""
        for entry in self._enabled():
            for part in entry.walk():
                if part.outcome is not None:
                    self._tell_result(part.outcome)
            self._tell(list(entry.enabled_installations(Selection(self._is_disabled, self._backend))))
        self._name_unknown_disabled()

    def _tell(self, installations: list[Installation]) -> None:
        """Log what is new in these."""
        tell_applied = patcher_logger.logs_single_events("on_apply")
        for installation in installations:
            lines = list(installation.all_lines())
            if tell_applied or any(line.status is not PatchStatus.APPLIED for line in lines):
                for result in installation.results():
                    self._tell_result(result)
            for line in lines:
                self._tell_doubt(line)

    def _tell_result(self, result: PatchResult) -> None:
        key = (result.name, result.group, result.status, result.reason)
        if key in self._reported:
            return
        self._reported.add(key)
        arguments = {"reason": result.reason, "package": result.module, "patch_name": result.group}
        if result.status is PatchStatus.APPLIED:
            patcher_logger.applied(result.name, **arguments)
        elif result.status is PatchStatus.FAILED:
            patcher_logger.failed(result.name, **arguments)
        elif result.status is PatchStatus.SKIPPED and not result.quiet:
            patcher_logger.skipped(result.name, **arguments)

    def _tell_doubt(self, line: Line) -> None:
        """Warn of what may go wrong although the patch was applied; strict mode raises."""
        key = (line.path, line.doubt)
        if not line.doubt or key in self._reported:
            return
        self._reported.add(key)
        if patcher_logger.action("on_fail") in (LogAction.EXCEPTION, LogAction.EXIT):
            patcher_logger.failed(line.path, reason=line.doubt)
        patcher_logger.warning(f"{line.path}: {line.doubt}")

    def _name_unknown_disabled(self) -> None:
        parts = [part for entry in self._entries for part in entry.walk()]
        names = sorted({name for part in parts for name in part.names} | self._environment.step_names)
        if self._environment.is_waiting:
            return
        for disabled in self._disabled:
            if isinstance(disabled, str) and disabled not in names and disabled not in self._reported:
                self._reported.add(disabled)
                near = difflib.get_close_matches(disabled, names, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                patcher_logger.warning(f"disable({disabled!r}) matches no patch of {self.name}{hint}")


def with_versions(results: Iterable[PatchResult]) -> Iterator[PatchResult]:
    """The results with the version of each library, looked up once."""
    from .library_version import get_version

    versions: dict[str, str | None] = {}
    for result in results:
        if result.version is None and result.module:
            if result.module not in versions:
                versions[result.module] = get_version(result.module)
            result = result._replace(version=versions[result.module])
        yield result


def _tell_that_nothing_was_applied(report: ApplyReport) -> None:
    """One line for the user who would otherwise wonder; failures have been told one by one already."""
    if not report.results:
        return
    if report.failed:
        patcher_logger.warning(f"nothing was applied: {len(report.failed)} patches failed, as told above")
        return
    reasons = [result.reason for result in report.results]
    commonest = max(reasons, key=reasons.count)
    patcher_logger.warning(
        f"nothing was applied; the commonest reason, for {reasons.count(commonest)} of {len(reasons)} patches:"
        f" {commonest}"
    )
