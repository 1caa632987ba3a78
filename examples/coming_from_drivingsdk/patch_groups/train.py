import layers
import torch
from migrate_to_ascend.patch import ExactGelu, FastGelu, Layers, StableNorm
from mx_driving.patcher.patcher import Patcher

zero, x = torch.zeros(3), torch.tensor([-1.0, 0.5, 2.0])

with Patcher().add(StableNorm, FastGelu, options={"epsilon": 1.0}) as patcher:
    assert torch.equal(layers.Norm()(zero), zero)
    assert torch.allclose(layers.Gelu()(x), x * torch.sigmoid(1.702 * x))
    patcher.print_info(diff=True)

both = Patcher().add(FastGelu, ExactGelu)
try:
    both.apply()
except ValueError as error:
    assert "patcher.disable('FastGelu')" in str(error)
else:
    raise AssertionError("two patches that exclude each other were applied")
with both.disable(FastGelu.name):
    assert torch.allclose(layers.Gelu()(x), torch.nn.functional.gelu(x))

assert [patch.target for patch in Layers()] == ["layers.Norm.forward", "layers.Gelu.forward"]
result = StableNorm({"epsilon": 0.5}).apply()
assert result.name == "stable_norm" and result.status == "applied", result
assert [result.name for result in Layers.apply_all()] == ["layers.Norm.forward", "layers.Gelu.forward"]
print("trained a step")
