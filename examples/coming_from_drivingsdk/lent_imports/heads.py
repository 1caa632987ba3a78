import torch


def doubling(function):
    return lambda *args: 2 * function(*args)


class BaseHead(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.linear = torch.nn.Linear(channels, 1)


class Head(BaseHead):
    def __init__(self, channels):
        raise RuntimeError("needs CUDA")

    @staticmethod
    def decode(x):
        raise RuntimeError("needs CUDA")

    def loss(self, x):
        raise RuntimeError("needs CUDA")

    def forward(self, x):
        return self.loss(self.decode(self.linear(x)))
