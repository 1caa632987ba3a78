"""The autograd function of hard and dynamic voxelization of point clouds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping, Sequence

from patcher_core import AtomicPatch, Patch, backend_of

from .compiled_operators import are_installed

if TYPE_CHECKING:
    from torch import Tensor

_FORWARD = "mmcv.ops.voxelize._Voxelization.forward"


class Voxelization(Patch):
    """``_Voxelization.forward``: ``mx_driving``'s operators on an NPU, plain PyTorch elsewhere.

    What the NPU operators do not take (no points at all, a dtype other than float32) is done in plain PyTorch.
    """

    name = "voxelization"
    legacy_name = "voxelization"
    library = "mmcv"
    backends = ("npu", "portable")
    why = "mmcv's operators have kernels for the CPU and CUDA only"
    upstream = "mmcv/ops/voxelize.py, mmcv 1.4.0 to 2.2.0"
    until = "mmcv brings a kernel for the device"

    original_runs_here = staticmethod(are_installed)  # on the CPU and on CUDA

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        patches = [AtomicPatch(_FORWARD, portable_forward)]
        if backend_of(options) == "npu":
            patches.append(AtomicPatch(_FORWARD, npu_forward, runtime_check=fits_npu))
        return patches


def portable_forward(
    ctx: Any,
    points: Tensor,
    voxel_size: Sequence[float],
    coors_range: Sequence[float],
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """Put points (N, C >= 3) into voxels, see :mod:`mmcv_patches.extension.voxelization`.

    Returns:
        With a limit of -1 the voxel of each point, (N, 3) int32 as z, y, x, -1 outside. Else the voxels
        (M, max_points, C), their coordinates (M, 3) int32, and the number of points of each (M,) int32.
    """
    import torch

    from .extension.calling import like_a_compiled_function
    from .extension.voxelization import dynamic_voxelize_forward, hard_voxelize_forward

    size = torch.tensor(voxel_size, dtype=torch.float32)
    bounds = torch.tensor(coors_range, dtype=torch.float32)
    if -1 in (max_points, max_voxels):
        coordinates = points.new_zeros((points.shape[0], 3), dtype=torch.int32)
        like_a_compiled_function(dynamic_voxelize_forward)(points, size, bounds, coordinates, NDim=3)
        return coordinates
    voxels = points.new_zeros((max_voxels, max_points, points.shape[1]))
    coordinates = points.new_zeros((max_voxels, 3), dtype=torch.int32)
    counts = points.new_zeros((max_voxels,), dtype=torch.int32)
    number = torch.zeros((), dtype=torch.int64)
    like_a_compiled_function(hard_voxelize_forward)(
        points, size, bounds, voxels, coordinates, counts, number, max_points, max_voxels, 3, deterministic
    )
    return voxels[:number], coordinates[:number], counts[:number]


def fits_npu(
    ctx: Any,
    points: Tensor,
    voxel_size: Sequence[float],
    coors_range: Sequence[float],
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> bool:
    """True for what ``mx_driving`` takes: some points, float32, on an NPU."""
    import torch

    return points.device.type == "npu" and points.dtype == torch.float32 and points.shape[0] > 0


def npu_forward(
    ctx: Any,
    points: Tensor,
    voxel_size: Sequence[float],
    coors_range: Sequence[float],
    max_points: int = 35,
    max_voxels: int = 20000,
    deterministic: bool = True,
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """``mx_driving``'s voxelization, as z, y, x and without the number of voxels that it gives back first."""
    import mx_driving

    limits = (-1, -1) if -1 in (max_points, max_voxels) else (max_points, max_voxels)
    result = mx_driving.voxelization(
        points, [*map(float, voxel_size)], [*map(float, coors_range)], *limits, deterministic, "ZYX"
    )
    if limits != (-1, -1):
        return tuple(result[1:])
    return result.masked_fill((result < 0).any(1, keepdim=True), -1)
