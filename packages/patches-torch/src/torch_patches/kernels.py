"""Kernels of operators: a patch below Python, for one device, that no other device pays for."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any, Callable

from patcher_core import CustomPatch, PatchStatus, PutIn


class KernelPatch(CustomPatch):
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

    def put_in(self, holder: Any, *, imports: bool) -> PutIn:
        """Register the kernel; undone, the device's own is in force again."""
        if not imports and "torch" not in sys.modules:
            return PutIn(PatchStatus.PENDING, "waiting for the import of torch")
        torch = importlib.import_module("torch")
        get_kernel = getattr(torch.library, "get_kernel", None)
        if get_kernel is None:
            return PutIn(PatchStatus.SKIPPED, f"torch {torch.__version__} has no torch.library.get_kernel")
        key = (self.operator, self.dispatch_key)
        if key in _holders:
            return PutIn(PatchStatus.SKIPPED, f"already applied by {_holders[key]}")
        library = self._register(torch, get_kernel(*key))
        _holders[key] = holder

        def undo() -> None:
            library._destroy()
            del _holders[key]

        return PutIn(PatchStatus.APPLIED, f"kernel for {self.dispatch_key}", undo)

    def _register(self, torch: Any, device_kernel: Any) -> Any:
        """The library that keeps the kernel registered as long as it is there."""

        def kernel(keyset: Any, *arguments: Any) -> Any:
            def original(*arguments: Any) -> Any:
                return device_kernel.call_boxed(keyset, *arguments)

            return self.kernel(original, *arguments)

        namespace, _, name = self.operator.partition("::")
        library = torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*Overriding a previously registered kernel")
            library.impl(name, kernel, self.dispatch_key, with_keyset=True, allow_override=True)
        return library


#: which patcher replaced which kernel
_holders: dict[tuple[str, str], Any] = {}
