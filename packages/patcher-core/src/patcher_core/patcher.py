"""``Patcher``: collects patches and import control, applies them in order, restores them."""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Any, Iterable, Mapping, Sequence

from .after_writes import follow_copies, lend_imports
from .announcing import Announcer, tell_that_nothing_was_applied
from .arming import Arming
from .entries import GroupEntry, check_conflicts, entry_of
from .environment import Environment, is_environment_step
from .events import patcher_logger
from .installation import Entry, Installation, Selection
from .journal import Change, Layer
from .results import ApplyReport, PatchResult, PatchStatus, with_versions
from .training_options import TrainingOptions

if TYPE_CHECKING:
    from types import TracebackType

    from .imports import ImportControl

_numbers = itertools.count(1)


class Patcher(TrainingOptions):
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
        self._backend = self._checked_backend(backend, "backend")
        self._entries: list[Entry] = []
        self._disabled: list[Any] = []
        self._control: ImportControl | None = None
        self._notes: list[str] = []
        self._announcer = Announcer()
        self._arming = Arming(self._imported)
        self._environment = Environment(lambda step: self._is_disabled(entry_of(step, None, self)))
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
            ValueError: naming an option that none of the groups takes, or a backend that nobody has registered;
                nothing is added then.
        """
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options must be a mapping or None, got {options!r}")
        if options is not None:
            self._checked_backend(options.get("backend"), "options['backend']")
        entries = [entry_of(patch, options, self) for patch in patches]
        if options and patches:
            from .group_options import refuse_unknown_options

            refuse_unknown_options(options, [entry.cls for entry in entries if isinstance(entry, GroupEntry)])
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
        self._import_control().skip(*names, on_call=on_call, only_for=only_for)
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
        control = self._import_control()
        control.replace(module_path, replacement, base_module=base_module, exports=exports, **attrs)
        return self

    def inject_import(self, source_module: str, class_name: str, target_module: str) -> Patcher:
        """Make ``source_module.class_name`` an attribute of ``target_module`` unless it has one; runs at once."""
        self._import_control().inject(source_module, class_name, target_module)
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
        training = self._training.notes if self._training is not None else ()
        notes = (*self._notes, *training, *self._environment.notes)
        outcomes = () if self._control is None else tuple(self._control.outcomes)
        return ApplyReport(tuple(results), outcomes, notes)

    def apply(self, allow_internal_format: bool | None = None, *, lazy: bool = False) -> Patcher:
        """Apply everything that was added and is not in force yet.

        Applying twice wraps once; patches added since, and those that could not be applied before, are tried again.
        A module that is reloaded later is patched again.

        Args:
            allow_internal_format: the same as :meth:`allow_internal_format`; None leaves that as it is.
            lazy: import nothing; a target in a module that is not imported yet is ``pending`` and applied right
                after that module's import, before its importer sees it.

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
        if self._training is not None:
            self._training.check()
        before = self._installations_in_force() if self._is_applied else set()
        report_before = self.report.to_dict() if self._is_applied and summary else None
        choice = Selection(self._is_disabled, self._backend)
        if self._control is not None:
            self._control.activate()
        groups = [entry for entry in self._entries if isinstance(entry, GroupEntry)]
        steps = [group.cls for group in groups if is_environment_step(group.cls)]
        first = [group for group in groups if group.applies_before_collect and not self._is_disabled(group)]
        changes: list[Change] = []
        try:
            self._environment.prepare(steps, imports=imports)
            for stage in (first, [entry for entry in self._enabled() if not first or entry not in first]):
                for entry in stage:
                    entry.collect(choice, imports=imports)
                self._refuse_conflicts_of_members(choice)
                for entry in stage:
                    for installation in entry.enabled_installations(choice):
                        installation.install(changes, imports=imports)
            follow_copies(changes, list(sys.modules.items()))
            installations = self._installations()
            lend_imports(installations)
            self._is_applied = True
            self._tell_entries(installations)
            self._arming.arm(installations)
            self._environment.patched(written=True)
            if self._training is not None:
                self._training.apply()
            if summary:
                self._environment.run(imports=imports)
                if report_before is not None and not changes and self.report.to_dict() == report_before:
                    patcher_logger.warning(f"{self.name} is applied already; nothing changed")
                    return self
                patcher_logger.flush_summary(lambda: self.report)
                if not self._has_any(PatchStatus.APPLIED, PatchStatus.PENDING):
                    tell_that_nothing_was_applied(self.report)
        except BaseException:  # Control-C as well: nobody would know what to restore
            self._arming.disarm()
            self._take_back([one for one in self._installations() if one not in before])
            self._arming.arm(one for one in self._installations() if one in before)
            self._restore_imports()
            self._environment.forget()
            if self._training is not None and not before:
                self._training.restore()
            self._is_applied = bool(before)
            raise
        return self

    def restore(self) -> Patcher:
        """Undo everything: attributes, copies, imports. Doing it twice does no harm."""
        self._arming.disarm()
        if self._training is not None:
            self._training.restore()
        remarks = self._take_back(self._installations())
        self._restore_imports()
        self._environment.forget()
        self._is_applied = False
        self._announcer.start_over()
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
    @staticmethod
    def _checked_backend(backend: str | None, argument: str) -> str | None:
        if backend is None:
            return None
        from .backends import checked_backend

        return checked_backend(backend, argument)

    def _import_control(self) -> ImportControl:
        """Made and loaded when the first rule comes."""
        if self._control is None:
            from .imports import ImportControl

            self._control = ImportControl()
        return self._control

    def _restore_imports(self) -> None:
        if self._control is not None:
            self._control.restore()

    def _is_disabled(self, entry: Entry) -> bool:
        return any(entry.is_meant_by(disabled) for disabled in self._disabled)

    def _enabled(self) -> list[Entry]:
        return (
            [entry for entry in self._entries if not self._is_disabled(entry)]
            if self._disabled
            else self._entries
        )

    def _refuse_conflicts_of_members(self, choice: Selection) -> None:
        """Of groups that came with a patch set or in another group; they count only if they are for here."""
        entries = [entry for entry in self._enabled() if isinstance(entry, GroupEntry)]
        conflict = check_conflicts([group for entry in entries for group in entry.surviving_groups(choice)])
        if conflict:
            raise ValueError(conflict)

    def _installations(self) -> list[Installation]:
        return [one for entry in self._entries for one in entry.tree]

    def _has_any(self, *statuses: PatchStatus) -> bool:
        installations = (one for entry in self._entries for one in entry.tree)
        return any(line.status in statuses for one in installations for line in one.all_lines())

    def _installations_in_force(self) -> set[Installation]:
        """Those that have written something, or wait for an import."""
        return {
            one
            for one in self._installations()
            for line in one.all_lines()
            if isinstance(line, Layer) or line.status is PatchStatus.PENDING
        }

    def _take_back(self, installations: list[Installation]) -> list[str]:
        changes: list[Change] = []
        remarks: list[str] = []
        for installation in reversed(installations):
            remarks += installation.remove(changes)
        follow_copies(changes, list(sys.modules.items()))
        self._environment.patched(written=False)
        return remarks

    def _imported(
        self, installations: list[Installation], changes: list[Change], modules: list[tuple[str, Any]]
    ) -> None:
        """A module was imported or reloaded, and ``installations`` were tried again."""
        follow_copies(changes, modules)
        lend_imports(installations)
        self._environment.patched(written=True)
        self._announcer.tell_installations(installations)

    def _tell_entries(self, installations: list[Installation]) -> None:
        """Log what is new in all of them, and what was to be disabled but is not there."""
        entries = self._enabled()
        for part in [part for entry in entries if entry.members or entry.outcome for part in entry.walk()]:
            if part.outcome is not None:
                self._announcer.tell_result(part.outcome)
        self._announcer.tell_installations(installations)
        if self._disabled and not self._environment.is_waiting:
            parts = (part for entry in self._entries for part in entry.walk())
            known = self._environment.step_names.union(*(part.names for part in parts))
            self._announcer.tell_unknown_disabled(self._disabled, known, self)
