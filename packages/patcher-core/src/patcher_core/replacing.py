"""An :class:`AtomicPatch` in one patcher: put it in, say how that went at each of its paths, take it out again."""

from __future__ import annotations

import sys
from types import FunctionType, ModuleType
from typing import Any, Callable, Collection, Iterator, cast

from .attributes import ABSENT, Attribute, TargetError, is_class
from .descriptors import same_kind, underlying
from .events import PatchError
from .installation import Installation, call_with_known_arguments
from .journal import Change, Layer, journal
from .patches import AtomicPatch
from .results import Line, PatchStatus, described_error
from .signatures import are_alike, misfit
from .targets import TargetAbsent, locate

#: While calls are watched, what makes a replacement note them: ``watched_calls.watched``.
call_watcher: Callable[[str, Any, Any], Any] | None = None


class AtomicInstallation(Installation):
    """An :class:`AtomicPatch` at its target and at each of its aliases."""

    patch: AtomicPatch

    #: what was built from the value below, by its identity: aliases of one object shall share one dispatcher
    _built: dict[int, tuple[Any, Any]] | None = None

    def install(self, changes: list[Change], *, imports: bool, executed: Collection[str] = ()) -> None:
        patch = self.patch
        refusal: Line | None = None
        is_checked = patch.precheck is None
        for path in patch.paths:
            if path in self.lines:
                if self._is_in_force(path):
                    continue
                self._remove_outlived(path, changes)
            try:
                create = patch.create and path == patch.target
                attribute = locate(path, imports=imports, create=create, executed=executed)
                if type(attribute.owner) is not ModuleType and _is_in_a_stub(attribute):
                    raise TargetAbsent(f"{attribute.module_name} is skipped by skip_import")
                if not is_checked:
                    is_checked, refusal = True, self._refusal_of_precheck()
                if refusal is not None:
                    line = Line(path, refusal.status, refusal.reason)
                else:
                    line = self._install_at(attribute, changes)
            except TargetError as error:
                line = Line(path, error.status, str(error))
            except PatchError as error:
                line = Line(path, PatchStatus.FAILED, str(error))
            except Exception as error:
                line = Line(path, PatchStatus.FAILED, described_error(error))
            if not isinstance(line, Layer) and self._is_in_force(path):
                continue  # an import on the way has installed it: this patch was waiting for that module
            self.lines[path] = line

    def _is_in_force(self, path: str) -> bool:
        line = self.lines.get(path)
        return isinstance(line, Layer) and line.is_in_force

    def _remove_outlived(self, path: str, changes: list[Change]) -> None:
        """Take out what was written before the module was reloaded."""
        line = self.lines.get(path)
        if isinstance(line, Layer):
            self._remove_layer(line, changes)

    def alias_of(self, path: str) -> str:
        return "" if path == self.patch.target else self.patch.target

    def remove(self, changes: list[Change]) -> list[str]:
        self._built = None
        return super().remove(changes)

    def _remove_layer(self, layer: Layer, changes: list[Change]) -> str:
        if layer in self.patch.layers:
            self.patch.layers.remove(layer)
        return super()._remove_layer(layer, changes)

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

    def _install_at(self, attribute: Attribute, changes: list[Change]) -> Line:
        """Write at one attribute, unless it is there already."""
        patch, path = self.patch, attribute.path
        covered: Layer | None = None
        known = journal.known(attribute.owner, attribute.name)
        if known is not None:
            for layer in () if known.was_reloaded else list(known.layers):
                if layer.installation is None:
                    continue
                if layer.patch is patch and layer.installation.holder is self.holder:
                    return Line(path, PatchStatus.APPLIED, f"is the same attribute as {layer.attribute.path}")
                if getattr(layer.patch, "identity", None) == patch.identity:
                    return Line(path, PatchStatus.SKIPPED, f"already applied by {layer.installation.holder}")
                covered = layer
        if not patch.is_unconditional:
            self._refuse_impossible(attribute.read(), path)
        layer = journal.write(known or attribute, self, path)
        patch.layers.append(layer)
        if covered is not None:
            layer.was_ours = True
        if (
            covered is not None
            or not patch.is_unconditional
            or not are_alike(layer.old, patch.given_replacement)
        ):
            layer.reason = layer.doubt = "; ".join(self._doubts(layer, covered))
        if patch.rebind:
            changes.append(layer)
        return layer

    def _refuse_impossible(self, raw: Any, path: str) -> None:
        """Refuse, before anything is written, what could only break the program."""
        patch, original = self.patch, underlying(raw)
        if original is ABSENT and (patch.runtime_check is not None or patch.target_wrapper is not None):
            raise TargetAbsent(f"target not found: {path} (there is nothing to wrap)")
        if patch.runtime_check is None:
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

    def build(self, layer: Layer) -> Any:
        below, patch = layer.old, self.patch
        if patch.is_unconditional and call_watcher is None:
            return same_kind(below, patch.replacement)
        if self._built is None:
            self._built = {}
        known = self._built.get(id(below))
        if known is None:
            known = self._built[id(below)] = (below, self._built_value(below, layer.path))
        return known[1]

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
            from .dispatch import make_dispatcher

            value = make_dispatcher(original, replacement, patch.runtime_check, path)
        return same_kind(below, value)

    def _doubts(self, layer: Layer, covered: Layer | None) -> Iterator[str]:
        """What may go wrong although the patch was applied: callers that no longer fit, what was covered up."""
        patch, original = self.patch, underlying(layer.old)
        is_bound = is_class(layer.attribute.owner) and not isinstance(layer.old, staticmethod)
        if patch.given_replacement is not None:
            if covered is not None and patch.runtime_check is None:
                yield f"replaces what {covered.patch!r} had put there; disable one of them"
            replacement = underlying(patch.replacement)
            if callable(original) and callable(replacement):
                problem = misfit(original, replacement, bound=is_bound)
                if problem:
                    yield f"callers of the original may not fit the replacement: {problem}"
        if patch.runtime_check is not None:
            problem = misfit(original, patch.runtime_check, bound=is_bound)
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
    if isinstance(value, FunctionType) and value is not wrapped and callable(original):
        from .dispatch import carry_identity
        from .references import has_home

        if not has_home(value):
            carry_identity(original, value)
    return value
