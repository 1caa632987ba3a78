"""TorchScatter on the simulated NPU: mx_driving's operators against the portable functions on the CPU."""

from __future__ import annotations

import importlib

import pytest

torch = pytest.importorskip("torch", reason="torch_scatter is made of torch")

from patcher_core import Patcher, configure_summary  # noqa: E402
from torch_patches import TorchScatter, portable_torch_scatter  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.usefixtures("random_seed"),
    pytest.mark.filterwarnings("ignore:index_reduce.. is in beta:UserWarning"),
    pytest.mark.filterwarnings("ignore:scatter_reduce.. is in beta:UserWarning"),
]


@pytest.fixture
def torch_scatter(simulated_npu):
    configure_summary(False)
    with Patcher().add(TorchScatter).disable("transfer_to_npu") as patcher:
        assert not patcher.report.failed
        yield importlib.import_module("torch_scatter")
    configure_summary(True)


def compare(function, reference, src, index, *arguments, **named):
    """Values and positions, and gradients with respect to ``src``."""
    on_npu, on_cpu = src.npu().requires_grad_(), src.clone().requires_grad_()
    found, expected = (
        function(on_npu, index.npu(), *arguments, **named),
        reference(on_cpu, index, *arguments, **named),
    )
    found, expected = (one if isinstance(one, tuple) else (one,) for one in (found, expected))
    for one, wanted in zip(found, expected):
        torch.testing.assert_close(one.detach().cpu(), wanted.detach(), rtol=1e-3, atol=1e-3)
    weights = torch.linspace(0.5, 2, expected[0].numel()).view(expected[0].shape).to(src.dtype)
    (found[0] * weights.npu()).sum().backward()
    (expected[0] * weights).sum().backward()
    assert on_cpu.grad.abs().max() > 0
    torch.testing.assert_close(on_npu.grad.cpu(), on_cpu.grad, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["scatter_sum", "scatter_add", "scatter_mean", "scatter_max"])
@pytest.mark.parametrize("shape, dim", [((17, 3), 0), ((3, 17), -1), ((17,), 0), ((3, 17, 2), 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_it_equals_the_portable_function(torch_scatter, name, shape, dim, dtype):
    src, index = torch.randn(shape).to(dtype), torch.randint(0, 6, (17,))
    reference = getattr(portable_torch_scatter, name)
    for named in ({}, {"dim_size": 9}):
        compare(getattr(torch_scatter, name), reference, src, index, dim, **named)


@pytest.mark.parametrize(
    "name, operator",
    [
        ("scatter_sum", "npu_scatter_add"),
        ("scatter_mean", "npu_scatter_mean"),
        ("scatter_max", "scatter_max"),
    ],
)
def test_the_operator_of_mx_driving_runs(torch_scatter, simulated_npu, name, operator):
    src, index = torch.randn(17, 3).npu(), torch.randint(0, 6, (17,)).npu()
    with simulated_npu.record_operators() as recording:
        getattr(torch_scatter, name)(src, index, 0)
    assert any(call.name.endswith(operator) for call in recording.calls), [
        call.name for call in recording.calls
    ]


@pytest.mark.parametrize("name", ["scatter_min", "scatter_mul", "scatter_softmax", "scatter_std"])
def test_what_has_no_operator_runs_on_the_device_all_the_same(torch_scatter, name):
    compare(
        getattr(torch_scatter, name),
        getattr(portable_torch_scatter, name),
        torch.randn(17, 3),
        torch.cat([torch.arange(6).repeat(2), torch.randint(0, 6, (5,))]),
        0,
    )


def test_tensors_on_the_cpu_stay_there(torch_scatter):
    src, index = torch.randn(17, 3), torch.randint(0, 6, (17,))
    result = torch_scatter.scatter_sum(src, index, 0)
    assert result.device.type == "cpu"
    torch.testing.assert_close(result, portable_torch_scatter.scatter_sum(src, index, 0))
