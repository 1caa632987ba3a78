"""An :class:`AtomicPatch` in one patcher: put it in, say how that went at each of its paths, take it out again."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Collection, Iterator, cast

from .attributes import ABSENT, Attribute, TargetError, is_class
from .descriptors import same_kind, underlying
from .dispatch import carry_identity, make_dispatcher
from .events import PatchError
from .installation import Installation, Line, call_with_known_arguments
from .journal import Layer, Transition, journal
from .patches import AtomicPatch
from .references import has_home
from .results import PatchStatus, described_error
from .signatures import are_alike, misfit
from .targets import TargetAbsent, locate

#: While calls are watched, what makes a replacement note them: ``watched_calls.watched``.
call_watcher: Callable[[str, Any, Any], Any] | None = None


class AtomicInstallation(Installation):
    """An :class:`AtomicPatch` at its target and at each of its aliases."""

    patch: AtomicPatch

    #: what was built from the value below, by its identity: aliases of one object shall share one dispatcher
    _built: dict[int, tuple[Any, Any]] | None = None

    def install(self, *, imports: bool, executed: Collection[str] = ()) -> list[Transition]:
        transitions: list[Transition] = []
        refusal: Line | None = None
        is_checked = self.patch.precheck is None
        for path in self.patch.paths:
            if path in self.lines:
                if self._is_in_force(path):
                    continue
                transitions += self._remove_outlived(path)
            try:
                attribute = self._locate(path, imports, executed)
                if not is_checked:
                    is_checked, refusal = True, self._refusal_of_precheck()
                if refusal is not None:
                    line = Line(path, refusal.status, refusal.reason)
                else:
                    line, transition = self._install_at(attribute)
                    if transition is not None:
                        transitions.append(transition)
            except TargetError as error:
                line = Line(path, error.status, str(error))
            except PatchError as error:
                line = Line(path, PatchStatus.FAILED, str(error))
            except Exception as error:
                line = Line(path, PatchStatus.FAILED, described_error(error))
            if line.layer is None and self._is_in_force(path):
                continue  # an import on the way has installed it: this patch was waiting for that module
            if path != self.patch.target:
                line.alias_of = self.patch.target
            self.lines[path] = line
        return transitions

    def _is_in_force(self, path: str) -> bool:
        line = self.lines.get(path)
        return line is not None and line.layer is not None and line.layer.is_in_force

    def _remove_outlived(self, path: str) -> list[Transition]:
        """Take out what was written before the module was reloaded; gives back what that changed."""
        line = self.lines.get(path)
        return [] if line is None or line.layer is None else self._remove_layer(line.layer)[0]

    def remove(self) -> tuple[list[Transition], list[str]]:
        self._built = None
        return super().remove()

    def _remove_layer(self, layer: Layer) -> tuple[list[Transition], str]:
        if layer in self.patch.layers:
            self.patch.layers.remove(layer)
        return super()._remove_layer(layer)

    def _locate(self, path: str, imports: bool, executed: Collection[str]) -> Attribute:
        create = self.patch.create and path == self.patch.target
        attribute = locate(path, imports=imports, create=create, executed=executed)
        if type(attribute.owner) is not ModuleType and _is_in_a_stub(attribute):
            raise TargetAbsent(f"{attribute.module_name} is skipped by skip_import")
        return attribute

    def _refusal_of_precheck(self) -> Line | None:
        """A line that says why the precheck does not let the patch through; None if it does."""
        patch = self.patch
        try:
            passed = call_with_known_arguments(
                cast(Any, patch.precheck),
                {
                    "target": patch.target,
                    "replacement": patch.given_replacement,
                    "aliases": list(patch.aliases),
                    "patch": patch,
                    "runtime_check": patch.runtime_check,
                    "target_wrapper": patch.target_wrapper,
                    "replacement_wrapper": patch.replacement_wrapper,
                },
            )
        except Exception as error:
            return Line(patch.target, PatchStatus.FAILED, f"precheck raised {described_error(error)}")
        return None if passed else Line(patch.target, PatchStatus.SKIPPED, "precheck failed")

    def _install_at(self, attribute: Attribute) -> tuple[Line, Transition | None]:
        patch, path = self.patch, attribute.path
        slot = journal.slot(attribute)
        below: Layer | None = None
        for layer in slot.layers if slot is not None and not slot.was_reloaded else ():
            if layer.patch is patch and layer.holder is self.holder:
                return Line(
                    path, PatchStatus.APPLIED, f"is the same attribute as {layer.slot.attribute.path}"
                ), None
            if layer.holder is not None and getattr(layer.patch, "identity", None) == patch.identity:
                return Line(path, PatchStatus.SKIPPED, f"already applied by {layer.holder}"), None
            below = layer if layer.holder is not None else below
        before = attribute.read()
        if patch.runtime_check is not None or patch.target_wrapper is not None:
            self._refuse_impossible(before, path)
        layer = journal.write(attribute, self._builder(path), holder=self.holder, patch=patch)
        patch.layers.append(layer)
        doubt = (
            "; ".join(self._doubts(attribute, before, below)) if self._may_be_doubtful(before, below) else ""
        )
        transition = Transition(layer.slot, layer, before, layer.value, below is not None)
        return Line(path, PatchStatus.APPLIED, doubt, layer, doubt), transition if patch.rebind else None

    def _refuse_impossible(self, raw: Any, path: str) -> None:
        """Refuse, before anything is written, what could only break the program."""
        original = underlying(raw)
        if original is ABSENT:
            raise TargetAbsent(f"target not found: {path} (there is nothing to wrap)")
        if self.patch.runtime_check is None:
            return
        if is_class(original):
            raise TargetError(
                f"{path} is a class, and a runtime_check would turn it into a function; give the check to its"
                " __init__, forward or whichever method is called"
            )
        if not callable(original):
            raise TargetError(
                f"{path} is not callable ({type(original).__name__}): a runtime_check has no calls to check"
            )

    def _builder(self, path: str) -> Callable[[Any], Any]:
        """From the raw value that is there to the raw value to put there; called again when a layer below goes away."""
        patch = self.patch
        if (
            patch.runtime_check is None
            and patch.replacement_wrapper is None
            and patch.given_replacement is not None
            and call_watcher is None
        ):
            return self._replacement_like

        if self._built is None:
            self._built = {}
        built = self._built

        def build(below: Any) -> Any:
            known = built.get(id(below))
            if known is None:
                known = built[id(below)] = (below, self._built_value(below, path))
            return known[1]

        return build

    def _replacement_like(self, below: Any) -> Any:
        return same_kind(below, self.patch.replacement)

    def _built_value(self, below: Any, path: str) -> Any:
        patch = self.patch
        original = underlying(below)
        if patch.given_replacement is None:
            value = _wrapped(patch.target_wrapper, original, original, "target_wrapper", path)
        else:
            value = patch.replacement
            if patch.replacement_wrapper is not None:
                value = _wrapped(patch.replacement_wrapper, value, original, "replacement_wrapper", path)
        if call_watcher is not None:
            value = call_watcher(patch.target, original, value)
        if patch.runtime_check is not None:
            replacement = underlying(value)
            if not callable(replacement):
                raise TypeError(f"the replacement of {path} is not callable, got {replacement!r}")
            value = make_dispatcher(original, replacement, patch.runtime_check, path)
        return same_kind(below, value)

    def _may_be_doubtful(self, before: Any, below: Layer | None) -> bool:
        """False for by far the commonest case: a function replaced by one with the same parameters."""
        patch = self.patch
        return (
            below is not None
            or patch.runtime_check is not None
            or not are_alike(before, patch.given_replacement)
        )

    def _doubts(self, attribute: Attribute, before: Any, below: Layer | None) -> Iterator[str]:
        """What may go wrong although the patch was applied: callers that no longer fit, what was covered up."""
        patch, original = self.patch, underlying(before)
        if patch.given_replacement is not None:
            if below is not None and patch.runtime_check is None:
                yield f"replaces what {below.patch!r} had put there; disable one of them"
            replacement = underlying(patch.replacement)
            if callable(original) and callable(replacement):
                problem = misfit(original, replacement, bound=_is_bound(attribute, before))
                if problem:
                    yield f"callers of the original may not fit the replacement: {problem}"
        if patch.runtime_check is not None:
            problem = misfit(original, patch.runtime_check, bound=_is_bound(attribute, before))
            if problem:
                yield f"calls may not fit the runtime_check, which then counts as False: {problem}"
        if is_class(original):
            yield from self._subclasses_left(original)

    def _subclasses_left(self, original: type) -> Iterator[str]:
        subclasses: list[type] = type.__subclasses__(original)
        left = sorted(
            f"{cls.__module__}.{cls.__qualname__}"
            for cls in subclasses
            if cls.__module__ not in self.patch.defining_modules
        )
        if left:
            yield f"subclasses made earlier keep the original: {', '.join(left[:5])}"


def _is_bound(attribute: Attribute, raw: Any) -> bool:
    """True where the first parameter is ``self`` or ``cls``."""
    return is_class(attribute.owner) and not isinstance(raw, staticmethod)


def _is_in_a_stub(attribute: Attribute) -> bool:
    if "patcher_core.imports.stubs" not in sys.modules:
        return False
    from .imports import is_stub

    return is_stub(attribute.owner) or is_stub(sys.modules.get(attribute.module_name))


def _wrapped(wrapper: Any, wrapped: Any, original: Any, argument: str, path: str) -> Any:
    """The result of a wrapper, carrying the original's identity where it is a function made for the occasion."""
    value = wrapper(wrapped)
    if value is None:
        raise TypeError(f"{argument} of {path} returned None; it must return the wrapped callable")
    if (
        isinstance(value, FunctionType)
        and value is not wrapped
        and not has_home(value)
        and callable(original)
    ):
        carry_identity(original, value)
    return value
