"""Copying a batch to the simulated NPU, as mmcv 1.x asks for it."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

pytestmark = [pytest.mark.simulated_npu(group="mmcv"), pytest.mark.usefixtures("random_seed")]


def test_a_batch_is_copied_to_the_npu(simulated_npu) -> None:
    from mmcv_patches.stream import scatter

    batch = [torch.randn(2, 3), [torch.randn(4), torch.randn(0)]]
    image, (boxes, nothing) = scatter([0], batch)
    assert {tensor.device for tensor in (image, boxes, nothing)} == {torch.device("npu", 0)}
    assert torch.equal(image.cpu(), batch[0]) and torch.equal(boxes.cpu(), batch[1][0])
    assert nothing.shape == (0,)


def test_what_is_on_the_npu_already_stays_there(simulated_npu) -> None:
    from mmcv_patches.stream import scatter

    tensor = torch.randn(3).npu()
    (same,) = scatter([0], tensor)
    assert same.data_ptr() == tensor.data_ptr()
