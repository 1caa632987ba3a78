import torch


def rotate(points, angle):
    raise RuntimeError("no CUDA device")


class Box:
    @staticmethod
    def area(sides):
        return sides[..., 0] * sides[..., 1]

    @classmethod
    def unit(cls):
        return torch.ones(2)

    def scaled(self, factor):
        return factor


turn = rotate
