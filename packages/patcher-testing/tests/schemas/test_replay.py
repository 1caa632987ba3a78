"""Calls are replayed against five torch_npu versions; each says yes, or no and why."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="schemas are bound by torch's dispatcher")

from patcher_testing.schemas import SchemaTable, known_schemas, make_call, replay  # noqa: E402

VERSIONS = ("2.1.0.post17", "2.6.0", "2.7.1", "2.13.0", "2.14.0")
HEADS = torch.randn(1, 4, 2, 8)


def refusing_versions(*calls):
    return [answer.version for _, answer in replay(calls).refusals]


def test_the_package_knows_five_versions():
    table = known_schemas()
    assert table.versions == VERSIONS
    assert [len(table.of_version(version)) for version in VERSIONS] == [321, 277, 313, 419, 419]


def test_a_call_that_every_version_takes():
    report = replay(
        [make_call("npu_fusion_attention", HEADS, HEADS, HEADS, 2, "BSND", scale=0.3, sparse_mode=3)]
    )
    report.assert_accepted()
    assert report.refusals == []
    assert [line.split()[1:] for line in str(report).splitlines()[1:]] == [[v, "accepts"] for v in VERSIONS]


@pytest.mark.parametrize(
    "call, refusing",
    [
        (make_call("npu_fusion_attention", HEADS, HEADS, HEADS, 2, "BSND", softmax_layout="TND"), ["2.6.0"]),
        (
            make_call("npu_fusion_attention", HEADS, HEADS, HEADS, 2, "BSND", sink=HEADS),
            ["2.1.0.post17", "2.6.0", "2.7.1"],
        ),
        (make_call("npu_fusion_attention", HEADS, HEADS, HEADS, 2, "BSND", scale=None), list(VERSIONS)),
        (make_call("npu_rms_norm", self=HEADS, gamma=HEADS), list(VERSIONS)),
    ],
    ids=["softmax_layout", "sink", "scale None", "rms self"],
)
def test_the_versions_that_refuse_are_named(call, refusing):
    assert refusing_versions(call) == refusing


def test_a_refusal_says_why_and_what_was_called():
    report = replay(
        [make_call("npu_rms_norm", HEADS, HEADS, eps=1e-6), make_call("npu_no_such_operator", HEADS)]
    )
    with pytest.raises(AssertionError) as failure:
        report.assert_accepted(["2.6.0"])
    first, second = str(failure.value).splitlines()
    assert (
        "torch_npu 2.6.0 refuses npu_rms_norm(float32[1, 4, 2, 8], float32[1, 4, 2, 8], eps=1e-06)" in first
    )
    assert "Unknown keyword argument 'eps'" in first
    assert "it has no operator npu_no_such_operator" in second


def test_versions_that_do_not_matter_can_be_left_out():
    report = replay([make_call("npu_fusion_attention", HEADS, HEADS, HEADS, 2, "BSND", softmax_layout="")])
    report.assert_accepted(["2.13.0", "2.14.0"])
    with pytest.raises(AssertionError, match=r"2\.6\.0 refuses"):
        report.assert_accepted()


def test_no_call_at_all_is_a_failure():
    with pytest.raises(AssertionError, match="no torch_npu operator was called"):
        replay([]).assert_accepted()


def test_one_of_several_overloads_suffices():
    table = SchemaTable({"1": {"f.a(Tensor x, int n) -> Tensor", "f.b(Tensor x, Tensor y) -> Tensor"}})
    calls = [make_call("f", HEADS, 3), make_call("f", HEADS, HEADS), make_call("f", HEADS, "three")]
    report = replay(calls, table)
    assert [call.args[1] for call, _ in report.refusals] == ["three"]
