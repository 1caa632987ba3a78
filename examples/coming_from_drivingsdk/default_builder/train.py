import model
import torch
from migrate_to_ascend.patch import default_patcher_builder
from mmengine.registry import MODELS

if __name__ == "__main__":
    with default_patcher_builder.build() as patcher:
        patcher.transfer_to_npu()
        assert patcher.is_applied
        with default_patcher_builder.build():
            net = MODELS.build({"type": "PointNet"})
            assert type(net).__name__ == "PointNetNPU" and isinstance(net, model.PointNet)
            out = net(torch.rand(16, 3))
            assert torch.allclose(out.mean(0), torch.ones(2), atol=1e-4), out.mean(0)
    assert MODELS.get("PointNet") is model.PointNet
    print("trained a step")
