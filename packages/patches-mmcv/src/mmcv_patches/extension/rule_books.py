"""Rule books of sparse convolutions: which input cell meets which output cell at which offset of the kernel.

An input cell i and an output cell o are a pair of kernel offset k where, along each axis,

- convolution: ``o * stride - padding + k * dilation = i``;
- transposed convolution: ``i * stride - padding + k * dilation = o``;
- submanifold convolution: as convolution of stride 1 and padding ``kernel // 2``, with the active inputs as
  the outputs.

The offsets of a kernel are numbered with the last axis fastest. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/pytorch/cuda/spconv_ops_cuda.cu`` and ``ops/csrc/common/utils/spconv/spconv/geometry.h``.
"""

from __future__ import annotations

from typing import Callable, NamedTuple, Sequence

import torch
from torch import Tensor

from .flat_indices import unflatten_indices
from .selection import positions_in_groups

__all__ = ["rule_book_function"]


class _Geometry(NamedTuple):
    out_extents: Sequence[int]
    kernel: Sequence[int]
    stride: Sequence[int]
    padding: Sequence[int]
    dilation: Sequence[int]
    transposed: bool


def rule_book_function(name: str, axes: int, with_grid: bool = False) -> Callable[..., list[Tensor]]:
    """Make the function ``mmcv._ext.<name>``, which makes rule books for cells of ``axes`` axes.

    The functions differ in the number of axes, and in whether the caller lends a grid to work in. Such a grid
    is left as it is: nothing here needs one.
    """

    def get_indice_pairs(
        indices: Tensor,
        batchSize: int,
        outSpatialShape: Sequence[int],
        spatialShape: Sequence[int],
        kernelSize: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        outPadding: Sequence[int],
        _subM: int,
        _transpose: int,
    ) -> list[Tensor]:
        """Make the rule book of a sparse convolution.

        Args:
            indices: active cells, (N, 1 + axes) int32, the sample and then the position.
            batchSize: number of samples.
            outSpatialShape: extents of the output.
            spatialShape: extents of the input; those of the output are derived from them by the caller.
            kernelSize, stride, padding, dilation: of the convolution, along each axis.
            outPadding: part of outSpatialShape already.
            _subM: not 0 for a submanifold convolution, which takes neither stride nor padding.
            _transpose: not 0 for a transposed convolution.

        Returns:
            The active output cells (M, 1 + axes) int32, in ascending order; of a submanifold convolution,
            ``indices`` itself. The pairs (K, 2, N) int32: of each kernel offset the input and the output
            cells, in the order of the inputs, then -1. Their number (K,) int32.

        Raises:
            ValueError: ``indices`` or an argument for each axis is not for this number of axes.
        """
        per_axis = (outSpatialShape, kernelSize, stride, padding, dilation)
        found = [indices.shape[1] - 1, *(len(values) for values in per_axis)]
        if any(number != axes for number in found):
            raise ValueError(
                f"{name} is for {axes} axes, but indices, outSpatialShape, kernelSize, stride, padding and "
                f"dilation are for {found}; call the function for that number of axes"
            )
        if _subM:
            centred = [extent // 2 for extent in kernelSize]
            geometry = _Geometry(outSpatialShape, kernelSize, [1] * axes, centred, dilation, transposed=False)
            return _submanifold_rule_book(indices, geometry)
        geometry = _Geometry(outSpatialShape, kernelSize, stride, padding, dilation, bool(_transpose))
        return _rule_book(indices, geometry)

    def get_indice_pairs_in_grid(
        indices: Tensor,
        gridOut: Tensor,
        batchSize: int,
        outSpatialShape: Sequence[int],
        spatialShape: Sequence[int],
        kernelSize: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        outPadding: Sequence[int],
        _subM: int,
        _transpose: int,
    ) -> list[Tensor]:
        return get_indice_pairs(
            indices,
            batchSize,
            outSpatialShape,
            spatialShape,
            kernelSize,
            stride,
            padding,
            dilation,
            outPadding,
            _subM,
            _transpose,
        )

    function = get_indice_pairs_in_grid if with_grid else get_indice_pairs
    function.__name__ = function.__qualname__ = name
    function.__doc__ = get_indice_pairs.__doc__
    return function


def _rule_book(indices: Tensor, geometry: _Geometry) -> list[Tensor]:
    flat, valid = _possible_outputs(indices, geometry)
    offsets, inputs = valid.nonzero(as_tuple=True)
    active, outputs = torch.unique(flat[offsets, inputs], return_inverse=True)
    # The sample is the slowest axis; its extent is not needed.
    out_indices = unflatten_indices(active, (-1, *geometry.out_extents)).to(indices.dtype)
    return [out_indices, *_as_pairs(offsets, inputs, outputs, valid)]


def _submanifold_rule_book(indices: Tensor, geometry: _Geometry) -> list[Tensor]:
    flat, valid = _possible_outputs(indices, geometry)
    active = indices[:, 0].long()
    for axis, extent in enumerate(geometry.out_extents):
        active = active * extent + indices[:, 1 + axis]
    active, order = active.sort(stable=True)
    places = torch.searchsorted(active, flat).clamp_(max=active.numel() - 1)
    valid &= active[places] == flat
    offsets, inputs = valid.nonzero(as_tuple=True)
    return [indices, *_as_pairs(offsets, inputs, order[places[offsets, inputs]], valid)]


def _possible_outputs(indices: Tensor, geometry: _Geometry) -> tuple[Tensor, Tensor]:
    """The output cell of each kernel offset and input, (K, N) int64 numbers, and where there is one, bool."""
    flat = indices[:, 0].long().unsqueeze(0)
    valid = torch.ones_like(flat, dtype=torch.bool)
    for axis, extent in enumerate(geometry.out_extents):
        position = indices[:, 1 + axis].long()
        stride, padding = geometry.stride[axis], geometry.padding[axis]
        offset = (
            torch.arange(geometry.kernel[axis], device=indices.device).unsqueeze(1) * geometry.dilation[axis]
        )
        if geometry.transposed:
            output = position * stride - padding + offset
            meets = (output >= 0) & (output < extent)
        else:
            reached = position + padding - offset
            output = reached.div(stride, rounding_mode="floor")
            meets = (output * stride == reached) & (output >= 0) & (output < extent)
        flat = (flat.unsqueeze(1) * extent + output).flatten(0, 1)
        valid = (valid.unsqueeze(1) & meets).flatten(0, 1)
    return flat, valid


def _as_pairs(offsets: Tensor, inputs: Tensor, outputs: Tensor, valid: Tensor) -> tuple[Tensor, Tensor]:
    counts = valid.sum(dim=1)
    pairs = torch.full((valid.shape[0], 2, valid.shape[1]), -1, dtype=torch.int32, device=valid.device)
    positions = positions_in_groups(offsets, counts)
    pairs[offsets, 0, positions] = inputs.to(torch.int32)
    pairs[offsets, 1, positions] = outputs.to(torch.int32)
    return pairs, counts.to(torch.int32)
