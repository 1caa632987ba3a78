"""Point clouds: sampling, neighbours, and points inside boxes."""

from __future__ import annotations

import torch


def npu_furthest_point_sampling(points: torch.Tensor, nearest: torch.Tensor, count: int) -> torch.Tensor:
    """Indices (batch, count; int32) of points, each the furthest from those chosen before, starting with
    point 0.

    points (batch, 3, N); nearest (batch, N): initial squared distances (Qi et al., 2017, PointNet++).
    """
    points = points.transpose(1, 2).float()
    nearest = nearest.float().clone()
    batch = torch.arange(points.size(0))
    chosen = torch.zeros(points.size(0), count, dtype=torch.long)
    for step in range(1, count):
        latest = points[batch, chosen[:, step - 1]].unsqueeze(1)
        nearest = torch.minimum(nearest, (points - latest).square().sum(-1))
        chosen[:, step] = nearest.argmax(-1)
    return chosen.int()


def knn(
    points: torch.Tensor, centres: torch.Tensor, count: int, from_knn: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distances and indices (batch, centres, count) of the nearest of `points` (batch, 3, N)."""
    distances = (centres.float().unsqueeze(2) - points.transpose(1, 2).float().unsqueeze(1)).square().sum(-1)
    nearest = distances.sort(dim=-1, stable=True)
    return nearest.values[..., :count], nearest.indices[..., :count].int()


def _inside(boxes: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """(batch, points, boxes): boxes are x, y, z of the bottom's centre, sizes along x, y, z, and yaw."""
    relative = points.unsqueeze(2) - boxes[:, None, :, :3]
    cosine, sine = boxes[..., 6].cos().unsqueeze(1), boxes[..., 6].sin().unsqueeze(1)
    along = relative[..., 0] * cosine + relative[..., 1] * sine
    across = -relative[..., 0] * sine + relative[..., 1] * cosine
    sizes = boxes[:, None, :, 3:6]
    return (
        (along.abs() < sizes[..., 0] / 2)
        & (across.abs() < sizes[..., 1] / 2)
        & ((relative[..., 2] - sizes[..., 2] / 2).abs() <= sizes[..., 2] / 2)
    )


def npu_points_in_box(boxes: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Index of the first box around each point, -1 for none: (batch, points), int32."""
    inside = _inside(boxes, points)
    return torch.where(inside.any(-1), inside.int().argmax(-1), -1).int()


def npu_points_in_box_all(boxes: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """1 where a point lies in a box: (batch, points, boxes), int32."""
    return _inside(boxes, points).int()


REFERENCES = {
    "npu_furthest_point_sampling": npu_furthest_point_sampling,
    "knn": knn,
    "npu_points_in_box": npu_points_in_box,
    "npu_points_in_box_all": npu_points_in_box_all,
}
