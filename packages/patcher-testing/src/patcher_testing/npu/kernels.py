"""Puts CPU kernels under the operators that torch_npu registers for its device.

Schemas, autograd formulas and meta kernels stay torch_npu's and PyTorch's own; what would run on the chip is
replaced: aten operators by PyTorch's CPU kernels, `npu::` operators by the references in `operators/`, all others by
an error.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Mapping

import torch

from . import randomness
from .errors import OperatorNotModelled
from .memory import DEVICE_TYPE, device_of, host_view, is_device_tensor, map_nested, to_device
from .recording import note

Kernel = Callable[..., Any]

#: torch_npu's own kernels that only handle metadata, storage or copies by the runtime: they run as they are.
NATIVE_ATEN = frozenset(
    [
        "_copy_from_and_resize",
        "_pin_memory",
        "_reshape_alias",
        "_to_copy",
        "alias",
        "as_strided",
        "as_strided_",
        "contiguous",
        "detach",
        "diagonal",
        "empty.memory_format",
        "empty_like",
        "empty_strided",
        "expand",
        "is_pinned",
        "is_set_to",
        "new_empty_strided",
        "permute",
        "record_stream",
        "resize_",
        "resize_as_",
        "select.int",
        "set_",
        "set_.source_Storage",
        "set_.source_Storage_storage_offset",
        "set_.source_Tensor",
        "slice.Tensor",
        "squeeze",
        "squeeze.dim",
        "squeeze.dims",
        "transpose",
        "unfold",
        "unsqueeze",
        "view",
        "view.dtype",
        "view_as_complex",
        "view_as_real",
    ]
)
NATIVE_NPU = frozenset(
    [
        "_npu_distribute_barrier",
        "copy_memory_",
        "empty_with_format",
        "empty_with_swapped_memory",
        "get_npu_format",
        "get_storage_size",
        "npu_change_data_ptr",
        "unsafe_empty_with_format",
    ]
)

_CPU_KEYS = ("CPU", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


def _has_kernel(full_name: str, key: str) -> bool:
    return torch._C._dispatch_has_kernel_for_dispatch_key(full_name, key)


class _ToHost:
    """Turns an operator's arguments into what the CPU kernel takes, and its results into device tensors."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._views: list[tuple[torch.Tensor, torch.Tensor]] = []

    def arguments(self, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        return (
            map_nested(self.argument, args),
            {name: map_nested(self.argument, value) for name, value in kwargs.items()},
        )

    def argument(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if not is_device_tensor(value):
                return value
            view = host_view(value)
            self._views.append((value, view))
            return view
        if isinstance(value, torch.device) and value.type == DEVICE_TYPE:
            return torch.device("cpu")
        if isinstance(value, torch.Generator):
            return None
        return value

    def result(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        for original, view in self._views:
            if view is value:
                return original
        return to_device(value, self.device)

    def write_back_resized(self) -> None:
        """An empty `out=` tensor that the kernel gave a size has memory of its own: copy it to the device."""
        for original, view in self._views:
            if view.size() != original.size():
                original.resize_(view.size())
                host_view(original).copy_(view)


def _cpu_kernel(name: str, operator: Any) -> Kernel:
    """A kernel that runs the CPU kernel of the same operator on the device's memory."""
    is_random = randomness.is_random(operator)

    def kernel(*args: Any, **kwargs: Any) -> Any:
        note(name, args, kwargs)
        to_host = _ToHost(device_of(*args, *kwargs.values()))
        host_args, host_kwargs = to_host.arguments(args, kwargs)
        if host_kwargs.get("pin_memory"):
            host_kwargs["pin_memory"] = False
        generators = (value for value in (*args, *kwargs.values()) if isinstance(value, torch.Generator))
        seeded = (
            randomness.seeded_from_device(next(generators, None), to_host.device)
            if is_random
            else contextlib.nullcontext()
        )
        with seeded:
            result = operator(*host_args, **host_kwargs)
        to_host.write_back_resized()
        return map_nested(to_host.result, result)

    return kernel


def _decomposition(operator: Any) -> Kernel:
    """PyTorch's own decomposition of a composite operator, in place of a device kernel."""

    def kernel(*args: Any, **kwargs: Any) -> Any:
        return operator.decompose(*args, **kwargs)

    return kernel


def _unmodelled_kernel(name: str) -> Kernel:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        raise OperatorNotModelled(name)

    return kernel


def _above_autograd() -> Any:
    """Within the block operators are differentiated again, although kernels run below autograd."""
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    for key in (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView):
        excluded = excluded.remove(key)
    return torch._C._ForceDispatchKeyGuard(included, excluded)


def reference_kernel(name: str, reference: Kernel) -> Kernel:
    """A kernel that runs a plain PyTorch function on the device's memory.

    The function gets CPU tensors and may use autograd inside, although kernels run below autograd.
    """

    def kernel(*args: Any, **kwargs: Any) -> Any:
        note(name, args, kwargs)
        to_host = _ToHost(device_of(*args, *kwargs.values()))
        host_args, host_kwargs = to_host.arguments(args, kwargs)
        with _above_autograd(), torch.no_grad():
            result = reference(*host_args, **host_kwargs)
        return map_nested(to_host.result, result)

    return kernel


def _copy(self: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    note("aten::copy_", (self, source), {})
    to_host = _ToHost(device_of(self, source))
    to_host.argument(self).copy_(to_host.argument(source))
    return self


class DeviceKernels:
    """The kernels of the simulated device; they stay registered as long as this object lives."""

    def __init__(self, references: Mapping[str, Kernel]) -> None:
        self._libraries = {name: torch.library.Library(name, "IMPL") for name in ("aten", "npu")}
        for full_name in torch._C._dispatch_get_registrations_for_dispatch_key("PrivateUse1"):
            namespace, _, name = full_name.partition("::")
            if namespace == "aten" and name not in NATIVE_ATEN:
                self._install_aten(full_name, name)
            elif namespace == "npu" and name not in NATIVE_NPU:
                self._install(full_name, _unmodelled_kernel(full_name))
        self._install("aten::copy_", _copy)
        for full_name, reference in references.items():
            self.register_reference(full_name, reference)

    def register_reference(self, operator: str, reference: Kernel) -> None:
        """Model every overload of `operator` (`npu::npu_x`) by `reference`, called with CPU tensors."""
        namespace, _, name = operator.partition("::")
        packet = getattr(getattr(torch.ops, namespace), name.partition(".")[0])
        overloads = [name.partition(".")[2]] if "." in name else packet.overloads()
        for overload in overloads:
            suffix = "" if overload in ("", "default") else f".{overload}"
            full_name = operator.partition(".")[0] + suffix
            self._install(full_name, reference_kernel(full_name, reference))

    def _install_aten(self, full_name: str, name: str) -> None:
        packet, _, overload = name.partition(".")
        try:
            operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
        except AttributeError:
            # torch_npu registers kernels for names that this torch does not define
            return
        if _has_kernel(full_name, "CompositeImplicitAutograd"):
            self._install(full_name, _decomposition(operator))
            if _has_kernel(full_name, "AutogradPrivateUse1"):
                self._install(full_name, _decomposition(operator), "AutogradPrivateUse1")
        elif any(_has_kernel(full_name, key) for key in _CPU_KEYS):
            self._install(full_name, _cpu_kernel(full_name, operator))
        else:
            self._install(full_name, _unmodelled_kernel(full_name))

    def _install(self, full_name: str, kernel: Kernel, key: str = "PrivateUse1") -> None:
        namespace, _, name = full_name.partition("::")
        self._libraries[namespace].impl(name, kernel, key, allow_override=True)
