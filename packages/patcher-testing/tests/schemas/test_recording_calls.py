"""Calls are recorded as they were written, and the table equals what the real torch_npu registers."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

from patcher_testing.schemas import known_schemas, record_calls, replay  # noqa: E402
from patcher_testing.schemas.extract import extract  # noqa: E402

pytestmark = pytest.mark.simulated_npu


def test_every_way_of_calling_is_recorded_with_the_arguments_as_written(simulated_npu):
    import torch_npu

    x, weight = torch.randn(2, 8).npu(), torch.rand(8).npu()
    with record_calls() as calls:
        torch_npu.npu_rms_norm(x, weight, epsilon=1e-6)
        torch.ops.npu.npu_rms_norm(x, gamma=weight)
        torch.ops.npu.npu_rms_norm.default(x, weight)
        torch.nn.functional.relu(x)
    torch_npu.npu_rms_norm(x, weight)

    assert [(call.operator, len(call.args), dict(call.kwargs).keys()) for call in calls] == [
        ("npu_rms_norm", 2, {"epsilon": 0}.keys()),
        ("npu_rms_norm", 1, {"gamma": 0}.keys()),
        ("npu_rms_norm", 2, {}.keys()),
    ]
    replay(calls).assert_accepted()


def test_an_argument_that_equals_its_default_is_still_seen(simulated_npu):
    import torch_npu

    q = torch.randn(1, 4, 2, 8).npu()
    with record_calls() as calls:
        torch_npu.npu_fusion_attention(q, q, q, 2, "BSND", softmax_layout="")
    assert [answer.version for _, answer in replay(calls).refusals] == ["2.6.0"]


def test_a_call_that_fails_is_recorded_too(simulated_npu):
    import torch_npu

    with record_calls() as calls, pytest.raises(RuntimeError):
        torch_npu.npu_rms_norm(self=torch.randn(2, 8).npu())
    assert [call.operator for call in calls] == ["npu_rms_norm"]


def test_what_is_extracted_from_the_wheel_is_what_it_registers(simulated_npu):
    folder = Path(simulated_npu.torch_npu.__file__).parents[1]
    extracted = extract([folder])
    assert extracted.of_version("2.13.0") == known_schemas().of_version("2.13.0")

    registered = {
        schema.name[len("npu::") :] + (f".{schema.overload_name}" if schema.overload_name else ""): schema
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("npu::")
    }
    by_name = {text.partition("(")[0]: text for text in extracted.of_version("2.13.0")}
    assert len(by_name.keys() & registered.keys()) >= 415
    for name in by_name.keys() & registered.keys():
        assert torch._C.parse_schema(f"npu::{by_name[name]}") == registered[name]
