"""OptimizerWrapper and the clipping it chooses, on the installed mmengine."""

from __future__ import annotations

import copy
import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmengine") is None:
    pytest.skip("mmengine is not installed in this environment", allow_module_level=True)

# Upstream's own warnings are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402


class FusedSGD(torch.optim.SGD):
    """An optimizer with the method of torch_npu's fused ones, which writes down how it was called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = []

    def clip_grad_norm_fused_(self, max_norm, norm_type=2):
        self.calls.append((max_norm, norm_type))
        parameters = [p for group in self.param_groups for p in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


@pytest.fixture
def wrapper_class():
    with Patcher().add(mmcv_patches.OptimizerWrapper) as patcher:
        assert [result.status for result in patcher.report] == [PatchStatus.APPLIED]
        from mmengine.optim import OptimWrapper

        yield OptimWrapper


def trained(wrapper_class, optimizer_class, clip_grad, steps=3, accumulate=2):
    """Parameters after some updates, and the optimizer."""
    torch.manual_seed(5)
    model = torch.nn.Linear(4, 3)
    optimizer = optimizer_class(model.parameters(), lr=0.5, momentum=0.9)
    wrapper = wrapper_class(optimizer, accumulative_counts=accumulate, clip_grad=clip_grad)
    wrapper.initialize_count_status(model, 0, steps)
    for _ in range(steps):
        wrapper.update_params((model(torch.randn(6, 4)) ** 2).sum())
    return [parameter.detach().clone() for parameter in model.parameters()], optimizer


CLIPPINGS = [{"max_norm": 0.3}, {"max_norm": 0.3, "norm_type": 1}, {"type": "norm", "max_norm": 1e6}]


@pytest.mark.parametrize("clip_grad", CLIPPINGS)
def test_a_fused_optimizer_clips_by_itself_with_the_result_of_upstream(wrapper_class, clip_grad):
    from mmengine.optim import OptimWrapper

    patched, optimizer = trained(wrapper_class, FusedSGD, copy.deepcopy(clip_grad))
    assert optimizer.calls == [(clip_grad["max_norm"], clip_grad.get("norm_type", 2))] * 2
    other, _ = trained(OptimWrapper, torch.optim.SGD, copy.deepcopy(clip_grad))
    for ours, theirs in zip(patched, other):
        torch.testing.assert_close(ours, theirs)


def test_the_norm_is_logged_as_before(wrapper_class):
    from mmengine.logging import MessageHub

    _, optimizer = trained(wrapper_class, FusedSGD, {"max_norm": 0.3})
    logged = MessageHub.get_current_instance().get_scalar("train/grad_norm").current()
    assert optimizer.calls and logged > 0.3


@pytest.mark.parametrize(
    "clip_grad", [{"type": "value", "clip_value": 0.01}, {"max_norm": 0.3, "error_if_nonfinite": True}]
)
def test_what_the_fused_method_does_not_know_is_done_by_torch(wrapper_class, clip_grad):
    patched, optimizer = trained(wrapper_class, FusedSGD, copy.deepcopy(clip_grad))
    assert optimizer.calls == []
    plain, _ = trained(wrapper_class, torch.optim.SGD, copy.deepcopy(clip_grad))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(patched, plain))


def test_a_subclass_keeps_its_own_clipping(wrapper_class):
    seen = []

    class Own(wrapper_class):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.clip_func = lambda parameters, **settings: seen.append(settings)

    _, optimizer = trained(Own, FusedSGD, {"max_norm": 0.3})
    assert seen == [{"max_norm": 0.3}] * 2 and optimizer.calls == []


def test_gradients_of_parameters_that_are_not_the_optimizers_go_to_torch():
    from mmcv_patches.gradient_clipping import clip_gradient_norm

    mine, other = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(3))
    for parameter in (mine, other):
        parameter.grad = torch.ones_like(parameter)
    optimizer = FusedSGD([mine], lr=0.1)
    assert float(clip_gradient_norm(optimizer, [mine, other], max_norm=1.0)) == pytest.approx(5**0.5)
    assert optimizer.calls == []
    torch.testing.assert_close(other.grad, torch.full((3,), 5**-0.5))


def test_after_restore_upstream_chooses_torchs_function():
    with Patcher().add(mmcv_patches.OptimizerWrapper):
        pass
    from mmengine.optim import OptimWrapper

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    assert OptimWrapper(optimizer, clip_grad={"max_norm": 1}).clip_func is torch.nn.utils.clip_grad_norm_
