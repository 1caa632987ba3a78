import torch
from migrate_to_ascend.patch import Registrations
from mmengine.registry import MODELS, DefaultScope
from mx_driving.patcher import Patcher

with Patcher().add(Registrations) as patcher:
    pool, identity = (MODELS.build({"type": kind}) for kind in ("CudaPool", "Identity"))
    x = torch.randn(2, 3)
    assert torch.equal(identity(pool(x)), x.max(1).values) and DefaultScope.scale == 4
    statuses = [result.status.value for result in patcher.report]
    assert statuses == ["applied", "applied", "skipped", "applied"], statuses
assert MODELS.get("CudaPool") is None and not hasattr(DefaultScope, "scale")
print("trained a step")
