"""Image processors of Qwen-VL on the simulated NPU give there what they give on the CPU."""

from __future__ import annotations

import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
    pytest.skip("there is no torch_npu to simulate in this environment", allow_module_level=True)
if "PATCHER_REFERENCE_TORCHVISION" not in os.environ:
    pytest.skip(
        "the image processors need torchvision, which this environment has not", allow_module_level=True
    )

from patcher_core import Patcher  # noqa: E402
from transformers_patches import ImageProcessorDevice, Qwen2VLPreprocess  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def processor(simulated_npu):
    from image_processor_of_qwen2_vl import image_processor

    return image_processor()


def _images():
    return [
        torch.randint(0, 256, size, dtype=torch.uint8) for size in ((3, 60, 90), (3, 60, 90), (3, 40, 40))
    ]


def test_images_are_processed_on_the_npu_of_the_rank(processor, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "0")
    images = _images()
    assert processor(images, return_tensors="pt")["pixel_values"].device.type == "cpu"
    # not what the CPU gives: there torchvision resizes bytes, elsewhere numbers
    expected = processor(images, return_tensors="pt", device="npu:0")
    with Patcher(backend="npu").add(ImageProcessorDevice, Qwen2VLPreprocess) as patcher:
        found = processor(images, return_tensors="pt")
        on_the_cpu = processor(images, return_tensors="pt", device="cpu")
        applied = {one.group for one in patcher.report if one.status.value == "applied"}
    assert applied == {"image_processor_device", "qwen2vl_preprocess"}
    assert found["pixel_values"].device == torch.device("npu", 0)
    assert torch.equal(found["image_grid_thw"], expected["image_grid_thw"])
    assert torch.equal(found["pixel_values"].cpu(), expected["pixel_values"].cpu())
    assert on_the_cpu["pixel_values"].device.type == "cpu"


def test_no_permutation_on_the_npu_has_more_than_eight_dimensions(processor, simulated_npu):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Ranks(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = set()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if str(func) == "aten.permute.default":
                self.seen.add(args[0].dim())
            return func(*args, **(kwargs or {}))

    with Ranks() as unpatched:
        processor(_images(), return_tensors="pt", device="npu:0")
    assert max(unpatched.seen) == 10
    with Patcher(backend="npu").add(Qwen2VLPreprocess), Ranks() as patched:
        processor(_images(), return_tensors="pt", device="npu:0")
    assert max(patched.seen) <= 8
