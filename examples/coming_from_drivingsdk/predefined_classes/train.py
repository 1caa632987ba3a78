from migrate_to_ascend.patch import default_patcher

default_patcher.apply()

import sys

import torch
from attention import EncoderLayer

torch.manual_seed(0)
device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
layer = EncoderLayer().to(device)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
features = torch.randn(2, 60, 32, device=device)
target = torch.randn(2, 60, 32, device=device)
losses = []
for _ in range(5):
    loss = torch.nn.functional.mse_loss(layer(features), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert losses[-1] < losses[0], losses
print(f"trained {len(losses)} steps on {features.device.type}: {losses[0]:.3f} to {losses[-1]:.3f}")
