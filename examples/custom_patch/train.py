"""A training step whose loss is inf without the patch."""

from patches import MeanSquaredErrorInFloat32

from patcher_core import Patcher

patcher = Patcher().add(MeanSquaredErrorInFloat32)

import torch
from torch.nn import functional

torch.manual_seed(0)
target = torch.randn(1000).half()
prediction = target.clone()
prediction[3] += 300  # one outlier

before = functional.mse_loss(prediction, target)
in_float32 = functional.mse_loss(prediction.float(), target.float())
patcher.apply()
after = functional.mse_loss(prediction, target)

print(f"float16 without the patch {before.item()}, with it {after.item()}, in float32 {in_float32.item()}")
untouched = functional.mse_loss(prediction.float(), target.float())
print(f"a call in float32 runs the original: {torch.equal(untouched, in_float32)}")
patcher.restore()
