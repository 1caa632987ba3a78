from migrate_to_ascend import patch
from mx_driving.patcher import Patcher

patch.configure_patcher(Patcher()).apply()

import torch
from heads import Head

head = Head(4)
x = torch.randn(5, 4)
y = head.linear(x)
expected = 2 * ((torch.sigmoid(y) + torch.exp(-y)) ** 2).mean()
assert torch.allclose(head(x), expected) and patch.made == 1
head(x).backward()
assert head.linear.weight.grad.abs().sum() > 0
print("trained a step")
