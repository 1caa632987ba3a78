"""What mmcv 1.x has for training: optimizer hooks, distribution of batches, and the distributed module."""

from __future__ import annotations

import importlib.util
import logging
import time
import types

import pytest

torch = pytest.importorskip("torch")

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402

if not mmcv_patches.mmcv_version.is_v1x or importlib.util.find_spec("torchvision") is None:
    pytest.skip("mmcv 1.x and the torchvision it asks for are not installed here", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def without_waiting(monkeypatch):
    # The runners sleep for seconds between epochs, which has nothing to do with what is tested.
    monkeypatch.setattr(time, "sleep", lambda seconds: None)


class FusedSGD(torch.optim.SGD):
    """An optimizer with the method of torch_npu's fused ones, which writes down how it was called."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.calls = []

    def clip_grad_norm_fused_(self, max_norm, norm_type=2):
        self.calls.append((max_norm, norm_type))
        parameters = [p for group in self.param_groups for p in group["params"]]
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)


class Model(torch.nn.Linear):
    def train_step(self, data, optimizer):
        return {"loss": (self(data) ** 2).mean(), "num_samples": len(data), "log_vars": {}}


def trained(hook, optimizer_class, iterations=5, model_class=Model):
    """The parameters after an epoch of mmcv's own runner, and the optimizer."""
    from mmcv.runner import EpochBasedRunner

    torch.manual_seed(3)
    model = model_class(4, 3)
    optimizer = optimizer_class(model.parameters(), lr=0.5, momentum=0.9)
    logger = logging.getLogger("mmcv-1-training")
    runner = EpochBasedRunner(model, optimizer=optimizer, logger=logger, max_epochs=1, meta={})
    runner.register_hook(hook)
    runner.run([[torch.randn(6, 4) for _ in range(iterations)]], [("train", 1)])
    return [parameter.detach().clone() for parameter in model.parameters()], optimizer


HOOKS = {
    "OptimizerHook": {},
    "GradientCumulativeOptimizerHook": {"cumulative_iters": 2},
    "Fp16OptimizerHook": {},
    "GradientCumulativeFp16OptimizerHook": {"cumulative_iters": 2},
}


def build(name, **settings):
    from mmcv.runner import HOOKS as registry

    return registry.build({"type": name, **HOOKS[name], **settings})


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_lets_a_fused_optimizer_clip_and_trains_as_upstreams(name):
    plain, _ = trained(build(name, grad_clip={"max_norm": 0.1}), FusedSGD)
    with Patcher().add(mmcv_patches.OptimizerHooks) as patcher:
        assert [result.status for result in patcher.report] == [PatchStatus.APPLIED] * 5
        patched, optimizer = trained(build(name, grad_clip={"max_norm": 0.1}), FusedSGD)
        unfused, _ = trained(build(name, grad_clip={"max_norm": 0.1}), torch.optim.SGD)
    assert len(optimizer.calls) == (3 if "Cumulative" in name else 5)
    assert optimizer.calls[0] == (0.1, 2)
    for ours, without, theirs in zip(patched, unfused, plain):
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(without, theirs)


def test_the_norm_of_the_gradients_before_they_are_clipped_is_logged(monkeypatch):
    from mmcv.runner import LogBuffer

    logged, expected = [], []
    update = LogBuffer.update
    monkeypatch.setattr(LogBuffer, "update", lambda self, *args: (logged.append(args), update(self, *args)))

    class Writing(Model):
        def train_step(self, data, optimizer):
            outputs = super().train_step(data, optimizer)
            gradients = torch.autograd.grad(outputs["loss"], [*self.parameters()], retain_graph=True)
            expected.append(float(sum(gradient.pow(2).sum() for gradient in gradients) ** 0.5))
            return outputs

    with Patcher().add(mmcv_patches.OptimizerHooks):
        trained(build("OptimizerHook", grad_clip={"max_norm": 0.1}), FusedSGD, 2, Writing)
    norms = [args[0]["grad_norm"] for args in logged if "grad_norm" in args[0]]
    assert norms == pytest.approx(expected, rel=1e-5) and min(norms) > 0.1 and len(norms) == 2


def test_without_grad_clip_nothing_is_clipped():
    with Patcher().add(mmcv_patches.OptimizerHooks):
        _, optimizer = trained(build("OptimizerHook"), FusedSGD, iterations=2)
    assert optimizer.calls == []


@pytest.fixture
def scatter():
    """``mmcv.parallel.scatter``, with its copying patched."""
    with Patcher().add(mmcv_patches.Stream) as patcher:
        assert [result.status for result in patcher.report] == [PatchStatus.APPLIED]
        from mmcv.parallel import scatter

        yield scatter


def test_a_batch_for_the_cpu_is_dealt_out_as_upstream_does(scatter):
    from mmcv.parallel import DataContainer

    tensors = [torch.rand(2, 3), torch.rand(2, 3)]
    batch = {
        "image": DataContainer([torch.rand(2, 3, 4, 4)], stack=True),
        "boxes": DataContainer([tensors]),
        "names": DataContainer([["a", "b"]], cpu_only=True),
        "scale": torch.ones(2),
    }
    (part,) = scatter(batch, [-1])
    assert torch.equal(part["image"], batch["image"].data[0])
    assert all(torch.equal(ours, given) for ours, given in zip(part["boxes"], tensors))
    assert part["names"] == ["a", "b"] and torch.equal(part["scale"], torch.ones(2))


def test_a_device_that_is_not_there_is_named(scatter):
    from mmcv.parallel import DataContainer

    if torch.cuda.is_available():
        pytest.skip("there is a CUDA device here")
    with pytest.raises(RuntimeError, match=r"cannot copy to device 0: .* use gpu_ids=\[-1\]"):
        scatter(DataContainer([torch.ones(2)]), [0])


def test_something_else_than_a_tensor_in_a_batch_is_named(scatter):
    from mmcv.parallel import DataContainer

    with pytest.raises(TypeError, match="found a str in the batch"):
        scatter(DataContainer(["text"]), [-1])


@pytest.fixture
def process_group():
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_the_distributed_module_calls_its_model_on_this_torch(process_group):
    from mmcv.parallel import MMDistributedDataParallel

    has_it = hasattr(
        MMDistributedDataParallel, "_run_ddp_forward"
    )  # torch's own since 1.12, and that of mmcv 1.6
    with Patcher().add(mmcv_patches.DDP) as patcher:
        (status,) = [result.status for result in patcher.report if result.name.endswith("_run_ddp_forward")]
        assert status is (PatchStatus.APPLIED if has_it else PatchStatus.SKIPPED)
        model = torch.nn.Linear(3, 2)
        wrapped = MMDistributedDataParallel(model)
        data = torch.randn(4, 3)
        output = wrapped(data)
        torch.testing.assert_close(output, model(data))
        output.sum().backward()
        torch.testing.assert_close(model.bias.grad, torch.full((2,), 4.0))


def test_a_batch_for_a_device_is_unpacked_before_the_model_is_called():
    from mmcv_patches.distributed_data_parallel import run_ddp_forward

    calls = []
    wrapper = types.SimpleNamespace(
        device_ids=[3],
        module=lambda *inputs, **kwargs: calls.append((inputs, kwargs)) or "output",
        to_kwargs=lambda inputs, kwargs, device: (((*inputs, device),), ({**kwargs, "unpacked": True},)),
    )
    assert run_ddp_forward(wrapper, "packed", flag=1) == "output"
    assert calls == [(("packed", 3), {"flag": 1, "unpacked": True})]
