"""The undo log of the process: who wrote what where, layer upon layer.

Every write of a patch goes through :data:`journal`. Several patchers may stack on one attribute and may be
taken away in any order: removing a lower layer rebuilds those above it. A value that somebody else wrote over ours is
left alone. After a reload of the module the reloaded value is the new original.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from typing import Any, Callable

from .attributes import ABSENT, Attribute, TargetError, module_dict


class Transition:
    """The value of an attribute changed from ``old`` to ``new`` (raw values); ``layer`` is the cause.

    ``was_ours``: ``old`` had been put there by a patch.
    """

    __slots__ = ("layer", "new", "old", "slot", "was_ours")

    def __init__(self, slot: Slot, layer: Layer, old: Any, new: Any, was_ours: bool) -> None:
        self.slot = slot
        self.layer = layer
        self.old = old
        self.new = new
        self.was_ours = was_ours


class Layer:
    """One write on one attribute.

    Attributes:
        holder: the patcher that wrote it; None for a value that came from somewhere else.
        patch: the patch that it belongs to.
        build: from the raw value below to the raw value of this layer.
        value: the raw value that was written.
        is_leaving: somebody is taking it away.
    """

    __slots__ = ("build", "holder", "is_leaving", "patch", "slot", "value")

    def __init__(self, slot: Slot, holder: Any, patch: Any, build: Callable[[Any], Any]) -> None:
        self.slot = slot
        self.holder = holder
        self.patch = patch
        self.build = build
        self.value: Any = ABSENT
        self.is_leaving = False

    @property
    def below(self) -> Any:
        """The raw value that this layer replaced."""
        layers = self.slot.layers
        index = layers.index(self) if self in layers else len(layers)
        return layers[index - 1].value if index else self.slot.base

    @property
    def is_on_top(self) -> bool:
        """True while the attribute still holds what this layer wrote."""
        return self in self.slot.layers and self.slot.attribute.own() is self.value

    @property
    def is_in_force(self) -> bool:
        """True while this layer is on the attribute, be it under others, and the module was not reloaded since."""
        return self in self.slot.layers and not self.slot.was_reloaded


class Slot:
    """An attribute that was written: what it held before, and the layers on top.

    ``copies`` are the references elsewhere that follow it: module and namespace by ``(module name, name)``.
    """

    __slots__ = ("attribute", "base", "base_own", "copies", "layers", "module_spec")

    def __init__(self, attribute: Attribute) -> None:
        self.attribute = attribute
        self.layers: list[Layer] = []
        self.copies: dict[tuple[str, str], tuple[Any, dict[str, Any]]] = {}
        self.take_as_base()

    def take_as_base(self) -> None:
        """What the attribute holds now is the original."""
        own = self.base_own = self.attribute.own()
        self.base = self.attribute.read() if own is ABSENT else own
        self.module_spec = _spec_of(self.attribute.module_name)

    def start_over(self) -> None:
        """The module was reloaded: what it holds now is the original, and the copies go on following it."""
        self.layers.clear()
        self.take_as_base()

    @property
    def top(self) -> Any:
        """The raw value that the uppermost layer left, or the original."""
        return self.layers[-1].value if self.layers else self.base

    @property
    def top_own(self) -> Any:
        """The same, but ABSENT where the original is inherited and not the owner's own."""
        return self.layers[-1].value if self.layers else self.base_own

    @property
    def was_reloaded(self) -> bool:
        """True if the module was executed again: ``importlib.reload`` gives it a new ``__spec__``."""
        return _spec_of(self.attribute.module_name) is not self.module_spec


def _spec_of(module_name: str) -> Any:
    return (module_dict(sys.modules.get(module_name)) or {}).get("__spec__")


class Journal:
    """All slots of the process."""

    def __init__(self) -> None:
        #: how often a layer was written or taken away so far
        self.changes = 0
        self._slots: dict[tuple[int, str], Slot] = {}
        self._lock = allocate_lock()

    def slot(self, attribute: Attribute) -> Slot | None:
        """The slot of the attribute, if a patch of anybody is on it."""
        return self._slots.get(attribute.key)

    @property
    def slots(self) -> list[Slot]:
        """All attributes that a patch of anybody is on."""
        return [slot for slot in list(self._slots.values()) if slot.layers]

    def write(self, attribute: Attribute, build: Callable[[Any], Any], *, holder: Any, patch: Any) -> Layer:
        """Write ``build(present raw value)`` and read it back.

        Raises:
            TargetError: the owner refused the value or holds another one afterwards; nothing is changed then.
            Exception: what ``build`` raises; nothing is changed then.
        """
        slot = self._slots.get(attribute.key)
        if slot is None:
            slot = Slot(attribute)
        else:
            self._absorb_foreign_write(slot)
        layer = Layer(slot, holder, patch, build)
        layer.value = value = build(slot.top)
        attribute.write(value)
        found = attribute.own()
        if found is not value:
            attribute.put_back(slot.top_own)
            raise TargetError(
                f"{attribute.path} did not keep the replacement: it holds {found!r} after the write"
            )
        self._enter(layer)
        return layer

    def adopt(self, attribute: Attribute, before: Any, *, holder: Any, patch: Any) -> Layer:
        """Take over a write that foreign code has just done on our behalf; ``before`` is what was there."""
        slot = self._slots.get(attribute.key)
        value = attribute.own()
        if slot is None:
            slot = Slot(attribute)
            slot.base_own = slot.base = before
        layer = Layer(slot, holder, patch, lambda below: value)
        layer.value = value
        self._enter(layer)
        return layer

    def remove(self, layer: Layer) -> tuple[list[Transition], str]:
        """Take one layer away and rebuild those above it.

        Returns:
            the changes of the attribute's value, and a remark ("" if there is none): a foreign write that was
            left alone, a wrapper that failed when it was called again.
        """
        slot = layer.slot
        with self._lock:
            if layer.is_leaving or layer not in slot.layers:
                return [], ""
            layer.is_leaving = True
        remark = ""
        if slot.was_reloaded and not any(one.is_on_top for one in slot.layers):
            slot.start_over()
            return [Transition(slot, layer, layer.value, slot.base, True)], ""
        self._absorb_foreign_write(slot)
        index = slot.layers.index(layer)
        transitions = []
        if any(one.holder is None for one in slot.layers[index + 1 :]):
            # The attribute is theirs now; copies that we made hold our value are not.
            transitions.append(Transition(slot, layer, layer.value, layer.below, True))
            remark = f"{slot.attribute.path} was overwritten by somebody else after it was patched; it is left alone"
        old_top = slot.top_own
        with self._lock:
            self.changes += 1
            slot.layers.remove(layer)
        remark = self._rebuild(slot, index) or remark
        if slot.top_own is not old_top:
            try:
                slot.attribute.put_back(slot.top_own)
            except TargetError as error:
                remark = str(error)
            else:
                transitions.append(Transition(slot, layer, old_top, slot.attribute.read(), True))
        if all(one.holder is None for one in slot.layers):
            self._forget(slot)
        return transitions, remark

    def _rebuild(self, slot: Slot, index: int) -> str:
        """Make the layers from ``index`` upwards anew on what is below them now; the text of a failure, or ""."""
        below = slot.layers[index - 1].value if index else slot.base
        for one in slot.layers[index:]:
            if one.holder is None:
                break
            try:
                value = one.build(below)
            except Exception as error:
                return (
                    f"{slot.attribute.path}: rebuilding {one.patch} failed: {type(error).__name__}: {error}"
                )
            if value is one.value:
                break
            below = one.value = value
        return ""

    # ------------------------------------------------------------------ attributes that are copies of others
    def values_in_use(self) -> set[int]:
        """Identities of all values that layers hold."""
        return {id(layer.value) for slot in self.slots for layer in slot.layers}

    def below(self, module: Any, name: str, value: Any) -> Any:
        """The original of ``module.name`` if that is patched, else ``value``, which is what it holds."""
        slot = self._slots.get((id(module), name))
        return slot.base if slot is not None and slot.layers else value

    def rebase(self, module: Any, name: str, original: Any) -> bool:
        """Give a patched ``module.name`` another original; False if it is not patched."""
        slot = self._slots.get((id(module), name))
        if slot is None or not slot.layers:
            return False
        old_top = slot.top_own
        slot.base = original
        if slot.base_own is not ABSENT:
            slot.base_own = original
        self._rebuild(slot, 0)
        if slot.top_own is not old_top:
            slot.attribute.put_back(slot.top_own)
        return True

    def _enter(self, layer: Layer) -> None:
        slot = layer.slot
        with self._lock:
            self.changes += 1
            slot.layers.append(layer)
            self._slots[slot.attribute.key] = slot

    def _absorb_foreign_write(self, slot: Slot) -> None:
        """Take notice of a value that is not the one we left: after a reload the new base, else a foreign layer."""
        found = slot.attribute.own()
        if found is slot.top_own:
            return
        if slot.was_reloaded or not slot.layers:
            slot.start_over()
            return
        foreign = Layer(slot, None, None, lambda below: found)
        foreign.value = found
        slot.layers.append(foreign)

    def _forget(self, slot: Slot) -> None:
        with self._lock:
            slot.layers.clear()
            self._slots.pop(slot.attribute.key, None)


#: The one journal of the process.
journal = Journal()
