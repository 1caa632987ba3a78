"""Sparse convolution and pooling along a rule book of index pairs (:mod:`.rule_books`).

``out[o] = sum over kernel offsets k, and pairs (i, o) of k, of features[i] @ filters[k]`` (Graham et al., "3D
semantic segmentation with submanifold sparse convolutional networks", 2018; Yan et al., "SECOND", 2018). The
loop is over the offsets of the kernel; a step handles all pairs of one. Facts about behaviour: mmcv 2.1.0,
``ops/csrc/pytorch/cuda/{spconv_ops_cuda,fused_spconv_ops_cuda,sparse_pool_ops_cuda}.cu``.
"""

from __future__ import annotations

from typing import Iterator

import torch
from torch import Tensor

from .rule_books import rule_book_function
from .scattering import scatter_extreme_

__all__ = [
    "fused_indice_conv_forward",
    "get_indice_pairs_2d_backward",
    "get_indice_pairs_2d_forward",
    "get_indice_pairs_3d_backward",
    "get_indice_pairs_3d_forward",
    "get_indice_pairs_4d_forward",
    "indice_conv_backward",
    "indice_conv_forward",
    "indice_maxpool_backward",
    "indice_maxpool_forward",
]


get_indice_pairs_2d_forward = rule_book_function("get_indice_pairs_2d_forward", axes=2)
get_indice_pairs_3d_forward = rule_book_function("get_indice_pairs_3d_forward", axes=3)
get_indice_pairs_4d_forward = rule_book_function("get_indice_pairs_4d_forward", axes=4)
get_indice_pairs_2d_backward = rule_book_function("get_indice_pairs_2d_backward", axes=2, with_grid=True)
get_indice_pairs_3d_backward = rule_book_function("get_indice_pairs_3d_backward", axes=3, with_grid=True)


def indice_conv_forward(
    features: Tensor,
    filters: Tensor,
    indicePairs: Tensor,
    indiceNum: Tensor,
    numActOut: int,
    _inverse: int,
    _subM: int,
) -> Tensor:
    """Convolve along a rule book.

    Args:
        features: (N, C), floating.
        filters: (k1, ..., kD, C, O), of the dtype of the features.
        indicePairs: (K, 2, N') int32, the rule book.
        indiceNum: (K,) int32, the number of pairs of each kernel offset.
        numActOut: number of output cells, M.
        _inverse: not 0 to go from the outputs of the rule book to its inputs.
        _subM: not 0 for a submanifold convolution.

    Returns:
        (M, O), of the dtype of the features.
    """
    output = features.new_zeros(numActOut, filters.shape[-1])
    return _add_convolution(output, features, filters, indicePairs, indiceNum, _inverse, _subM)


def fused_indice_conv_forward(
    features: Tensor,
    filters: Tensor,
    bias: Tensor,
    indicePairs: Tensor,
    indiceNum: Tensor,
    numActOut: int,
    _inverse: int,
    _subM: int,
) -> Tensor:
    """Convolve along a rule book and add a bias.

    The compiled operator of mmcv 2.1.0 loses the bias of a submanifold convolution (its first matrix product
    overwrites it); here the bias is added to every convolution.

    Args:
        bias: (O,).
        The others: as for :func:`indice_conv_forward`.

    Returns:
        (M, O), of the dtype of the features.
    """
    output = bias.to(features.dtype).expand(numActOut, -1).clone()
    return _add_convolution(output, features, filters, indicePairs, indiceNum, _inverse, _subM)


def indice_conv_backward(
    features: Tensor,
    filters: Tensor,
    outGrad: Tensor,
    indicePairs: Tensor,
    indiceNum: Tensor,
    _inverse: int,
    _subM: int,
) -> list[Tensor]:
    """Return the gradients of :func:`indice_conv_forward` with respect to features and filters.

    Args:
        outGrad: (M, O).
        The others: as for :func:`indice_conv_forward`.
    """
    input_grad = torch.zeros_like(features)
    filters_grad = torch.zeros_like(filters)
    weights, weight_grads = _by_offset(filters), _by_offset(filters_grad)
    for offset, sources, targets in _rules(indicePairs, indiceNum, _inverse):
        if _subM and sources.numel() == features.shape[0]:
            weight_grads[offset] = features.t() @ outGrad
            input_grad += outGrad @ weights[offset].t()
            continue
        gradient = outGrad.index_select(0, targets)
        weight_grads[offset] = features.index_select(0, sources).t() @ gradient
        input_grad.index_add_(0, sources, gradient @ weights[offset].t())
    return [input_grad, filters_grad]


def indice_maxpool_forward(features: Tensor, indicePairs: Tensor, indiceNum: Tensor, numAct: int) -> Tensor:
    """Take the maximum along a rule book, and of zero: inactive cells of the dense tensor are zero.

    Args:
        features: (N, C), floating.
        indicePairs: (K, 2, N') int32, the rule book.
        indiceNum: (K,) int32, the number of pairs of each kernel offset.
        numAct: number of output cells, M.

    Returns:
        (M, C), of the dtype of the features.
    """
    output = features.new_zeros(numAct, features.shape[1])
    for _, sources, targets in _rules(indicePairs, indiceNum):
        scatter_extreme_(output, targets, features.index_select(0, sources), "amax")
    return output


def indice_maxpool_backward(
    features: Tensor, outFeatures: Tensor, outGrad: Tensor, indicePairs: Tensor, indiceNum: Tensor
) -> Tensor:
    """Return the gradient of :func:`indice_maxpool_forward`, which goes to every input equal to its output.

    Args:
        features: (N, C), the input of the forward pass.
        outFeatures: (M, C), its result.
        outGrad: (M, C).
        indicePairs, indiceNum: the rule book.
    """
    input_grad = torch.zeros_like(features)
    for _, sources, targets in _rules(indicePairs, indiceNum):
        attained = features.index_select(0, sources) == outFeatures.index_select(0, targets)
        input_grad.index_add_(0, sources, outGrad.index_select(0, targets).masked_fill_(~attained, 0))
    return input_grad


def _add_convolution(
    output: Tensor,
    features: Tensor,
    filters: Tensor,
    pairs: Tensor,
    pair_counts: Tensor,
    inverse: int,
    submanifold: int,
) -> Tensor:
    weights = _by_offset(filters)
    for offset, sources, targets in _rules(pairs, pair_counts, inverse):
        if submanifold and sources.numel() == features.shape[0]:
            # Only the centre of the kernel pairs every cell, and it pairs each with itself.
            output.addmm_(features, weights[offset])
        else:
            output.index_add_(0, targets, features.index_select(0, sources) @ weights[offset])
    return output


def _rules(pairs: Tensor, pair_counts: Tensor, inverse: int = 0) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield ``(offset, source cells, target cells)`` of each kernel offset that has pairs, cells int64."""
    source, target = (1, 0) if inverse else (0, 1)
    for offset, count in enumerate(pair_counts.tolist()):
        if count > 0:
            of_offset = pairs[offset, :, :count].long()
            yield offset, of_offset[source], of_offset[target]


def _by_offset(filters: Tensor) -> Tensor:
    return filters.view(-1, *filters.shape[-2:])
