"""Environment steps: what ``apply()`` does once for the whole program rather than at a target.

The core knows none. A patch set registers a module under the import root of the library that its steps set up::

    [project.entry-points."patcher.environment"]
    torch = "torch_patches.environment"

The module lists the steps in ``STEPS``, in the order in which they run. It is loaded where that library is installed;
in a lazy apply when the library is imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterable, Mapping, Sequence

from .events import PatchError, patcher_logger
from .groups import Patch
from .imports import post_import
from .results import described_error

if TYPE_CHECKING:
    from types import ModuleType

ENTRY_POINT_GROUP = "patcher.environment"


class EnvironmentStep(Patch):
    """One step. Subclass it and override the hooks that it needs; it is never instantiated.

    Every patcher takes the installed steps; ``Patcher.add(step)`` adds one that no patch set registers,
    ``Patcher.disable(step)`` leaves one out. Class data is that of :class:`Patch`; in particular ``library`` is the
    import root of what the step sets up, and of ``backends`` one must be usable here, if any are named.

    Attributes:
        settings: names of the patcher's settings that :meth:`run` reads; a change of one runs it again.
    """

    settings: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        """Nothing: a step writes to no target."""
        return []

    @classmethod
    def prepare(cls) -> None:
        """Called before anything is patched."""

    @classmethod
    def run(cls, settings: Mapping[str, Any]) -> str:
        """Called after ``apply()`` has patched everything, and when a setting changes.

        Args:
            settings: what the user chose; a missing key means no choice.

        Returns:
            the line for the report, "" for none.
        """
        return ""

    @classmethod
    def patched(cls, written: bool) -> str:
        """Called whenever patches were written or taken away, be it by a lazy apply or by ``restore()``.

        Args:
            written: False where they were taken away.

        Returns:
            the line for the report, "" for none.
        """
        return ""


def is_environment_step(item: Any) -> bool:
    """True for a step that a user may add."""
    return isinstance(item, type) and issubclass(item, EnvironmentStep)


class Environment:
    """The environment steps of one patcher.

    Args:
        is_disabled: whether the user left a step out.
    """

    def __init__(self, is_disabled: Callable[[type[EnvironmentStep]], bool]) -> None:
        self._is_disabled = is_disabled
        self._settings: dict[str, Any] = {}
        self._loaded: dict[str, tuple[type[EnvironmentStep], ...]] = {}
        self._added: tuple[type[EnvironmentStep], ...] = ()
        self._notes: dict[str, str] = {}
        self._waiting: list[post_import.Subscription] = []
        self._has_run: set[type[EnvironmentStep]] = set()

    @property
    def notes(self) -> list[str]:
        """What the steps had to say; steps that said the same share a line."""
        names: dict[str, list[str]] = {}
        for name, note in self._notes.items():
            names.setdefault(note, []).append(name)
        return [f"{', '.join(speakers)}: {note}" for note, speakers in names.items()]

    @property
    def steps(self) -> list[type[EnvironmentStep]]:
        """All steps that are loaded."""
        installed = (step for steps in self._loaded.values() for step in steps)
        return list(dict.fromkeys((*installed, *self._added)))

    @property
    def step_names(self) -> set[str]:
        """Everything that a user may call one of the loaded steps."""
        names = {name for step in self.steps for name in (step.name, step.legacy_name, step.__name__)}
        return names - {""}

    @property
    def is_waiting(self) -> bool:
        """True while there are steps that wait for the import of their library, and the library is here."""
        return bool(self._waiting) and any(library not in sys.modules for library in self._libraries())

    def prepare(self, added: Sequence[type[EnvironmentStep]], *, imports: bool) -> None:
        """Let the steps prepare for patches: at once, or, with ``imports=False``, when their library is imported."""
        self._added = tuple(added)
        self._stop_waiting()
        self._when_libraries_are_here(self._prepare, imports=imports)

    def run(self, *, imports: bool) -> None:
        """Run the steps: at once, or, with ``imports=False``, when their library is imported."""
        self._when_libraries_are_here(self._run, imports=imports)

    def run_step(self, name: str) -> str:
        """Run one installed step now, by its name; gives back what it had to say. KeyError where none is called so."""
        for library in self._libraries():
            for step in self._steps_for(library):
                if step.name == name:
                    self._run([step])
                    return self._notes.get(name, "")
        raise KeyError(name)

    def patched(self, *, written: bool) -> None:
        """Patches were written or taken away."""
        for step in self._enabled(self.steps):
            self._call(step, step.patched, written)

    def change(self, setting: str, value: Any) -> None:
        """Remember what the user chose; steps that have run with another value run again."""
        self._settings[setting] = value
        self._run([step for step in self.steps if setting in step.settings and step in self._has_run])

    def forget(self) -> None:
        """What the steps did stays, but nothing more is to be done, and nothing to be reported."""
        self._stop_waiting()
        self._has_run.clear()
        self._notes.clear()

    # ------------------------------------------------------------------ inside
    def _when_libraries_are_here(
        self, action: Callable[[Iterable[type[EnvironmentStep]]], None], *, imports: bool
    ) -> None:
        for library in self._libraries() if imports else self._registered_libraries():
            if imports or library in sys.modules:
                action(self._steps_for(library))
            else:

                def imported(module: ModuleType, library: str = library) -> None:
                    action(self._steps_for(library))

                self._waiting.append(post_import.subscribe(library, imported))
        action(step for step in self._added if not step.library)

    def _registered_libraries(self) -> list[str]:
        """Import roots of the libraries that the steps set up."""
        from .discovery import entry_points

        libraries = [entry.name for entry in entry_points(ENTRY_POINT_GROUP)]
        return list(dict.fromkeys([*libraries, *(step.library for step in self._added if step.library)]))

    def _libraries(self) -> list[str]:
        """Those of them that are here."""
        from .source_version import is_importable

        return list(filter(is_importable, self._registered_libraries()))

    def _steps_for(self, library: str) -> list[type[EnvironmentStep]]:
        if library not in self._loaded:
            self._loaded[library] = tuple(self._load(library))
        return [*self._loaded[library], *(step for step in self._added if step.library == library)]

    def _load(self, library: str) -> list[type[EnvironmentStep]]:
        from .discovery import entry_points

        steps: list[type[EnvironmentStep]] = []
        for entry in entry_points(ENTRY_POINT_GROUP):
            if entry.name == library:
                try:
                    steps += entry.load().STEPS  # type: ignore[attr-defined]
                except Exception as error:
                    self._failed(entry.value, f"does not load: {described_error(error)}", library)
        return steps

    def _enabled(self, steps: Iterable[type[EnvironmentStep]]) -> list[type[EnvironmentStep]]:
        return [step for step in steps if not self._is_disabled(step)]

    def _prepare(self, steps: Iterable[type[EnvironmentStep]]) -> None:
        for step in self._enabled(steps):
            self._call(step, step.prepare)

    def _run(self, steps: Iterable[type[EnvironmentStep]]) -> None:
        for step in steps:
            missing = "disabled" if self._is_disabled(step) else _missing_backend(step)
            if missing:
                self._notes[step.name] = missing
                continue
            self._has_run.add(step)
            self._call(step, step.run, dict(self._settings))

    def _call(self, step: type[EnvironmentStep], hook: Callable[..., Any], *arguments: Any) -> None:
        try:
            note = hook(*arguments)
        except PatchError:
            raise
        except Exception as error:
            self._failed(step.name, f"failed: {described_error(error)}", step.library)
        else:
            if note:
                self._notes[step.name] = str(note)

    def _failed(self, name: str, reason: str, library: str) -> None:
        self._notes[name] = reason
        patcher_logger.failed(name, reason=reason, package=library)

    def _stop_waiting(self) -> None:
        for subscription in self._waiting:
            subscription.cancel()
        self._waiting.clear()


def _missing_backend(step: type[EnvironmentStep]) -> str:
    """Why the step has no business here; "" where it has."""
    if not step.backends:
        return ""
    from .backends import unavailable

    reasons = {backend: unavailable(backend) for backend in step.backends}
    if not all(reasons.values()):
        return ""
    return "; ".join(f"needs {backend} ({reason})" for backend, reason in reasons.items())
