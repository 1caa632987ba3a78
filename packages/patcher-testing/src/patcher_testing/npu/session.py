"""`simulated_npu()`: the real torch_npu in this process, without an NPU."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import io
import os
import sys
import warnings
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Callable, ContextManager, Iterator

from .errors import SimulatedNpuUnavailable
from .packages import MX_DRIVING_VERSION, SIMULATED_MODULES, TORCH_NPU_VERSION, NpuPackages, find_packages

#: Read by torch_npu and by torch before anything else; without the first, torch imports torch_npu by itself
#: where it is installed. The other two make every operator complete before its call returns.
ENVIRONMENT = {
    "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
    "TASK_QUEUE_ENABLE": "0",
    "ASCEND_LAUNCH_BLOCKING": "1",
}


#: Every torch_npu is linked against it.
RUNTIME_LIBRARY = "libascendcl.so"


def _require_torch() -> None:
    if importlib.util.find_spec("torch") is None:
        raise SimulatedNpuUnavailable(
            f"the simulated NPU needs torch {TORCH_NPU_VERSION}, which is not installed. "
            f"Install it with: pip install torch=={TORCH_NPU_VERSION}"
        )
    version = importlib.metadata.version("torch").partition("+")[0]
    if version != TORCH_NPU_VERSION:
        raise SimulatedNpuUnavailable(
            f"the simulated NPU needs torch {TORCH_NPU_VERSION}, for which torch_npu is built, "
            f"but found torch {version}. Install it with: pip install torch=={TORCH_NPU_VERSION}"
        )


def has_real_runtime() -> bool:
    """Does the loader find the runtime libraries of a real NPU?"""
    try:
        ctypes.CDLL(RUNTIME_LIBRARY)
    except OSError:
        return False
    return True


def _refuse_real_runtime() -> None:
    if has_real_runtime():
        raise SimulatedNpuUnavailable(
            f"{RUNTIME_LIBRARY} of a real NPU is here, and a simulated one cannot live in the same process: use the "
            "real one, or take its folder out of LD_LIBRARY_PATH"
        )


class SimulatedNpu:
    """The simulated device of this process."""

    def __init__(self, packages: NpuPackages) -> None:
        from . import mx_operators, operators, runtime_library
        from .finder import SimulatedPackagesFinder
        from .kernels import DeviceKernels

        runtime_folder = runtime_library.built_folder(packages)
        runtime_library.load(runtime_folder)
        self._finder: Any = SimulatedPackagesFinder(packages, runtime_folder, mx_operators.REFERENCES)
        self._modules: dict[str, ModuleType] = {}
        self._uses = 0
        self.has_mx_driving = packages.mx_driving is not None
        self._show()
        try:
            # torch_npu's own deprecations and its note that no CANN is installed are not what a caller tests
            with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
                warnings.simplefilter("ignore")
                torch_npu = importlib.import_module("torch_npu")
                torch_npu.npu.init()
                # as on a device whose operators are compiled ahead; otherwise torch_npu refuses complex
                # dtypes
                torch_npu.npu.set_compile_mode(jit_compile=False)
                self._kernels = DeviceKernels(operators.REFERENCES)
        finally:
            self._hide()
        # exit handlers run last in, first out: those that torch_npu registered import it again
        atexit.register(self._show)

    def _show(self) -> None:
        for name in SIMULATED_MODULES:
            sys.modules.pop(name, None)
        sys.meta_path.insert(0, self._finder)
        sys.modules.update(self._modules)

    def _hide(self) -> None:
        from .finder import hide_modules

        sys.meta_path.remove(self._finder)
        self._modules = hide_modules()

    @contextmanager
    def active(self) -> Iterator[SimulatedNpu]:
        """torch_npu and mx_driving are importable within the block; blocks may be nested."""
        if self._uses == 0:
            self._show()
        self._uses += 1
        try:
            yield self
        finally:
            self._uses -= 1
            if self._uses == 0:
                self._hide()

    @property
    def torch_npu(self) -> ModuleType:
        return importlib.import_module("torch_npu")

    @property
    def mx_driving(self) -> ModuleType:
        """The real mx_driving package. Its import turns "cuda" into "npu" for the whole process, as on a
        device.

        Raises:
            SimulatedNpuUnavailable: it is not there.
        """
        if not self.has_mx_driving:
            raise SimulatedNpuUnavailable(
                f"the package mx_driving {MX_DRIVING_VERSION} was not found. "
                "Get it with: python -m patcher_testing.npu install"
            )
        return importlib.import_module("mx_driving")

    def record_operators(self) -> ContextManager[Any]:
        """Record the operators that run within a block: see `OperatorRecording`."""
        from .recording import record_operators

        return record_operators()

    def register_reference(self, operator: str, reference: Callable[..., Any]) -> None:
        """Model an operator (`npu::npu_x`) by a function of CPU tensors for the rest of the process."""
        self._kernels.register_reference(operator, reference)


_device: SimulatedNpu | None = None


@contextmanager
def simulated_npu() -> Iterator[SimulatedNpu]:
    """Device `npu` on a machine without one.

    Within the block the real torch_npu (and mx_driving, where it was installed) can be imported, and tensors
    and modules live on device `npu`. PyTorch knows the device for the rest of the process, and
    `transfer_to_npu` cannot be undone: run each group of tests in a process of its own, as the pytest plugin
    does.

    The first use builds a small C library (about two seconds) and keeps it in the user's cache folder.

    Raises:
        SimulatedNpuUnavailable: torch, torch_npu or a C compiler is missing or does not fit; the text says
        which and how to get it.
    """
    global _device
    if _device is None:
        _require_torch()
        _refuse_real_runtime()
        packages = find_packages()
        os.environ.update(ENVIRONMENT)
        _device = SimulatedNpu(packages)
    with _device.active() as device:
        yield device
