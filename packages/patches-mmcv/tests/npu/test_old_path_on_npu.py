"""Programs written for ``mx_driving.patcher``, beside the real operator library, on the simulated NPU."""

from __future__ import annotations

import importlib
import runpy
import sys
import warnings
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="these programs use it")

PROJECTS = Path(__file__).resolve().parents[4] / "examples" / "coming_from_drivingsdk"

pytestmark = [pytest.mark.simulated_npu(group="old path"), pytest.mark.usefixtures("random_seed")]


@pytest.fixture(autouse=True)
def old_path(simulated_npu):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mmcv's, torch_npu's and mx_driving's own, at import
        importlib.import_module("patcher_core.compat.mx_driving")
        yield importlib.import_module("mx_driving.patcher")


def test_the_operator_library_stays_the_real_one_and_its_patcher_is_this_project(old_path):
    import mx_driving
    import mx_driving._C

    import patcher_core

    folder = Path(mx_driving.__file__).parent
    assert Path(mx_driving._C.__file__).parent == folder and mx_driving._C.__file__.endswith(".so")
    for name in set(mx_driving.__all__) - {"default_patcher_builder", "patch_mmcv_version"}:
        assert not getattr(mx_driving, name).__module__.startswith("patcher_core"), name
    assert importlib.import_module("mx_driving.ops.sigmoid_focal_loss").__file__.startswith(str(folder))
    assert old_path.Patcher is patcher_core.Patcher
    assert mx_driving.default_patcher_builder is patcher_core.default_patcher_builder
    predecessor = folder / "patcher"
    assert predecessor.is_dir()
    files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
    assert not [file for file in files if file.startswith(str(predecessor))]


def test_an_unmodified_model_trains_with_the_operators_of_the_library(simulated_npu, monkeypatch, capsys):
    project = PROJECTS / "predefined_classes"
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(str(project))
    monkeypatch.setattr(sys, "argv", ["train.py", "cuda"])
    with simulated_npu.record_operators() as operators:
        runpy.run_path("train.py", run_name="__main__")
    operators.assert_ran("multi_scale_deformable_attn", times=5)
    operators.assert_ran("multi_scale_deformable_attn_backward", times=5)
    assert "trained 5 steps on npu" in capsys.readouterr().out


def test_a_1_0_builder_sends_products_of_columns_to_the_library(simulated_npu):
    from mx_driving.patcher import Patch, PatcherBuilder
    from mx_driving.patcher.tensor import batch_matmul, index

    matrices, columns = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 4, 1)
    values, mask = torch.randn(50), torch.rand(50) > 0.5
    builder = PatcherBuilder().add_module_patch("torch", Patch(batch_matmul), Patch(index))
    with builder.build() as patcher, simulated_npu.record_operators() as operators:
        patcher.transfer_to_npu()
        product = torch.matmul(matrices.cuda(), columns.cuda())
        chosen = values.cuda()[mask.cuda()]
    operators.assert_ran("npu_batch_matmul", times=1)
    operators.assert_ran("masked_select", times=1)
    assert product.device.type == "npu"
    torch.testing.assert_close(product.cpu(), matrices @ columns)
    assert torch.equal(chosen.cpu(), values[mask])
    with simulated_npu.record_operators() as operators:
        matrices.cuda() @ columns.cuda()
    operators.assert_did_not_run("npu_batch_matmul")


def test_transfer_to_npu_acts_before_apply(simulated_npu):
    from mx_driving.patcher import PatcherBuilder

    PatcherBuilder().build().transfer_to_npu()
    assert torch.ones(1, device="cuda").device.type == "npu"
