"""A group of one patch: what it replaces, for which calls, and why."""

import torch

from patcher_core import AtomicPatch, Patch


def mse_loss(input, target, *_args, **_kwargs):
    """The mean of the squared differences, summed in float32 and rounded once; a scalar of the dtype of `input`."""
    return (input.float() - target.float()).square().mean().to(input.dtype)


def is_mean_of_half_precision(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """The calls that `mse_loss` above can take."""
    plain = size_average is None and reduce is None and weight is None
    return input.dtype is torch.float16 and input.shape == target.shape and reduction == "mean" and plain


class MeanSquaredErrorInFloat32(Patch):
    name = "mse_loss_in_float32"
    library = "torch"
    why = "in float16 a single difference above 255 makes the loss inf, although the mean is small"
    upstream = "none: upstream keeps the dtype of its inputs"

    @classmethod
    def patches(cls, options=None):
        return [
            AtomicPatch("torch.nn.functional.mse_loss", mse_loss, runtime_check=is_mean_of_half_precision)
        ]
