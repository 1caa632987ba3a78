import torch
from mx_driving.patcher.patch import AtomicPatch, BasePatch, Patch


class StableNorm(Patch):
    name = "stable_norm"

    @classmethod
    def patches(cls, options=None):
        epsilon = (options or {}).get("epsilon", 1e-6)
        return [AtomicPatch("layers.Norm.forward", lambda self, x: x / (x.norm() + epsilon))]


class FastGelu(Patch):
    conflicts_with = ("ExactGelu",)

    @classmethod
    def patches(cls, options=None):
        return [AtomicPatch("layers.Gelu.forward", lambda self, x: x * torch.sigmoid(1.702 * x))]


class ExactGelu(Patch):
    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch(
                "layers.Gelu.forward", lambda self, x: torch.nn.functional.gelu(x.double()).to(x.dtype)
            )
        ]


class Layers(Patch):
    name = "layers_npu"

    @classmethod
    def patches(cls, options=None):
        members = [*StableNorm.patches(options), *FastGelu.patches(options)]
        assert all(isinstance(patch, BasePatch) for patch in members)
        return members
