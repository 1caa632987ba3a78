"""NuScenesMetric: upstream's boxes and upstream's metrics, in less time."""

from __future__ import annotations

import copy
import pickle
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from mmdet_patches import NuScenesDataset, NuScenesMetric  # noqa: E402
from patcher_core import LibraryVersion, Patcher, PatchStatus  # noqa: E402
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics  # noqa: E402

if not LibraryVersion("mmdet3d", has_metric=">=1.1.0").has_metric:
    pytest.skip("mmdet3d before 1.1 has no NuScenesMetric", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries at import, and of numpy on conversions

KINDS = {
    "LiDAR": ("LiDARInstance3DBoxes", 9),
    "LiDAR without velocity": ("LiDARInstance3DBoxes", 7),
    "camera": ("CameraInstance3DBoxes", 9),
}


def module():
    from mmdet3d.evaluation.metrics import nuscenes_metric

    return nuscenes_metric


def boxes_of(cls, values):
    from mmdet3d import structures

    return getattr(structures, cls)(values, box_dim=values.shape[1])


def both(name):
    """Upstream's function of that name and its replacement."""
    with Patcher().add(NuScenesMetric):
        replacement = getattr(module(), name)
    original = getattr(module(), name)
    assert replacement is not original
    return original, replacement


def detection(kind, values, scores, labels, **further):
    cls, size = KINDS[kind]
    return {"bboxes_3d": boxes_of(cls, values[:, :size]), "scores_3d": scores, "labels_3d": labels, **further}


@pytest.mark.parametrize("attributes", [False, True], ids=["without attributes", "with attributes"])
@pytest.mark.parametrize("kind", KINDS)
def test_boxes_are_those_of_upstream(kind, attributes, contents_of_boxes) -> None:
    def inputs(draw):
        count = 5 * draw.batch()
        further = {"attr_labels": draw.integers(0, 9, count)} if attributes else {}
        values = draw.tensor(count, 9, scale=10, grad=False), draw.uniform(0, 1, count, grad=False)
        return (*values, draw.integers(0, 10, count)), further

    def call(convert):
        def converted(values, scores, labels, **further):
            boxes, found = convert(detection(kind, values, scores, labels, **further))
            return contents_of_boxes(boxes), None if found is None else torch.as_tensor(found)

        return converted

    original, replacement = both("output_to_nusc_box")
    options = {"dtypes": [torch.float32, torch.float64], "gradients": False}
    assert_same_numerics(call(replacement), call(original), inputs, **options)
    assert_faults_are_caught(call(original), inputs, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_are_those_of_upstream_to_the_last_bit(kind, contents_of_boxes) -> None:
    values = torch.randn(50, 9) * 5
    values[0, 6] = 0.0
    one = detection(kind, values, torch.rand(50), torch.randint(0, 10, (50,)))
    found, expected = (contents_of_boxes(convert(one)[0]) for convert in reversed(both("output_to_nusc_box")))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_other_boxes_and_camera_boxes_without_velocity_are_errors_as_upstream() -> None:
    for convert in both("output_to_nusc_box"):
        with pytest.raises(NotImplementedError, match="DepthInstance3DBoxes"):
            convert(
                {
                    "bboxes_3d": boxes_of("DepthInstance3DBoxes", torch.rand(2, 7)),
                    "scores_3d": torch.rand(2),
                    "labels_3d": torch.zeros(2),
                }
            )
        with pytest.raises(IndexError):
            boxes = boxes_of("CameraInstance3DBoxes", torch.rand(2, 7))
            convert({"bboxes_3d": boxes, "scores_3d": torch.rand(2), "labels_3d": torch.zeros(2)})


@pytest.mark.parametrize("count", [60, 0], ids=["boxes", "empty"])
@pytest.mark.parametrize(
    "name", ["lidar_nusc_box_to_global", "cam_nusc_box_to_global", "global_nusc_box_to_cam"]
)
def test_moved_boxes_are_those_of_upstream_to_the_last_bit(
    name, count, nuscenes_data, contents_of_boxes
) -> None:
    original, replacement = both(name)
    frame = nuscenes_data.frames[0]
    info = {
        "lidar_points": {"lidar2ego": frame.lidar2ego.tolist()},
        "ego2global": frame.ego2global.tolist(),
        "images": {"CAM_FRONT": {"cam2ego": frame.lidar2ego.tolist()}},
    }
    configuration = SimpleNamespace(class_range=dict.fromkeys(nuscenes_data.classes, 25.0))
    one = detection("LiDAR", frame.boxes[:count], frame.scores[:count], frame.labels[:count])
    boxes, _ = module().output_to_nusc_box(one)
    if name == "global_nusc_box_to_cam":
        for box in boxes:
            box.translate(frame.ego2global[:3, 3])
    attributes = [[*range(count)]] if name == "cam_nusc_box_to_global" else []

    def moved(function):
        result = function(info, copy.deepcopy(boxes), *attributes, nuscenes_data.classes, configuration)
        kept, *further = result if attributes else (result,)
        return contents_of_boxes(kept), further

    expected = moved(original)
    assert 0 < len(expected[0]["center"]) < count or not count
    torch.testing.assert_close(moved(replacement), expected, rtol=0, atol=0)


def evaluate(data):
    """The metrics of the whole evaluation, and the processor time that it took."""
    (data.root / "infos.pkl").write_bytes(
        pickle.dumps(
            {
                "data_list": [
                    {
                        "token": frame.token,
                        "lidar_points": {"lidar2ego": frame.lidar2ego.tolist()},
                        "ego2global": frame.ego2global.tolist(),
                    }
                    for frame in data.frames
                ]
            }
        )
    )
    metric = module().NuScenesMetric(str(data.root), str(data.root / "infos.pkl"))
    metric.dataset_meta = {"classes": data.classes, "version": data.version}
    for number, frame in enumerate(data.frames):
        found = detection("LiDAR", frame.boxes, frame.scores, frame.labels)
        metric.process({}, [{"pred_instances_3d": found, "pred_instances": {}, "sample_idx": number}])
    start = time.process_time()
    metrics = metric.compute_metrics(metric.results)
    return metrics, time.process_time() - start


def test_an_evaluation_gives_the_same_metrics(nuscenes_data) -> None:
    evaluate(nuscenes_data)  # imports, and what libraries compile
    expected, upstream_seconds = evaluate(nuscenes_data)
    with Patcher().add(NuScenesMetric):
        found, seconds = evaluate(nuscenes_data)
    with_values = {name: value for name, value in expected.items() if value == value}
    assert with_values["pred_instances_3d_NuScenes/mAP"] > 0.3
    assert len(with_values) > 50
    assert {name: found[name] for name in with_values} == with_values
    assert found.keys() == expected.keys()
    print(f"\nevaluation of 300 boxes: {upstream_seconds / seconds:.2f} times as fast as upstream")


def test_the_group_for_earlier_versions_says_that_it_is_not_for_this_one() -> None:
    patcher = Patcher().add(NuScenesDataset).apply()
    (result,) = patcher.report.results
    assert result.status is PatchStatus.SKIPPED and not result.quiet
    assert "verified for >=0.17,<1.1" in result.reason
