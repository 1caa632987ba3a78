"""Text detection: growing labelled kernels into the pixels around them.

Both functions are breadth-first searches whose result depends on the order of a queue, and return Python
lists; they run on the CPU whatever the device of their arguments. One step takes the whole frontier of the
search: the pixels in the queue, in order, each with its four neighbours. Of all that reach the same pixel
in one step the first one gets it, which is what a queue does.
"""

from __future__ import annotations

import numpy as np
from torch import Tensor

__all__ = ["contour_expand", "pixel_group"]


def pixel_group(
    score: Tensor,
    mask: Tensor,
    embedding: Tensor,
    kernel_label: Tensor,
    kernel_contour: Tensor,
    kernel_region_label: int,
    distance_threshold: float,
) -> list[list[float]]:
    """Assign foreground pixels to the kernel they are connected to and resemble.

    Wang et al., "Pixel Aggregation Network", 2019, https://arxiv.org/abs/1908.05900; mmcv 2.1.0,
    ``pixel_group.cpp``. A kernel grows from its contour into 4-connected pixels of ``mask`` that have no
    label and whose embedding lies nearer than ``distance_threshold`` to the kernel's mean embedding.

    Args:
        score: (H, W) float32, the confidence of each pixel.
        mask: (H, W) bool, the foreground.
        embedding: (H, W, D) float32.
        kernel_label: (H, W) int32, 0 for none, smaller than ``kernel_region_label``.
        kernel_contour: (H, W) uint8, not 0 on contours.
        kernel_region_label: number of labels, counting 0.
        distance_threshold: in units of the embedding.

    Returns:
        For each label, from 0: mean confidence, number of pixels, then x and y of each pixel in row order.
        Label 0 and labels without a pixel have ``[0.0, 0.0]``.

    Raises:
        IndexError: a label is too large.
    """
    height, width = score.shape
    labels = _with_border(kernel_label.cpu().numpy().astype(np.int64), fill=-1)
    open_pixels = _with_border(mask.cpu().numpy().astype(bool), fill=False)
    embeddings = _with_border(embedding.cpu().numpy().astype(np.float32), fill=0)
    in_contour = _with_border(kernel_contour.cpu().numpy() != 0, fill=False)
    neighbours = np.array([-1, 1, -(width + 2), width + 2])
    centres = _mean_embeddings(embeddings, labels, kernel_region_label)
    limit = np.float32(distance_threshold) * np.float32(distance_threshold)

    places = np.empty(len(labels), dtype=np.int32)
    frontier = np.flatnonzero(in_contour & (labels > 0))
    while len(frontier):
        pixels = (frontier[:, None] + neighbours).ravel()
        sources = np.repeat(labels[frontier], len(neighbours))
        free = open_pixels[pixels] & (labels[pixels] <= 0)
        pixels, sources = pixels[free], sources[free]
        near = _squared_distances(centres[sources], embeddings[pixels], limit) < limit
        pixels, sources = pixels[near], sources[near]
        first = _first_occurrences(pixels, places)
        frontier = pixels[first]
        labels[frontier] = sources[first]
    grown = labels.reshape(height + 2, width + 2)[1:-1, 1:-1]
    return _describe(grown, score.cpu().numpy(), kernel_region_label)


def contour_expand(
    kernel_mask: Tensor, internal_kernel_label: Tensor, min_kernel_area: int, kernel_num: int
) -> list[list[int]]:
    """Grow the labels of the smallest kernels through the largest kernel.

    Wang et al., "Progressive Scale Expansion Network", 2019, https://arxiv.org/abs/1903.12473, goes through ever larger
    kernels. mmcv (``contour_expand.cpp``, 1.4.0 to 2.2.0) means to, but reads the first kernel every time: the offsets
    of the others are computed as multiples of 0. Models were trained and measured with that, so it is so here.

    Args:
        kernel_mask: (K, H, W) uint8, the kernels from the largest to the smallest. Nothing grows where K is 1.
        internal_kernel_label: (H, W) int32, labels in the smallest kernel, 0 for none.
        min_kernel_area: labels with fewer pixels are dropped.
        kernel_num: the largest label.

    Returns:
        (H, W) labels.
    """
    height, width = internal_kernel_label.shape
    labels = _with_border(internal_kernel_label.cpu().numpy().astype(np.int64), fill=-1)
    area = np.bincount(labels[labels > 0], minlength=kernel_num + 1)
    labels[(labels > 0) & (area[labels] < min_kernel_area)] = 0
    neighbours = np.array([-(width + 2), width + 2, -1, 1])

    places = np.empty(len(labels), dtype=np.int32)
    frontier = np.flatnonzero(labels > 0) if len(kernel_mask) > 1 else np.empty(0, dtype=np.int64)
    open_pixels = _with_border(kernel_mask[:1].cpu().numpy().any(axis=0), fill=False)
    while len(frontier):
        pixels = (frontier[:, None] + neighbours).ravel()
        free = np.flatnonzero(open_pixels[pixels] & (labels[pixels] == 0))
        taken = free[_first_occurrences(pixels[free], places)]
        labels[pixels[taken]] = labels[frontier[taken // len(neighbours)]]
        frontier = pixels[taken]
    return labels.reshape(height + 2, width + 2)[1:-1, 1:-1].tolist()


def _with_border(image: np.ndarray, fill: float) -> np.ndarray:
    """(H, W, ...) as ((H + 2) (W + 2), ...), with a border of ``fill`` so that every pixel has neighbours."""
    padding = [(1, 1), (1, 1)] + [(0, 0)] * (image.ndim - 2)
    return np.pad(image, padding, constant_values=fill).reshape(-1, *image.shape[2:])


def _first_occurrences(pixels: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Where each of ``pixels`` occurs first, in order; ``places``, one for every pixel there is, is overwritten."""
    place = np.arange(len(pixels), dtype=places.dtype)
    # NumPy promises that of several assignments to one place the last remains.
    places[pixels[::-1]] = place[::-1]
    return np.flatnonzero(places[pixels] == place)


def _mean_embeddings(embeddings: np.ndarray, labels: np.ndarray, count: int) -> np.ndarray:
    inside = labels > 0
    if inside.any() and labels.max() >= count:
        raise IndexError(
            f"pixel_group: found the kernel label {labels.max()}, expected labels below {count} "
            "(kernel_region_num counts label 0)"
        )
    pixels = np.bincount(labels[inside], minlength=count)
    sums = [np.bincount(labels[inside], channel[inside], minlength=count) for channel in embeddings.T]
    return (np.stack(sums, 1) / np.maximum(pixels, 1)[:, None]).astype(np.float32)


def _squared_distances(a: np.ndarray, b: np.ndarray, limit: np.float32) -> np.ndarray:
    """Squared distances (P,) of rows, summed in float32 as the compiled loop does."""
    total = np.zeros(len(a), dtype=np.float32)
    for channel in range(a.shape[1]):
        difference = (a[:, channel] - b[:, channel]).astype(np.float64)
        total = (total + difference**2).astype(np.float32)
    return total


def _describe(labels: np.ndarray, score: np.ndarray, count: int) -> list[list[float]]:
    rows, columns = np.nonzero(labels > 0)
    found = labels[rows, columns]
    order = np.argsort(found, kind="stable")
    pixels = np.bincount(found, minlength=count)
    confidence = np.bincount(found, score[rows, columns], minlength=count) / np.maximum(pixels, 1)
    coordinates = np.stack([columns[order], rows[order]], 1).astype(np.float64)
    groups = np.split(coordinates, np.cumsum(pixels)[:-1])
    return [
        [float(confidence[label]), float(pixels[label]), *groups[label].ravel().tolist()]
        for label in range(count)
    ]
