"""What to change, as data: ``AtomicPatch`` and its siblings.

A patch says what; :mod:`patcher_core.patcher` does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Iterable, Mapping, Sequence

from .attributes import TargetError
from .events import PatchError, patcher_logger
from .results import PatchResult
from .targets import checked_path, resolved_object

if TYPE_CHECKING:
    from types import ModuleType

    from .journal import Layer


class Value:
    """A string that is meant literally as a replacement, not as the path of an object: ``Value("hccl")``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Value({self.value!r})"


def _checked_callable(argument: str, value: object) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{argument} must be callable or None, got {value!r}")
    return value


def _checked_aliases(aliases: str | Sequence[str]) -> list[str]:
    given = [aliases] if isinstance(aliases, (str, bytes)) else aliases
    return [checked_path(alias, "aliases") for alias in given]


def checked_requires(value: str | Iterable[str]) -> tuple[str, ...]:
    alternatives = (value,) if isinstance(value, str) else tuple(value)
    if not all(isinstance(one, str) and one.strip() for one in alternatives):
        raise TypeError(f"requires must be PEP 508 requirements such as 'mmcv>=2,<2.3', got {value!r}")
    return alternatives


class BasePatch:
    """One change that can be applied on its own.

    Attributes:
        name: what it is called in reports.
        requires: PEP 508 requirements, any one of which suffices; empty for none.
        installation_class: the subclass of :class:`~patcher_core.installation.Installation` that puts patches of this
            kind in and takes them out, or ``"module:class"``, which is loaded when the first is to be put in.
    """

    name: str
    requires: tuple[str, ...] = ()
    installation_class: Any = None

    @property
    def module(self) -> str:
        """The first segment of the name; "" if the name has no dot."""
        head, dot, _ = self.name.partition(".")
        return head if dot else ""

    def apply(self) -> PatchResult:
        """Apply this patch alone and give back its result; further results (aliases) are in the log."""
        from .patcher import Patcher

        return Patcher().add(self)._apply_alone()[0]

    def get_info(self, show_diff: bool = False) -> str:
        """One line that says what is changed; with ``show_diff`` followed by a diff where there is source."""
        return self.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class AtomicPatch(BasePatch):
    """Replace one attribute.

    Args:
        target: dotted path of a module attribute, a class attribute, or a key of a dict reached by attributes.
        replacement: the object, or the dotted path of one, resolved when the patch is applied. Wrap a string that is
            meant literally in :class:`Value`.
        aliases: further paths at which the same replacement is put; one that does not exist is noted.
        precheck: called when the patch is applied, with those of ``target, replacement, aliases, patch`` that its
            parameters name. False: skipped. Raises: failed.
        runtime_check: called on every call with the target's arguments. True: replacement, False: original.
        target_wrapper: ``target_wrapper(original) -> wrapped``, instead of a replacement.
        replacement_wrapper: ``replacement_wrapper(replacement) -> wrapped``.
        requires: PEP 508 requirements, any one of which suffices.
        rebind: make copies that others took with ``from module import name`` hold the replacement as well.
        create: the target need not exist (``numpy.float``).

    Raises:
        TypeError, ValueError: naming the argument.
    """

    installation_class = "patcher_core.replacing:AtomicInstallation"
    precheck: Callable[..., Any] | None = None
    runtime_check: Callable[..., Any] | None = None
    target_wrapper: Callable[[Any], Any] | None = None
    replacement_wrapper: Callable[[Any], Any] | None = None

    def __init__(
        self,
        target: str,
        replacement: Any = None,
        *,
        aliases: str | Sequence[str] = (),
        precheck: Callable[..., Any] | None = None,
        runtime_check: Callable[..., Any] | None = None,
        target_wrapper: Callable[[Any], Any] | None = None,
        replacement_wrapper: Callable[[Any], Any] | None = None,
        requires: str | Sequence[str] = (),
        rebind: bool = True,
        create: bool = False,
    ) -> None:
        self.target = self.name = checked_path(target)
        self.aliases: list[str] = _checked_aliases(aliases) if aliases else []
        if precheck is not None:
            self.precheck = _checked_callable("precheck", precheck)
        if runtime_check is not None:
            self.runtime_check = _checked_callable("runtime_check", runtime_check)
        if target_wrapper is not None:
            self.target_wrapper = _checked_callable("target_wrapper", target_wrapper)
        if replacement_wrapper is not None:
            self.replacement_wrapper = _checked_callable("replacement_wrapper", replacement_wrapper)
        if replacement is None and target_wrapper is None:
            raise ValueError(f"AtomicPatch({target!r}) needs a replacement or a target_wrapper")
        if replacement is None and replacement_wrapper is not None:
            raise ValueError(f"AtomicPatch({target!r}): replacement_wrapper needs a replacement")
        if replacement is not None and target_wrapper is not None:
            patcher_logger.warning(
                f"AtomicPatch({target!r}) has a replacement and a target_wrapper; the replacement is used."
                " Remove one of them."
            )
        #: the replacement as it was given: an object, a path, a :class:`Value`, or None
        self.given_replacement = replacement
        if requires != ():
            self.requires = checked_requires(requires)
        #: the replacement is put in as it was given, with nothing around it
        self.is_unconditional = (
            runtime_check is None and replacement_wrapper is None and replacement is not None
        )
        if isinstance(replacement, str):
            checked_path(replacement, "replacement")
            self.is_unconditional = False
        elif isinstance(replacement, Value):
            self.is_unconditional = False
        self.rebind = rebind
        self.create = create
        #: the target and its aliases, each once
        self.paths = tuple(dict.fromkeys((target, *self.aliases))) if aliases else (target,)
        #: the writes of this patch that are in force, newest last; kept by the engine
        self.layers: list[Layer] = []

    @property
    def replacement(self) -> Any:
        """The replacement itself; a string path is resolved. None for a patch with a ``target_wrapper`` only.

        Raises:
            PatchError: the path does not resolve; the text has the cause.
        """
        given = self.given_replacement
        if isinstance(given, str):
            try:
                return resolved_object(given)
            except TargetError as error:
                raise PatchError(f"the replacement of {self.target} cannot be resolved: {error}") from error
        return given.value if isinstance(given, Value) else given

    @property
    def original(self) -> Any:
        """The object that was replaced at the target, from the journal; None while the patch is not applied."""
        from .attributes import ABSENT
        from .descriptors import underlying

        for layer in self.layers:
            if layer.path == self.target:
                return None if layer.old is ABSENT else underlying(layer.old)
        return None

    @property
    def is_applied(self) -> bool:
        """True while the target holds what this patch wrote."""
        return any(layer.is_on_top for layer in self.layers)

    @property
    def identity(self) -> tuple[Any, ...]:
        """Equal for two patches that would do the same: identical replacement, check and wrappers."""
        given = self.given_replacement
        if isinstance(given, Value):
            given = given.value
        return (
            given if isinstance(given, str) else id(given),
            id(self.runtime_check),
            id(self.target_wrapper) if self.given_replacement is None else None,
            id(self.replacement_wrapper),
        )

    @property
    def defining_modules(self) -> frozenset[str]:
        """Names of the modules that define the replacement, the check and the wrappers: they may hold the original."""
        parts = [self.runtime_check, self.target_wrapper, self.replacement_wrapper]
        if self.given_replacement is not None and not isinstance(self.given_replacement, Value):
            parts.append(self.replacement)
        names = (getattr(part, "__module__", None) for part in parts)
        return frozenset(name for name in names if isinstance(name, str))

    def get_info(self, show_diff: bool = False) -> str:
        """``target: original -> replacement`` with qualified names; with ``show_diff`` followed by a source diff."""
        from .reporting.diffs import describe_change

        return describe_change(self, show_diff)


class RegistryPatch(BasePatch):
    """Register a class in an mmcv/mmengine Registry, or in anything that has ``register_module``.

    Args:
        registry: dotted path of the registry.
        module_cls: the class; or
        module_factory: a function without arguments that makes it when the patch is applied.
        name: the name to register it under; the class's own name by default. Required with a factory.
        force: replace what is registered under that name.
        precheck: as in :class:`AtomicPatch`.
    """

    installation_class = "patcher_core.recording:RegistryInstallation"

    def __init__(
        self,
        registry: str,
        module_cls: type | None = None,
        *,
        name: str | None = None,
        force: bool = True,
        precheck: Callable[..., Any] | None = None,
        module_factory: Callable[[], type] | None = None,
        requires: str | Sequence[str] = (),
    ) -> None:
        self.registry = checked_path(registry, "registry")
        if module_cls is None and module_factory is None:
            raise ValueError(f"RegistryPatch({registry!r}) needs module_cls or module_factory")
        if module_cls is None and name is None:
            raise ValueError(f"RegistryPatch({registry!r}) with a module_factory needs a name")
        if module_cls is not None and not isinstance(module_cls, type):
            raise TypeError(f"module_cls must be a class, got {module_cls!r}")
        if name is not None and (not isinstance(name, str) or not name):
            raise TypeError(f"name must be a non-empty string, got {name!r}")
        self.module_cls = module_cls
        self.module_factory = _checked_callable("module_factory", module_factory)
        self.register_name = name or module_cls.__name__  # type: ignore[union-attr]
        self.force = bool(force)
        self.precheck = _checked_callable("precheck", precheck)
        self.requires = checked_requires(requires)
        self.name = f"{self.registry}.{self.register_name}"


class ModulePatch(BasePatch):
    """Supply a module that the installation lacks, such as compiled operators that were not built.

    Args:
        name: dotted name of the module; its parent package stays real.
        factory: called without arguments at the first import of the module; gives back a module object whose
            contents are taken over.
        force: supply it even where the installation has a module of that name.
        precheck: as in :class:`AtomicPatch`.
    """

    installation_class = "patcher_core.supplying:ModuleInstallation"

    def __init__(
        self,
        name: str,
        factory: Callable[[], ModuleType],
        *,
        force: bool = False,
        precheck: Callable[..., Any] | None = None,
        requires: str | Sequence[str] = (),
    ) -> None:
        self.name = checked_path(name, "name")
        if not callable(factory):
            raise TypeError(f"factory of {name!r} must be callable, got {factory!r}")
        self.factory = factory
        self.force = bool(force)
        self.precheck = _checked_callable("precheck", precheck)
        self.requires = checked_requires(requires)


class LegacyPatch(BasePatch):
    """A 1.0 function patch: ``func(module, options)`` is called with the imported ``target_module``.

    Its attribute writes are recorded where they can be seen, so that it is undone as well. Two patches with the same
    function and module are the same patch. ``failure_warning=False``: a failure is in the report only.
    """

    installation_class = "patcher_core.recording:LegacyInstallation"

    def __init__(
        self,
        func: Callable[..., Any],
        options: Mapping[str, Any] | None = None,
        target_module: str | None = None,
        *,
        failure_warning: bool = True,
    ) -> None:
        if not callable(func):
            raise TypeError(f"func must be callable, got {func!r}")
        if not target_module:
            raise ValueError(
                f"LegacyPatch({getattr(func, '__name__', func)}) needs target_module, the module to patch"
            )
        self.func = func
        self.options = dict(options or {})
        self.target_module = checked_path(target_module, "target_module")
        self.failure_warning = bool(failure_warning)
        self.name = f"{self.target_module}.{getattr(func, '__name__', type(func).__name__)}"
        #: True after the function ran without an error and until it is undone; kept by the engine
        self.is_applied = False
