import torch
from mx_driving.patcher import AtomicPatch, PatchResult, PatchStatus


def rotate(points, angle):
    cos, sin = torch.cos(angle), torch.sin(angle)
    return points @ torch.stack([torch.stack([cos, sin]), torch.stack([-sin, cos])])


def area_of_pairs(sides):
    return sides.prod(-1)


def twice(original):
    return lambda *args, **kwargs: 2 * original(*args, **kwargs)


PATCHES = [
    AtomicPatch("geometry.rotate", rotate, aliases=["geometry.turn", "geometry.spin"]),
    AtomicPatch("geometry.Box.area", area_of_pairs, runtime_check=lambda sides: sides.shape[-1] == 2),
    AtomicPatch("geometry.Box.unit", target_wrapper=twice),
    AtomicPatch("geometry.Box.scaled", lambda self, factor: factor + 1, replacement_wrapper=twice),
    AtomicPatch("geometry.Box.shrunk", rotate, precheck=lambda: False),
]


def apply_each():
    results = [patch.apply() for patch in PATCHES]
    assert all(isinstance(result, PatchResult) for result in results)
    return {result.name: (result.status, result.reason) for result in results}, PatchStatus
