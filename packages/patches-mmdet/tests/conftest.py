"""What the tests share: mmdet with mmcv's operators in plain PyTorch, and small random networks."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

torch = pytest.importorskip("torch", reason="there is no torch in this environment")

from patcher_core import Patcher, configure_summary  # noqa: E402

torch.set_num_threads(1)

#: Changes to a ResNet with 8 base channels, by what they are called.
RESNETS: dict[str, dict[str, Any]] = {
    "18": {"depth": 18},
    "50": {"depth": 50},
    "101": {"depth": 101},
    "caffe style": {"depth": 50, "style": "caffe"},
    "deep stem": {"depth": 50, "deep_stem": True, "stem_channels": 16},
    "average downsampling": {"depth": 18, "avg_down": True},
    "plugins": {
        "depth": 50,
        "plugins": [
            {
                "cfg": {"type": "ContextBlock", "ratio": 0.25, "postfix": number},
                "stages": (False, True, True, True),
                "position": position,
            }
            for number, position in enumerate(["after_conv1", "after_conv2", "after_conv3", "after_conv3"])
        ],
    },
    "checkpoints": {"depth": 50, "with_cp": True},
    "checkpoints of basic blocks": {"depth": 18, "with_cp": True},
    "frozen stages": {"depth": 50, "frozen_stages": 1},
    "batch statistics": {"depth": 18, "norm_eval": False},
    "modulated deformable stages": {
        "depth": 50,
        "dcn": {"type": "DCNv2", "deform_groups": 1, "fallback_on_stride": False},
        "stage_with_dcn": (False, False, False, True),
    },
    "deformable stages": {
        "depth": 50,
        "dcn": {"type": "DCN", "deform_groups": 1, "fallback_on_stride": False},
        "stage_with_dcn": (False, True, True, True),
    },
}


@pytest.fixture(scope="session", autouse=True)
def mmcv_operators() -> Iterator[None]:
    """mmcv-lite and mmcv 1.x without compiled operators get them in plain PyTorch."""
    mmcv_patches = pytest.importorskip("mmcv_patches")
    configure_summary(False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmcv's own, at import
        with Patcher().add(
            mmcv_patches.PortableExtension,
            mmcv_patches.DeviceNeutralOperators,
            mmcv_patches.DeformConv,
            mmcv_patches.ModulatedDeformConv,
        ):
            yield
    configure_summary(True)


@pytest.fixture(params=RESNETS.values(), ids=RESNETS)
def resnet_changes(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each kind of ResNet."""
    return request.param


@pytest.fixture(scope="session")
def make_resnet() -> Callable[..., Any]:
    """A small ResNet whose parameters are random, none of them zero."""

    def make(*, training: bool = True, **changes: Any) -> Any:
        from mmdet.models.backbones.resnet import ResNet

        network = ResNet(
            **{
                "base_channels": 8,
                "norm_cfg": {"type": "BN", "requires_grad": True},
                **copy.deepcopy(changes),
            }
        )
        for module in network.modules():
            if isinstance(module, torch.nn.BatchNorm2d):
                torch.nn.init.uniform_(module.weight, 0.3, 0.7)
                torch.nn.init.uniform_(module.bias, -0.1, 0.3)
                module.running_mean.uniform_(-0.2, 0.2)
                module.running_var.uniform_(0.5, 1.5)
        for parameter in network.parameters():
            if not parameter.any():
                torch.nn.init.normal_(parameter, std=0.1)
        network.train(training)  # gives back nothing: mmdet overrides it
        return network

    return make


@pytest.fixture(scope="session")
def run_resnet() -> Callable[..., Any]:
    """Feature maps and gradients, by the images and by the parameters, of a loss over all maps; on the CPU."""

    def run(network: Any, images: Any, loss_scale: float = 1.0) -> tuple[list[Any], dict[str, Any]]:
        images = images.detach().clone().requires_grad_()
        network.zero_grad()
        features = network(images)
        generator = torch.Generator().manual_seed(0)
        weights = [torch.randn(feature.shape, generator=generator).to(feature.device) for feature in features]
        loss = sum((feature * weight).mean() for feature, weight in zip(features, weights))
        (loss * loss_scale).backward()
        parameters = {name: p for name, p in network.named_parameters() if p.requires_grad}
        gradients = {"images": images.grad, **{name: p.grad for name, p in parameters.items()}}
        assert sum(bool(gradient.any()) for gradient in gradients.values()) > 0.9 * len(gradients)
        return (
            [feature.detach().cpu() for feature in features],
            {name: gradient.cpu() / loss_scale for name, gradient in gradients.items()},
        )

    return run


@pytest.fixture
def train() -> Callable[..., list[float]]:
    """The losses that ``support/train.py`` prints, run in a process of its own."""

    def run(model: str, mode: str, device: str = "cpu", with_compiled_mmcv: bool = False) -> list[float]:
        first = [os.environ["PATCHER_REFERENCE_MMCV"]] if with_compiled_mmcv else []
        program = Path(__file__).parent / "support" / "train.py"
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(program), model, mode, device],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(first), "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run
