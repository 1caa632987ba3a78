import torch
from mx_driving.patcher import LegacyPatch, Patch, RegistryPatch


class Identity(torch.nn.Identity):
    pass


def make_pool():
    from mmengine.model import BaseModule

    class Pool(BaseModule):
        def forward(self, x):
            return x.amax(1)

    return Pool


def scale(module, options):
    module.DefaultScope.scale = options["scale"]


class Registrations(Patch):
    @classmethod
    def patches(cls, options=None):
        return [
            RegistryPatch("mmengine.registry.MODELS", Identity),
            RegistryPatch("mmengine.registry.MODELS", module_factory=make_pool, name="CudaPool"),
            RegistryPatch("mmengine.registry.NO_SUCH_REGISTRY", Identity),
            LegacyPatch(scale, {"scale": 4}, target_module="mmengine.registry"),
        ]
