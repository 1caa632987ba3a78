"""What the simulated NPU is: the real torch_npu, in a group's own process, and honest about what it lacks."""

from __future__ import annotations

import importlib.metadata
import sys

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

pytestmark = pytest.mark.simulated_npu


def test_torch_npu_is_the_real_package(simulated_npu):
    import torch_npu

    assert torch_npu.__version__ == "2.13.0"
    assert importlib.metadata.version("torch_npu") == "2.13.0"
    assert torch.npu.is_available()
    assert torch.npu.device_count() == 2
    assert torch.npu.get_device_name(0).startswith("Ascend910B")


def test_an_operator_without_a_reference_raises_and_names_itself(simulated_npu):
    import torch_npu

    with pytest.raises(NotImplementedError, match="npu::npu_moe_gating_top_k_softmax"):
        torch_npu.npu_moe_gating_top_k_softmax(torch.randn(2, 8).npu())


def test_an_operator_can_be_given_a_reference(simulated_npu):
    import torch_npu

    simulated_npu.register_reference("npu::npu_moe_gating_top_k", lambda x, *args, **kwargs: (x, x, x))
    x = torch.randn(2, 8)
    assert torch.equal(torch_npu.npu_moe_gating_top_k(x.npu(), 2)[0].cpu(), x)


def test_wrong_arguments_are_refused_by_the_real_schema(simulated_npu):
    import torch_npu

    x, weight = torch.randn(2, 8).npu(), torch.rand(8).npu()
    with pytest.raises(
        RuntimeError, match=r"Unknown keyword argument 'self'|missing value for argument 'input'"
    ):
        torch_npu.npu_rms_norm(self=x, gamma=weight)


def test_a_missing_backward_is_missing_here_too(simulated_npu):
    import torch_npu

    x = torch.randn(2, 8).npu().requires_grad_()
    normalized = torch_npu.npu_add_rms_norm(x, x.detach(), torch.rand(8).npu())[0]
    with pytest.raises(RuntimeError, match="derivative for npu::npu_add_rms_norm is not implemented"):
        normalized.sum().backward()


def test_what_ran_is_recorded_with_its_arguments_backward_included(simulated_npu):
    import torch_npu

    x, weight = torch.randn(2, 8).npu().requires_grad_(), torch.rand(8).npu()
    with simulated_npu.record_operators() as operators:
        torch_npu.npu_rms_norm(x, weight, epsilon=1e-5)[0].sum().backward()
    torch_npu.npu_rms_norm(x, weight)

    operators.assert_ran("npu_rms_norm", times=1)
    operators.assert_ran("npu::npu_rms_norm_backward", times=1)
    operators.assert_did_not_run("npu_rotary_mul")
    (call,) = operators.of("npu_rms_norm")
    assert call.args[0].shape == (2, 8)
    assert 1e-5 in call.args
    with pytest.raises(
        AssertionError, match=r"expected npu_rotary_mul to run at least once.*npu::npu_rms_norm x1"
    ):
        operators.assert_ran("npu_rotary_mul")


def test_random_numbers_follow_the_device_generator(simulated_npu):
    def draw():
        return torch.rand(64, device="npu").cpu(), torch.nn.functional.dropout(
            torch.ones(64).npu(), 0.5
        ).cpu()

    torch.npu.manual_seed(7)
    state = torch.npu.get_rng_state()
    first, second = draw(), draw()
    torch.npu.set_rng_state(state)
    again = draw()

    assert all(torch.equal(a, b) for a, b in zip(first, again))
    assert not any(torch.equal(a, b) for a, b in zip(first, second))


def test_an_empty_out_tensor_is_resized(simulated_npu):
    x, out = torch.randn(3, 4), torch.empty(0).npu()
    torch.add(x.npu(), 1, out=out)
    assert torch.equal(out.cpu(), x + 1)


def test_views_share_memory_and_channels_last_is_kept(simulated_npu):
    x = torch.zeros(2, 3, 4, 5).npu()
    x[:, 1].transpose(1, 2)[0].add_(1)
    assert x.sum().item() == 20
    y = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    assert torch.relu(y.npu()).is_contiguous(memory_format=torch.channels_last)


def test_nothing_of_it_is_importable_once_the_block_is_left():
    code = """
from patcher_testing.npu import simulated_npu
with simulated_npu():
    import torch_npu
import importlib.util
assert importlib.util.find_spec("torch_npu") is None
try:
    import torch_npu
except ImportError:
    print("gone")
with simulated_npu() as npu:
    print("the same module" if npu.torch_npu is torch_npu else "another module")
"""
    import subprocess

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split("\n")[:2] == ["gone", "the same module"], done.stdout + done.stderr
