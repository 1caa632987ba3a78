"""``Patch``: a named group of patches."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Mapping

from .results import PatchResult


class Patch:
    """A named group of patches: subclass it and write ``patches(cls, options=None) -> list``.

    Class data (all optional):
        name: defaults to the class name. legacy_name: its name in the 1.0 API.
        library: import root of what is patched; the pins that the group's distribution has for it must hold.
        requires: PEP 508 requirements, any one of which must hold as well; they may narrow the pins.
        backends: implementations in order of preference, such as ``("npu", "portable")``; the chosen one is handed to
            ``patches()`` as ``options["backend"]``.
        option_names: further options that ``patches()`` reads; ``add()`` refuses one that no group in the call takes.
            None: none in an installed patch set, any elsewhere.
        original_runs_here: with ``backends``, a function that says whether upstream's own implementation can run
            here; it is then left alone where no backend before ``portable`` is there.
        conflicts_with: names or classes of groups that cannot be enabled together with this one.
        apply_before_collect: apply this group before other groups are asked for their patches.
        why: what breaks without it. upstream: the issue or pull request. until: the version that makes it unnecessary.

    ``Patch(func, options=None, priority=0, patch_failure_warning=True)`` on this class itself makes the 1.0 wrapper
    of a function patch, see :class:`~patcher_core.legacy.LegacyPatchWrapper`.
    """

    name: str = "Patch"
    legacy_name: str = ""
    library: str = ""
    requires: str | tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    option_names: tuple[str, ...] | None = None
    original_runs_here: Callable[[], bool] | None = None
    conflicts_with: tuple[Any, ...] = ()
    apply_before_collect: bool = False
    why: str = ""
    upstream: str = ""
    until: str = ""

    options: dict[str, Any]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    def __new__(cls, *args: Any, **kwargs: Any) -> Patch:
        if cls is not Patch:
            return super().__new__(cls)
        from .legacy import LegacyPatchWrapper

        return super().__new__(LegacyPatchWrapper)

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        if options is not None and not isinstance(options, Mapping):
            raise TypeError(f"options of {type(self).__name__} must be a mapping or None, got {options!r}")
        self.options = dict(options or {})

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        """The patches of the group; may hold those of other groups: ``[*Other.patches(options), ...]``."""
        raise NotImplementedError(f"{cls.__name__} must define patches(cls, options=None) -> list")

    @classmethod
    def apply_all(cls, options: Mapping[str, Any] | None = None) -> list[PatchResult]:
        """Apply the group alone and give back a result per target."""
        from .patcher import Patcher

        return list(Patcher().add(cls, options=options)._apply_alone())

    def apply(self) -> PatchResult:
        """Apply the group alone and give back one result for all of it: the worst of its parts."""
        from .patcher import Patcher

        results = Patcher().add(self)._apply_alone()
        return min(results, key=_severity)._replace(name=self.name)

    def __iter__(self) -> Iterator[Any]:
        return iter(type(self).patches(self.options or None))

    def __repr__(self) -> str:
        return f"<Patch {self.name}>"


def _severity(result: PatchResult) -> int:
    """Sort key of results: failures before applied ones before the rest."""
    return {"failed": 0, "applied": 1, "pending": 2, "skipped": 3}[result.status.value]
