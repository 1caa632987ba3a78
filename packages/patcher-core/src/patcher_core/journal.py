"""The undo log of the process: who wrote what where, layer upon layer.

Every write of a patch goes through :data:`journal`. Several patchers may stack on one attribute and may be
taken away in any order: removing a lower layer rebuilds those above it. A value that somebody else wrote over ours is
left alone. After a reload of the module the reloaded value is the new original.
"""

from __future__ import annotations

import itertools
from _thread import RLock
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Union

from .attributes import ABSENT, Attribute, TargetError
from .results import Line, PatchStatus

if TYPE_CHECKING:
    from .installation import Installation


#: How often a value is built anew because the attribute changed while it was built.
_ATTEMPTS = 1000
_KEPT_CHANGING = (
    "each time its wrapper ran, the attribute was changed; a wrapper must not patch its own target"
)


class Layer(Line):
    """One write on one attribute: the line of a path at which a patch was put in.

    Attributes:
        attribute: where it was written.
        installation: what wrote it; None for a value that came from somewhere else.
        old: the raw value below, which it replaced.
        new: the raw value that was written.
        was_ours: ``old`` had been put there by a patch.
        is_leaving: somebody is taking it away.
    """

    __slots__ = ("attribute", "installation", "is_leaving", "new", "old", "was_ours")

    def __init__(
        self, path: str, attribute: Attribute, installation: Installation | None, old: Any, new: Any = ABSENT
    ) -> None:
        self.path = path
        self.status = PatchStatus.APPLIED
        self.reason = self.doubt = ""
        self.attribute = attribute
        self.installation = installation
        self.old = old
        self.new = new
        self.was_ours = self.is_leaving = False

    @property
    def cause(self) -> Layer:
        """Itself: like a :class:`Transition` it tells of a change and its cause."""
        return self

    @property
    def patch(self) -> Any:
        """The patch that it belongs to."""
        return None if self.installation is None else self.installation.patch

    @property
    def is_on_top(self) -> bool:
        """True while the attribute still holds what this layer wrote."""
        return self in self.attribute.layers and self.attribute.own() is self.new

    @property
    def is_in_force(self) -> bool:
        """True while this layer is on the attribute, be it under others, and the module was not reloaded since."""
        return self in self.attribute.layers and not self.attribute.was_reloaded


class Transition:
    """The value of an attribute changed from ``old`` to ``new`` (raw values); ``cause`` is the layer that did it.

    ``was_ours``: ``old`` had been put there by a patch.
    """

    __slots__ = ("attribute", "cause", "new", "old", "was_ours")

    def __init__(self, attribute: Attribute, cause: Layer, old: Any, new: Any, was_ours: bool) -> None:
        self.attribute = attribute
        self.cause = cause
        self.old = old
        self.new = new
        self.was_ours = was_ours


#: What is told of an attribute that changed: a write that is in force, or what came of taking one away.
Change = Union[Layer, Transition]


class Journal:
    """All patched attributes of the process."""

    def __init__(self) -> None:
        #: another number whenever a layer was written or taken away
        self.changes = 0
        self._numbers = itertools.count(1)
        self._by_owner: dict[int, dict[str, Attribute]] = defaultdict(dict)
        # Reentrant: a finalizer may restore a patcher whenever memory is allocated. Held while layers and the
        # attribute change together, never while values are built, which runs code of others.
        self._lock = RLock()

    @property
    def attributes(self) -> list[Attribute]:
        """All attributes that a patch of anybody is on."""
        by_name = list(self._by_owner.values())
        return [attribute for names in by_name for attribute in list(names.values()) if attribute.layers]

    def known(self, owner: Any, name: str) -> Attribute | None:
        """The attribute of that owner and name, if a patch of anybody is on it."""
        names = self._by_owner.get(id(owner))
        return None if names is None else names.get(name)

    def write(self, attribute: Attribute, installation: Installation, path: str) -> Layer:
        """Write what ``installation`` builds from the present raw value, and read it back.

        Args:
            attribute: the known one where there is one.
            path: what it was called this time.

        Raises:
            TargetError: the owner refused the value or holds another one afterwards; nothing is changed then.
            Exception: what building raises; nothing is changed then.
        """
        for _ in range(_ATTEMPTS):
            changes = self.changes
            known = self.known(attribute.owner, attribute.name)
            if known is None:
                below = attribute.take_as_base()
            else:
                attribute, below = known, self._present_value(known)
            # Built without the lock, and again if another thread has changed the attribute meanwhile.
            layer = Layer(path, attribute, installation, below)
            layer.new = value = installation.build(layer)
            with self._lock:
                if self.changes == changes or self._still_holds(attribute, below):
                    attribute.write(value)
                    found = attribute.own()
                    if found is value:
                        self._enter(layer)
                        return layer
                    attribute.put_back(attribute.top_own)
                    raise TargetError(
                        f"{path} did not keep the replacement: it holds {found!r} after the write"
                    )
        raise TargetError(f"{path} cannot be replaced: {_KEPT_CHANGING}")

    def _present_value(self, attribute: Attribute) -> Any:
        """What a layer on top of the attribute would stand on now."""
        with self._lock:
            if not attribute.layers:
                return attribute.take_as_base()
            self._absorb_foreign_write(attribute)
            return attribute.top

    def _still_holds(self, attribute: Attribute, top: Any) -> bool:
        """Whether ``top`` is still the uppermost value of the attribute, and the attribute the one to write to."""
        known = self.known(attribute.owner, attribute.name)
        is_known = known is None or known is attribute
        return is_known and attribute.top is top and attribute.own() is attribute.top_own

    def adopt(self, attribute: Attribute, before: Any, installation: Installation) -> Layer:
        """Take over a write that foreign code has just done on our behalf; ``before`` is what was there."""
        with self._lock:
            known = self.known(attribute.owner, attribute.name)
            if known is None:
                attribute.take_as_base()
                attribute.base_own = attribute.base = before
            else:
                attribute = known
            layer = Layer(attribute.path, attribute, installation, attribute.top, attribute.own())
            self._enter(layer)
        return layer

    def remove(self, layer: Layer, changes: list[Change]) -> str:
        """Take one layer away and rebuild those above it.

        Args:
            changes: those of the attribute's value are added here.

        Returns:
            a remark, "" if there is none: a foreign write that was left alone, a wrapper that failed when it was
            called again.
        """
        attribute = layer.attribute
        with self._lock:
            if layer.is_leaving or layer not in attribute.layers:
                return ""
            layer.is_leaving = True
            if attribute.was_reloaded and not any(one.is_on_top for one in attribute.layers):
                attribute.start_over()
                changes.append(Transition(attribute, layer, layer.new, attribute.base, True))
                return ""
            remark = self._take_out(layer, changes)
        remark = self._rebuild(attribute, layer, changes) or remark
        with self._lock:
            if all(one.installation is None for one in attribute.layers):
                self._forget(attribute)
        return remark

    def _take_out(self, layer: Layer, changes: list[Change]) -> str:
        """Take one layer away, and let the attribute hold what is on top then; a remark, or ""."""
        attribute, remark = layer.attribute, ""
        self._absorb_foreign_write(attribute)
        index = attribute.layers.index(layer)
        if any(one.installation is None for one in attribute.layers[index + 1 :]):
            # The attribute is theirs now; copies that we made hold our value are not.
            changes.append(Transition(attribute, layer, layer.new, layer.old, True))
            remark = (
                f"{attribute.path} was overwritten by somebody else after it was patched; it is left alone"
            )
        old_top = attribute.top_own
        attribute.layers.remove(layer)
        self.changes = next(self._numbers)
        return self._put_back_top(attribute, old_top, layer, changes) or remark

    def _put_back_top(
        self, attribute: Attribute, old_top: Any, cause: Layer | None, changes: list[Change]
    ) -> str:
        """Write the value on top where it is not ``old_top``; the text of a refusal, or ""."""
        if attribute.top_own is old_top:
            return ""
        try:
            attribute.put_back(attribute.top_own)
        except TargetError as error:
            return str(error)
        if cause is not None:
            changes.append(Transition(attribute, cause, old_top, attribute.read(), True))
        return ""

    def _rebuild(self, attribute: Attribute, cause: Layer | None, changes: list[Change]) -> str:
        """Make anew the layers that stand on another value than they were made on; a text if one fails, or "".

        They are built without the lock, and again if another thread has changed the attribute meanwhile.
        """
        for _ in range(_ATTEMPTS):
            with self._lock:
                layers, base = list(attribute.layers), attribute.base
            rebuilt, remark = self._rebuilt(attribute, layers, base)
            with self._lock:
                if attribute.layers != layers or attribute.base is not base:
                    continue
                old_top = attribute.top_own
                for one, old, new in rebuilt:
                    one.old, one.new = old, new
                if not rebuilt:
                    return remark
                return self._put_back_top(attribute, old_top, cause, changes) or remark
        return f"{attribute.path} cannot be rebuilt: {_KEPT_CHANGING}"

    def _rebuilt(
        self, attribute: Attribute, layers: list[Layer], base: Any
    ) -> tuple[list[tuple[Layer, Any, Any]], str]:
        """``(layer, what is below it, its value)`` of each layer that changes, and the text of a failure or ""."""
        rebuilt: list[tuple[Layer, Any, Any]] = []
        below = base
        for one in layers:
            value = one.new
            if one.old is not below:
                if one.installation is not None:
                    trial = Layer(one.path, attribute, one.installation, below, one.new)
                    try:
                        value = one.installation.build(trial)
                    except Exception as error:
                        failure = f"rebuilding {one.patch} failed: {type(error).__name__}: {error}"
                        return [*rebuilt, (one, below, value)], f"{attribute.path}: {failure}"
                rebuilt.append((one, below, value))
            below = value
        return rebuilt, ""

    # ------------------------------------------------------------------ attributes that are copies of others
    def values_in_use(self) -> set[int]:
        """Identities of all values that layers hold."""
        return {id(layer.new) for attribute in self.attributes for layer in attribute.layers}

    def below(self, module: Any, name: str, value: Any) -> Any:
        """The original of ``module.name`` if that is patched, else ``value``, which is what it holds."""
        known = self.known(module, name)
        return known.base if known is not None and known.layers else value

    def rebase(self, module: Any, name: str, original: Any) -> bool:
        """Give a patched ``module.name`` another original; False if it is not patched."""
        known = self.known(module, name)
        if known is None or not known.layers:
            return False
        with self._lock:
            known.base = original
            if known.base_own is not ABSENT:
                known.base_own = original
        self._rebuild(known, None, [])
        return True

    def _enter(self, layer: Layer) -> None:
        attribute = layer.attribute
        attribute.layers.append(layer)
        self._by_owner[id(attribute.owner)][attribute.name] = attribute
        self.changes = next(self._numbers)

    def _absorb_foreign_write(self, attribute: Attribute) -> None:
        """Take notice of a value that is not the one we left: after a reload the new base, else a foreign layer."""
        found = attribute.own()
        if found is attribute.top_own:
            return
        if attribute.was_reloaded or not attribute.layers:
            attribute.start_over()
        else:
            attribute.layers.append(Layer(attribute.path, attribute, None, attribute.top, found))

    def _forget(self, attribute: Attribute) -> None:
        attribute.layers.clear()
        self._by_owner[id(attribute.owner)].pop(attribute.name, None)


#: The one journal of the process.
journal = Journal()
