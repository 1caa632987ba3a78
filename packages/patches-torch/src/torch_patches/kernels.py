"""Kernels of operators: a patch below Python, for one device, that no other device pays for."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, Callable, Collection

from patcher_core import BasePatch, PatchStatus
from patcher_core.installation import Installation
from patcher_core.results import Line


class KernelPatch(BasePatch):
    """Put a kernel in place of the one that a device has for an operator.

    Args:
        operator: such as ``"aten::index.Tensor"``.
        kernel: ``kernel(original, *arguments)``; ``original(*arguments)`` runs the device's own kernel. It runs below
            autograd: the gradient stays that of the operator.
        dispatch_key: of the device, such as ``"PrivateUse1"``.
    """

    def __init__(self, operator: str, kernel: Callable[..., Any], dispatch_key: str) -> None:
        self.operator = operator
        self.kernel = kernel
        self.dispatch_key = dispatch_key
        self.name = f"torch.ops.{operator.replace('::', '.')}"
        self.installation_class = KernelInstallation


class KernelInstallation(Installation):
    """Registers the kernel; undone, the device's own is in force again."""

    patch: KernelPatch
    _library: Any = None

    def install(self, changes: list[Any], *, imports: bool, executed: Collection[str] = ()) -> None:
        if self._library is None:
            status, reason = self._register(imports)
            self.lines = {self.patch.name: Line(self.patch.name, status, reason)}

    def _register(self, imports: bool) -> tuple[PatchStatus, str]:
        if not imports and "torch" not in sys.modules:
            return PatchStatus.PENDING, "waiting for the import of torch"
        torch = importlib.import_module("torch")
        patch = self.patch
        get_kernel = getattr(torch.library, "get_kernel", None)
        if get_kernel is None:
            return PatchStatus.SKIPPED, f"torch {torch.__version__} has no torch.library.get_kernel"
        key = (patch.operator, patch.dispatch_key)
        if key in _holders:
            return PatchStatus.SKIPPED, f"already applied by {_holders[key]}"
        device_kernel = get_kernel(patch.operator, patch.dispatch_key)

        def kernel(keyset: Any, *arguments: Any) -> Any:
            def original(*arguments: Any) -> Any:
                return device_kernel.call_boxed(keyset, *arguments)

            return patch.kernel(original, *arguments)

        namespace, _, name = patch.operator.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel")
            library.impl(name, kernel, patch.dispatch_key, with_keyset=True, allow_override=True)
        self._library = library
        _holders[key] = self.holder
        return PatchStatus.APPLIED, f"kernel for {patch.dispatch_key}"

    def remove(self, changes: list[Any]) -> list[str]:
        if self._library is not None:
            self._library._destroy()
            self._library = None
            del _holders[self.patch.operator, self.patch.dispatch_key]
        return super().remove(changes)


#: which patcher replaced which kernel
_holders: dict[tuple[str, str], Any] = {}
