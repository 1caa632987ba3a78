"""NuScenesDataset: upstream's boxes and upstream's metrics in mmdet3d before 1.1, in less time."""

from __future__ import annotations

import pickle
import time

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import NuScenesDataset, NuScenesMetric  # noqa: E402
from patcher_core import LibraryVersion, Patcher, PatchStatus, get_version  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries at import, and of numpy on conversions

if LibraryVersion("mmdet3d", has_metric=">=1.1.0").has_metric:
    pytest.skip("mmdet3d since 1.1 evaluates with NuScenesMetric", allow_module_level=True)

IS_V0 = str(get_version("mmdet3d")).startswith("0.")


def module():
    from mmdet3d.datasets import nuscenes_dataset

    return nuscenes_dataset


def both():
    """Upstream's conversion and its replacement."""
    with Patcher().add(NuScenesDataset):
        replacement = module().output_to_nusc_box
    assert replacement is not module().output_to_nusc_box
    return module().output_to_nusc_box, replacement


def detection(values, scores, labels):
    from mmdet3d.core.bbox import LiDARInstance3DBoxes

    return {
        "boxes_3d": LiDARInstance3DBoxes(values, box_dim=values.shape[1]),
        "scores_3d": scores,
        "labels_3d": labels,
    }


@pytest.mark.parametrize("velocity", ["with velocity", "switched off", "boxes without velocity"])
def test_boxes_are_those_of_upstream(velocity, contents_of_boxes) -> None:
    if IS_V0 and velocity == "switched off":
        pytest.skip("mmdet3d 0.x knows no with_velocity")
    size = 7 if velocity == "boxes without velocity" else 9
    arguments = [False] if velocity == "switched off" else []

    def inputs(draw):
        count = 5 * draw.batch()
        values = draw.tensor(count, size, scale=10, grad=False), draw.uniform(0, 1, count, grad=False)
        return (*values, draw.integers(0, 10, count))

    def call(convert):
        return lambda *values: contents_of_boxes(convert(detection(*values), *arguments))

    original, replacement = both()
    options = {"dtypes": [torch.float32, torch.float64], "gradients": False}
    assert_same_numerics(call(replacement), call(original), inputs, **options)
    assert_faults_are_caught(call(original), inputs, **options)
    values = torch.randn(50, size), torch.rand(50), torch.randint(0, 10, (50,))
    torch.testing.assert_close(call(replacement)(*values), call(original)(*values), rtol=0, atol=0)


def evaluate(data):
    """The metrics of the whole evaluation, and the processor time that it took."""
    infos = [
        {
            "token": frame.token,
            "timestamp": number,
            "lidar2ego_rotation": quaternion(frame.lidar2ego),
            "lidar2ego_translation": frame.lidar2ego[:3, 3].tolist(),
            "ego2global_rotation": quaternion(frame.ego2global),
            "ego2global_translation": frame.ego2global[:3, 3].tolist(),
        }
        for number, frame in enumerate(data.frames)
    ]
    (data.root / "infos.pkl").write_bytes(
        pickle.dumps({"infos": infos, "metadata": {"version": data.version}})
    )
    dataset = module().NuScenesDataset(
        str(data.root / "infos.pkl"), data_root=str(data.root), classes=data.classes, test_mode=True
    )
    results = [{"pts_bbox": detection(frame.boxes, frame.scores, frame.labels)} for frame in data.frames]
    start = time.process_time()
    metrics = dataset.evaluate(results)
    return metrics, time.process_time() - start


def quaternion(matrix):
    from pyquaternion import Quaternion

    return Quaternion(matrix=matrix).elements.tolist()


def test_an_evaluation_gives_the_same_metrics(nuscenes_data) -> None:
    evaluate(nuscenes_data)  # imports, and what libraries compile
    expected, upstream_seconds = evaluate(nuscenes_data)
    with Patcher().add(NuScenesDataset):
        found, seconds = evaluate(nuscenes_data)
    with_values = {name: value for name, value in expected.items() if value == value}
    assert len(with_values) > 50
    assert IS_V0 or with_values["pts_bbox_NuScenes/mAP"] > 0.3
    assert {name: found[name] for name in with_values} == with_values
    assert found.keys() == expected.keys()
    print(f"\nevaluation of 300 boxes: {upstream_seconds / seconds:.2f} times as fast as upstream")


def test_the_group_for_later_versions_says_that_it_is_not_for_this_one() -> None:
    patcher = Patcher().add(NuScenesMetric).apply()
    (result,) = patcher.report.results
    assert result.status is PatchStatus.SKIPPED and not result.quiet
    assert "verified for >=1.1.0,<1.5" in result.reason
