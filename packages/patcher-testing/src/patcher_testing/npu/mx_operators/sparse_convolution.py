"""Sparse 3-D convolution (Graham et al., 2017, https://arxiv.org/abs/1711.10275; Yan et al., 2018, SECOND).

A *pair* is an input point with a kernel element; pair number = point * kernel size + element. What the
functions hand to one another (pair lists, neighbour tables) is read by nothing else, so its layout here need
not be that of the device.
"""

from __future__ import annotations

from typing import Any, Sequence

import torch

from ..differentiation import gradients, upcast


def _kernel_positions(kernel_size: Sequence[int]) -> torch.Tensor:
    """(kernel size, 3) offsets in the order in which a weight's first three dimensions are flattened."""
    axes = [torch.arange(size) for size in kernel_size]
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).reshape(-1, 3)


def _linear_index(coordinates: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
    """One number for each (..., batch, z, y, x)."""
    batch, z, y, x = coordinates.long().unbind(-1)
    return ((batch * shape[0] + z) * shape[1] + y) * shape[2] + x


def npu_sparse_conv3d(
    indices: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    out_channels: int,
    out_spatial_shape: Sequence[int],
    batch_size: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """For each pair, the output position it contributes to: (pairs, 4) as batch, z, y, x, and its number, -1
    for none.

    An output o reads input o * stride - padding + element, so a pair contributes to (input + padding -
    element) / stride.
    """
    elements = _kernel_positions(kernel_size)
    moved = indices[:, None, 1:].long() + torch.tensor(list(padding)) - elements
    steps = torch.tensor(list(stride))
    outputs = torch.div(moved, steps, rounding_mode="floor")
    exists = ((moved % steps == 0) & (outputs >= 0) & (outputs < torch.tensor(list(out_spatial_shape)))).all(
        -1
    )
    batch = indices[:, None, :1].long().expand(-1, elements.size(0), 1)
    positions = torch.cat((batch, outputs), dim=-1)
    numbers = torch.where(exists, _linear_index(positions, out_spatial_shape), -1)
    return positions.reshape(-1, 4).int(), numbers.reshape(-1).int()


def _pairs_of_groups(
    group_starts: torch.Tensor, sorted_pairs: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The pairs that have an output, and the output's number; `group_starts` ends with the number of all
    pairs.
    """
    starts = group_starts.long()
    pairs = sorted_pairs.long()[int(starts[0]) :]
    outputs = torch.repeat_interleave(torch.arange(len(starts) - 1), starts[1:] - starts[:-1])
    return pairs, outputs


def _sparse_product(
    features: torch.Tensor,
    weight: torch.Tensor,
    pairs: torch.Tensor,
    outputs: torch.Tensor,
    output_count: int,
) -> torch.Tensor:
    """Sum over pairs of features[point] @ weight[element], into their outputs."""
    kernels = weight.flatten(0, 2)
    points, elements = pairs // kernels.size(0), pairs % kernels.size(0)
    contributions = torch.einsum("pc,pco->po", features[points], kernels[elements])
    return features.new_zeros(output_count, weight.size(-1)).index_add(0, outputs, contributions)


def npu_sparse_matmul(
    features: torch.Tensor,
    weight: torch.Tensor,
    group_starts: torch.Tensor,
    sorted_pairs: torch.Tensor,
    positions: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output features (outputs, out channels); the second result, the gathered rows, is read by nobody."""
    pairs, outputs = _pairs_of_groups(group_starts, sorted_pairs)
    result = _sparse_product(upcast(features), upcast(weight), pairs, outputs, len(group_starts) - 1)
    return result.to(features.dtype), features.new_empty(0)


def npu_sparse_conv3d_grad(
    sorted_pairs: torch.Tensor,
    group_starts: torch.Tensor,
    features: torch.Tensor,
    weight: torch.Tensor,
    grad_output: torch.Tensor,
) -> tuple[Any, ...]:
    """Gradients for features and weight."""
    pairs, outputs = _pairs_of_groups(group_starts, sorted_pairs)
    return tuple(
        gradients(
            lambda f, w: _sparse_product(f, w, pairs, outputs, len(group_starts) - 1),
            (features, weight),
            grad_output,
        )
    )


def npu_sparse_inverse_conv3d(
    features: torch.Tensor,
    origin_indices: torch.Tensor,
    group_starts: torch.Tensor,
    sorted_pairs: torch.Tensor,
    kernel_size: Sequence[int],
    in_channels: int,
) -> torch.Tensor:
    """For each original point the features that its kernel elements led to, side by side: (points, elements *
    channels).
    """
    elements = kernel_size[0] * kernel_size[1] * kernel_size[2]
    pairs, outputs = _pairs_of_groups(group_starts, sorted_pairs)
    gathered = features.new_zeros(origin_indices.size(0) * elements, in_channels)
    gathered[pairs] = features[outputs]
    return gathered.view(origin_indices.size(0), elements * in_channels)


def _neighbours(
    indices: torch.Tensor, kernel_size: Sequence[int], padded_shape: Sequence[int], batch_size: int
) -> torch.Tensor:
    """(points, kernel size): the point at each kernel element around each point, -1 where there is none."""
    centre = torch.tensor([size // 2 for size in kernel_size])
    padded = indices.long().clone()
    padded[:, 1:] += centre
    table = torch.full((batch_size * padded_shape[0] * padded_shape[1] * padded_shape[2],), -1)
    table[_linear_index(padded, padded_shape)] = torch.arange(indices.size(0))
    around = padded.unsqueeze(1).repeat(1, kernel_size[0] * kernel_size[1] * kernel_size[2], 1)
    around[..., 1:] += _kernel_positions(kernel_size) - centre
    return table[_linear_index(around, padded_shape)]


def _submanifold_product(
    features: torch.Tensor, weight: torch.Tensor, neighbours: torch.Tensor
) -> torch.Tensor:
    with_absent = torch.cat((features, features.new_zeros(1, features.size(1))))
    return torch.einsum("nkc,kco->no", with_absent[neighbours], weight.flatten(0, 2))


def npu_subm_sparse_conv3d(
    features: torch.Tensor,
    weight: torch.Tensor,
    indices: torch.Tensor,
    neighbour_table: torch.Tensor,
    map1: torch.Tensor,
    map2: torch.Tensor,
    kernel_size: Sequence[int],
    in_channels: int,
    out_channels: int,
    padded_shape: Sequence[int],
    batch_size: int,
    with_table: int,
    allow_hf32: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output features at the input's own points, and the neighbour table (int32, flat), computed unless
    `with_table`.
    """
    elements = kernel_size[0] * kernel_size[1] * kernel_size[2]
    if with_table:
        neighbours = neighbour_table.long().view(indices.size(0), elements)
    else:
        neighbours = _neighbours(indices, kernel_size, padded_shape, batch_size)
    result = _submanifold_product(upcast(features), upcast(weight), neighbours)
    return result.to(features.dtype), neighbours.reshape(-1).int()


def npu_subm_sparse_conv3d_grad(
    features: torch.Tensor,
    weight: torch.Tensor,
    grad_output: torch.Tensor,
    neighbour_table: torch.Tensor,
    allow_hf32: bool,
) -> tuple[Any, ...]:
    """Gradients for features and weight."""
    neighbours = neighbour_table.long().view(features.size(0), -1)
    return tuple(
        gradients(lambda f, w: _submanifold_product(f, w, neighbours), (features, weight), grad_output)
    )


REFERENCES = {
    "npu_sparse_conv3d": npu_sparse_conv3d,
    "npu_sparse_conv3d_grad": npu_sparse_conv3d_grad,
    "npu_sparse_inverse_conv3d": npu_sparse_inverse_conv3d,
    "npu_sparse_matmul": npu_sparse_matmul,
    "npu_subm_sparse_conv3d_v3": npu_subm_sparse_conv3d,
    "npu_subm_sparse_conv3d_arch35": npu_subm_sparse_conv3d,
    "npu_subm_sparse_conv3d_grad_v2": npu_subm_sparse_conv3d_grad,
    "npu_subm_sparse_conv3d_grad_arch35": npu_subm_sparse_conv3d_grad,
}
