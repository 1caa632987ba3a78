"""torch_scatter without its compiled kernels."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any, Callable, Mapping

from patcher_core import AtomicPatch, ModulePatch, Patch, backend_of

if TYPE_CHECKING:
    from torch import Tensor

PORTABLE = "torch_patches.portable_torch_scatter"

#: the functions of each module of torch_scatter
FUNCTIONS = {
    "scatter": (
        "scatter",
        *("scatter_sum", "scatter_add", "scatter_mul", "scatter_mean", "scatter_min", "scatter_max"),
    ),
    "segment_csr": (
        *("segment_csr", "segment_sum_csr", "segment_add_csr", "segment_mean_csr"),
        *("segment_min_csr", "segment_max_csr", "gather_csr"),
    ),
    "segment_coo": (
        *("segment_coo", "segment_sum_coo", "segment_add_coo", "segment_mean_coo"),
        *("segment_min_coo", "segment_max_coo", "gather_coo"),
    ),
    "composite": ("scatter_std", "scatter_logsumexp", "scatter_softmax", "scatter_log_softmax"),
}


class TorchScatter(Patch):
    """torch_scatter in plain PyTorch, with ``mx_driving``'s operators on an NPU where they fit.

    Where torch_scatter is not installed, all of it is supplied. Where it is installed it is left alone without an NPU;
    with one, tensors on the NPU go to these functions and all others to upstream.
    """

    name = "torch_scatter"
    legacy_name = "scatter"
    library = "torch"
    backends = ("npu", "portable")
    why = "torch_scatter has compiled kernels for the CPU and for CUDA only, and is often not built at all"
    upstream = "torch_scatter 2.1.2"

    @staticmethod
    def original_runs_here() -> bool:
        """Whether torch_scatter is installed."""
        return is_installed()

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        on_npu = backend_of(options) == "npu"
        patches: list[Any] = supplied_modules()
        if is_installed():
            patches = [
                function_patch(
                    module, function, f"{PORTABLE}.{module}.{function}", is_on_npu if on_npu else None
                )
                for module, functions in FUNCTIONS.items()
                for function in functions
            ]
        if on_npu:
            patches += [
                function_patch("scatter", function, replacement, check)
                for function, (replacement, check) in npu_functions().items()
            ]
        return patches


def is_installed() -> bool:
    """True where the installation itself has torch_scatter; a supplied one does not count. Nothing is imported."""
    from patcher_core.imports import installed_spec

    return installed_spec("torch_scatter") is not None


def supplied_modules() -> list[ModulePatch]:
    """Every module of torch_scatter, made of the portable one of the same name."""
    children = [*FUNCTIONS, "utils"]

    def package() -> ModuleType:
        # now, because importing torch_scatter.scatter later would hide the function of that name
        for child in children:
            importlib.import_module(f"torch_scatter.{child}")
        return importlib.import_module(PORTABLE)

    def module(child: str) -> Callable[[], ModuleType]:
        return lambda: importlib.import_module(f"{PORTABLE}.{child}")

    return [
        ModulePatch("torch_scatter", package),
        *(ModulePatch(f"torch_scatter.{child}", module(child)) for child in children),
    ]


def function_patch(
    module: str, function: str, replacement: Any, check: Callable[..., bool] | None
) -> AtomicPatch:
    """A function in its module and in the package."""
    target = f"torch_scatter.{module}.{function}"
    return AtomicPatch(target, replacement, aliases=f"torch_scatter.{function}", runtime_check=check)


def npu_functions() -> dict[str, tuple[Callable[..., Any], Callable[..., bool]]]:
    """By name of the function: what replaces it on an NPU, and for which arguments."""
    return {
        "scatter_sum": (npu_scatter_sum, fits_sum),
        "scatter_add": (npu_scatter_sum, fits_sum),
        "scatter_mean": (npu_scatter_mean, fits_mean),
        "scatter_max": (npu_scatter_max, fits_max),
    }


def is_on_npu(src: Any, *arguments: Any, **named: Any) -> bool:
    """True for a first argument on the NPU."""
    return src.device.type == "npu"


def fits_sum(src: Tensor, index: Tensor, dim: int = -1, out: Any = None, dim_size: int | None = None) -> bool:
    """On the NPU, without ``out``, an index in the shape of ``src`` or along ``dim``, and not empty."""
    import torch

    return (
        src.device.type == "npu"
        and out is None
        and src.dtype in (torch.float32, torch.float16)
        and (index.shape == src.shape or index.shape == (src.size(dim),))
        and src.numel() > 0
    )


def fits_mean(
    src: Tensor, index: Tensor, dim: int = -1, out: Any = None, dim_size: int | None = None
) -> bool:
    """As :func:`fits_sum`; the operator computes in float32 only."""
    import torch

    return fits_sum(src, index, dim, out, dim_size) and src.dtype == torch.float32


def fits_max(src: Tensor, index: Tensor, dim: int = -1, out: Any = None, dim_size: int | None = None) -> bool:
    """As :func:`fits_sum`, with an index along ``dim``."""
    return fits_sum(src, index, dim, out, dim_size) and index.dim() == 1


def npu_scatter_sum(
    src: Tensor, index: Tensor, dim: int = -1, out: None = None, dim_size: int | None = None
) -> Tensor:
    """Sum of each group, computed in float32, in the dtype of ``src``."""
    import mx_driving

    return mx_driving.scatter_add(src, index.int(), None, dim % src.dim(), dim_size)


def npu_scatter_mean(
    src: Tensor, index: Tensor, dim: int = -1, out: None = None, dim_size: int | None = None
) -> Tensor:
    """Mean of each group (float32)."""
    import mx_driving

    return mx_driving.scatter_mean(src, index.int(), None, dim % src.dim(), dim_size)


def npu_scatter_max(
    src: Tensor, index: Tensor, dim: int = -1, out: None = None, dim_size: int | None = None
) -> tuple[Tensor, Tensor]:
    """Maximum of each group in the dtype of ``src``, and its position (int64); 0 and N for an empty one.

    The operator reduces rows of a matrix of float32, to as many groups as the largest index says. Of equal ones it
    takes the last.
    """
    import mx_driving

    moved = src.movedim(dim, 0)
    rows = moved.reshape(moved.shape[0], -1)
    values, positions = mx_driving.scatter_max(rows.float(), index.int(), None)
    values, positions = values.to(src.dtype), positions.long()
    missing = (dim_size or 0) - values.shape[0]
    if missing > 0:
        import torch

        empty = (missing, rows.shape[1])
        values = torch.cat([values, values.new_zeros(empty)])
        positions = torch.cat([positions, positions.new_full(empty, rows.shape[0])])
    shape = (values.shape[0], *moved.shape[1:])
    return values.view(shape).movedim(0, dim), positions.view(shape).movedim(0, dim)
