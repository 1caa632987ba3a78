"""ImportControl: what one patcher declared about imports, done at once, undone and put back on demand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Mapping, NamedTuple

from patcher_core import distributions
from patcher_core.events import patcher_logger

from . import probes, replacements, scoped_skips, skips
from .finder import finder
from .injections import Injection
from .names import checked_dotted_name, checked_identifier
from .post_import import Subscription
from .replacements import Base, ModuleReplacement, StandInModules, replacement_from
from .scoped_skips import ScopedSkip
from .skips import SkippedModules

if TYPE_CHECKING:
    from collections.abc import Sequence

ACTIVE = "active"
FAILED = "failed"
TOO_LATE = "too late"
RESTORED = "restored"

#: Packages that others believe in as soon as ``import NAME`` works, without asking any probe.
_BELIEVED_WHEN_IMPORTABLE = {"triton": "torch takes the stub for the compiler and torch.compile fails"}


class ImportOutcome(NamedTuple):
    """What became of one declaration.

    Attributes:
        kind: ``"skipped"``, ``"replaced"`` or ``"injected"``.
        name: the dotted name it is about.
        status: ``"active"``, ``"failed"``, ``"too late"``, or ``"restored"`` after ``restore()``.
        reason: why it is not active; empty if it is.
    """

    kind: str
    name: str
    status: str
    reason: str = ""


class ImportControl:
    """Skips, replacements and injections of one patcher.

    Each acts when it is declared and stays until :meth:`restore`; :meth:`activate` puts all of them back
    after that.
    """

    def __init__(self) -> None:
        self._declarations: list[_Declaration] = []

    def skip(self, *names: str, on_call: str = "none", only_for: Sequence[str] | None = None) -> None:
        """Let the modules ``names``, and all modules below them, import as stubs (see :mod:`.stubs`).

        Libraries that probe (``find_spec``, ``importlib.metadata``) find them absent. One that tries
        ``import NAME`` and catches ImportError believes in them: name the packages that need the stub then.
        A name that no finder has, of a real module that is no package (``"pkg.mod.Class"``), becomes a stub
        attribute of that module.

        Args:
            names: dotted names.
            on_call: what a stub does that is called from inside a function: ``"none"`` returns None and says
                so once, ``"raise"`` raises SkippedModuleError.
            only_for: packages whose modules see the stubs; None for every importer.

        Raises:
            TypeError, ValueError: naming the argument; nothing is skipped then.
        """
        checked = [checked_dotted_name("skip_import: name", name) for name in names]
        if on_call not in skips.ON_CALL:
            raise ValueError(f"skip_import: on_call must be 'none' or 'raise', got {on_call!r}")
        scope = _checked_scope(only_for)
        for name in checked:
            self._declare(_Skip(name, on_call, scope))

    def replace(
        self,
        old: str,
        replacement: Base | ModuleReplacement | None = None,
        *,
        base_module: Base | None = None,
        exports: Mapping[str, Any] | None = None,
        **attrs: Any,
    ) -> None:
        """Let ``old`` import as a stand-in: a snapshot of the base, with ``exports`` and ``attrs`` on top.

        The snapshot is made when ``old`` is imported; nothing is imported before. Where the base is a
        package, its submodules can be imported below ``old`` too.

        Raises:
            TypeError, ValueError: naming the argument; nothing is replaced then.
        """
        checked_dotted_name("replace_import: old", old)
        self._declare(_Replace(old, replacement_from(old, replacement, base_module, exports, attrs)))

    def inject(self, source: str, name: str, target: str) -> None:
        """Give the module ``target`` the name ``name`` of the module ``source``, importing both now.

        A name that ``target`` has is never overwritten. A failure is logged at WARNING with its cause.

        Raises:
            TypeError, ValueError: naming the argument; nothing is imported then.
        """
        checked_dotted_name("inject_import: source", source)
        checked_identifier("inject_import: name", name)
        checked_dotted_name("inject_import: target", target)
        self._declare(_Inject(source, name, target))

    def activate(self) -> None:
        """Put everything declared into effect that :meth:`restore` took back, in the order of declaration."""
        finder.ensure_installed()
        for declaration in self._declarations:
            declaration.activate()

    def restore(self) -> None:
        """Undo everything, the last first; names that importers already took keep what they took."""
        for declaration in reversed(self._declarations):
            declaration.deactivate()

    @property
    def outcomes(self) -> list[ImportOutcome]:
        """One outcome for each declared name, in the order of the declarations."""
        return [declaration.outcome() for declaration in self._declarations]

    def _declare(self, declaration: _Declaration) -> None:
        self._declarations.append(declaration)
        declaration.activate()


class _Declaration:
    """One declared name: how it is put into effect and taken back."""

    kind = ""

    def __init__(self, name: str) -> None:
        self.name = name
        self._status = RESTORED
        self._reason = ""

    def activate(self) -> None:
        """Put it into effect, unless that was done, or tried and reported, since the last :meth:`deactivate`."""
        if self._status == RESTORED:
            self._put_into_effect()

    def deactivate(self) -> None:
        """Take it back."""
        if self._status != RESTORED:
            self._take_back()
            self._status, self._reason = RESTORED, ""

    def _put_into_effect(self) -> None:
        raise NotImplementedError

    def _take_back(self) -> None:
        raise NotImplementedError

    def outcome(self) -> ImportOutcome:
        return ImportOutcome(self.kind, self.name, self._status, self._reason)

    def _settle(self, status: str, reason: str = "") -> None:
        self._status, self._reason = status, reason
        if reason:
            patcher_logger.warning(f"{self.name} is not {self.kind} ({status}): {reason}")
        else:
            patcher_logger.debug(f"{self.name} is {self.kind}")


class _Skip(_Declaration):
    kind = "skipped"

    def __init__(self, name: str, on_call: str, only_for: tuple[str, ...] | None) -> None:
        super().__init__(name)
        self._on_call = on_call
        self._only_for = only_for
        self._active: SkippedModules | ScopedSkip | None = None
        self._parent_import: Subscription | None = None

    def _put_into_effect(self) -> None:
        if self._only_for is not None:
            self._active = ScopedSkip(self.name, self._on_call, self._only_for)
            scoped_skips.add(self._active)
        else:
            reason = skips.reason_too_late(self.name)
            if reason:
                self._settle(TOO_LATE, reason)
                return
            self._warn_if_believed()
            self._active = SkippedModules(self.name, self._on_call)
            finder.add_source(self._active)
            self._fill_parent(self._active)
            if "." not in self.name:
                distributions.hide_library(self.name)
        probes.follow_declarations()
        self._settle(ACTIVE)

    def _take_back(self) -> None:
        if isinstance(self._active, ScopedSkip):
            scoped_skips.remove(self._active)
        elif self._active is not None:
            finder.remove_source(self._active)
            self._active.empty_parent()
            if "." not in self.name:
                distributions.show_library(self.name)
        if self._parent_import is not None:
            self._parent_import.cancel()
        self._active = self._parent_import = None
        probes.follow_declarations()

    def outcome(self) -> ImportOutcome:
        # Only once the parent was imported can it be seen that the name is not that of a module.
        shown_to_all = isinstance(self._active, SkippedModules)
        reason = skips.reason_not_a_module(self.name) if shown_to_all else ""
        return ImportOutcome(self.kind, self.name, FAILED, reason) if reason else super().outcome()

    def _fill_parent(self, source: SkippedModules) -> None:
        parent = self.name.rpartition(".")[0]
        if parent in sys.modules:
            source.fill_parent(sys.modules[parent])
        elif parent:
            self._parent_import = Subscription(parent, source.fill_parent)

    def _warn_if_believed(self) -> None:
        consequence = _BELIEVED_WHEN_IMPORTABLE.get(self.name)
        if consequence:
            patcher_logger.warning(
                f"{self.name} is skipped for every importer: {consequence}; "
                f"name the packages that need it: skip_import({self.name!r}, only_for=('projects',))"
            )


class _Replace(_Declaration):
    kind = "replaced"

    def __init__(self, name: str, replacement: ModuleReplacement) -> None:
        super().__init__(name)
        self._replacement = replacement
        self._active: StandInModules | None = None

    def _put_into_effect(self) -> None:
        reason = replacements.reason_too_late(self.name)
        if reason:
            self._settle(TOO_LATE, reason)
            return
        self._active = StandInModules(self.name, self._replacement)
        finder.add_source(self._active)
        self._settle(ACTIVE)

    def _take_back(self) -> None:
        if self._active is not None:
            finder.remove_source(self._active)
            self._active = None


class _Inject(_Declaration):
    kind = "injected"

    def __init__(self, source: str, name: str, target: str) -> None:
        super().__init__(f"{target}.{name}")
        self._injection = Injection(source, name, target)

    def _put_into_effect(self) -> None:
        reason = self._injection.run()
        self._settle(FAILED if reason else ACTIVE, reason)

    def _take_back(self) -> None:
        self._injection.undo()


def _checked_scope(only_for: Sequence[str] | None) -> tuple[str, ...] | None:
    if only_for is None:
        return None
    if isinstance(only_for, str) or not hasattr(only_for, "__iter__"):
        raise TypeError(
            f"skip_import: only_for must be a tuple of package names such as ('projects',), got {only_for!r}"
        )
    scope = tuple(checked_dotted_name("skip_import: only_for", package) for package in only_for)
    if not scope:
        raise ValueError(
            "skip_import: only_for is empty; name a package, or leave it out to skip for every importer"
        )
    return scope
