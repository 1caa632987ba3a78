"""Each operator on the simulated NPU against PyTorch on the CPU, and the proof that a wrong one would be noticed."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="these are patches of torch")

from patcher_core import Patcher  # noqa: E402
from patcher_testing.numerics import CASES, assert_faults_are_caught, assert_same_numerics  # noqa: E402
from torch_patches import BatchMatmul, FusedAdamW, TensorIndex, TorchScatter, portable_torch_scatter  # noqa: E402

pytestmark = pytest.mark.simulated_npu

_NOT_EMPTY = [case for case in CASES if case.batch]


def columns(draw):
    """Square matrices, and a column for each."""
    size = draw.size()
    return draw.tensor(draw.batch(), 3, size, size), draw.tensor(draw.batch(), 3, size, 1)


def rows_and_mask(draw):
    rows = draw.batch() + 4
    mask = draw.mask(rows)
    mask[0] = True
    return draw.tensor(rows, draw.size()), mask


def rows_and_groups(draw):
    rows = draw.batch() + 6
    return draw.tensor(rows, draw.size()), draw.integers(0, 4, rows)


def parameters_and_gradients(draw):
    width = draw.size()
    return draw.tensor(3, width, grad=False), draw.tensor(3, width, grad=False)


def index(tensor, mask):
    return tensor[mask]


def matmul(a, b):
    return torch.matmul(a, b)


def step_on_cpu(values, gradients):
    return _step(torch.optim.AdamW, values, gradients)


def step_on_npu(values, gradients):
    import torch_npu

    return _step(torch_npu.optim.NpuFusedAdamW, values, gradients)


def _step(optimizer_class, values, gradients):
    """What two steps of AdamW leave of the parameters."""
    parameter = torch.nn.Parameter(values.detach().clone())
    optimizer = optimizer_class([parameter], lr=0.1, weight_decay=0.1)
    for factor in (1.0, -0.3):
        optimizer.zero_grad()
        (parameter * gradients * factor).sum().backward()
        optimizer.step()
    return parameter.detach()


def scattered(name):
    """A function of the torch_scatter that is supplied while the patch is applied, in four groups."""

    def on_npu(src, groups):
        import torch_scatter

        return getattr(torch_scatter, name)(src, groups, 0, dim_size=4)

    def on_cpu(src, groups):
        return getattr(portable_torch_scatter, name)(src, groups, 0, dim_size=4)

    return on_npu, on_cpu


_FLOATS = {"dtypes": (torch.float32, torch.float16)}
_FLOAT32 = {"dtypes": (torch.float32,)}
#: patch, replacement, original, inputs, operator, options
COMPARISONS = {
    "BatchMatmul": (
        BatchMatmul,
        matmul,
        matmul,
        columns,
        "npu_batch_matmul",
        {**_FLOATS, "cases": _NOT_EMPTY},
    ),
    "TensorIndex": (TensorIndex, index, index, rows_and_mask, "masked_select", {}),
    "FusedAdamW": (
        *(FusedAdamW, step_on_npu, step_on_cpu, parameters_and_gradients),
        *("fused_adamw", {**_FLOAT32, "gradients": False}),
    ),
    **{
        name: (TorchScatter, *scattered(name), rows_and_groups, operator, {**_FLOAT32, "cases": _NOT_EMPTY})
        for name, operator in {
            "scatter_sum": "scatter_add",
            "scatter_mean": "scatter_mean",
            "scatter_max": "scatter_max",
        }.items()
    },
}


@pytest.mark.parametrize(
    ("patch", "replacement", "original", "inputs", "operator", "options"),
    COMPARISONS.values(),
    ids=list(COMPARISONS),
)
def test_the_operator_computes_what_pytorch_computes(
    simulated_npu, patch, replacement, original, inputs, operator, options
):
    patcher = Patcher(backend="npu").add(patch).disable("transfer_to_npu")
    with patcher, simulated_npu.record_operators() as recording:
        assert_same_numerics(replacement, original, inputs, device="npu", **options)
    assert any(operator in name for name in recording.counts), recording.counts


@pytest.mark.parametrize(
    ("original", "inputs", "options"),
    [(original, inputs, options) for _, _, original, inputs, _, options in COMPARISONS.values()],
    ids=list(COMPARISONS),
)
def test_a_wrong_operator_would_be_noticed(simulated_npu, original, inputs, options):
    assert_faults_are_caught(original, inputs, **options)
