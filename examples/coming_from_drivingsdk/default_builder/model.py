import torch
from mmengine.registry import MODELS


@MODELS.register_module()
class PointNet(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, points):
        return batch_norm(self.linear(points))


def batch_norm(x):
    return (x - x.mean(0)) / x.std(0)
