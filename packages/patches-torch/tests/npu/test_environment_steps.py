"""The environment steps of apply() on the simulated NPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the environment steps set up torch")

from patcher_core import Patcher, configure_summary  # noqa: E402
from patcher_core.backends import unavailable  # noqa: E402


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    yield
    configure_summary(True)


@pytest.fixture
def internal_format(simulated_npu, monkeypatch):
    """What reached the device of torch.npu.config.allow_internal_format, which cannot be read."""
    given = []
    compiled = simulated_npu.torch_npu._C
    set_option = compiled._npu_setOption

    def record(options):
        given.extend(value for name, value in options.items() if name == "ALLOW_INTERNAL_FORMAT")
        set_option(options)

    monkeypatch.setattr(compiled, "_npu_setOption", record)
    return given


@pytest.mark.simulated_npu(group="before the transfer")
def test_the_backend_is_there(simulated_npu):
    assert unavailable("npu") == ""


@pytest.mark.simulated_npu(group="before the transfer")
def test_transfer_to_npu_can_be_left_out(simulated_npu):
    patcher = Patcher().disable("transfer_to_npu").apply()
    assert "transfer_to_npu: disabled" in patcher.report.notes
    with pytest.raises((AssertionError, RuntimeError)):
        torch.ones(1).cuda()


@pytest.mark.simulated_npu(group="before the transfer")
def test_internal_formats_are_off_unless_allowed(internal_format):
    patcher = Patcher().disable("transfer_to_npu").apply()
    assert internal_format == ["disable"]
    assert any(note.startswith("internal_format: off") for note in patcher.report.notes)


@pytest.mark.simulated_npu(group="before the transfer")
def test_internal_formats_can_be_allowed_before_and_after_apply(internal_format):
    patcher = Patcher().disable("transfer_to_npu").allow_internal_format()
    assert internal_format == []
    patcher.apply()
    patcher.disallow_internal_format()
    patcher.allow_internal_format(True)
    assert internal_format == ["enable", "disable", "enable"]
    assert "internal_format: on" in patcher.report.notes


@pytest.mark.simulated_npu(group="before the transfer")
def test_apply_takes_the_choice_too(internal_format):
    Patcher().disable("transfer_to_npu").apply(allow_internal_format=True)
    assert internal_format == ["enable"]


@pytest.mark.simulated_npu(group="transfer")
def test_apply_makes_cuda_mean_npu(simulated_npu):
    patcher = Patcher().apply()
    assert any(note.startswith("transfer_to_npu: cuda means npu") for note in patcher.report.notes)
    assert torch.ones(2).cuda().device.type == "npu"
    assert torch.zeros(2, device="cuda").device.type == "npu"
    assert torch.nn.Linear(2, 2).to("cuda").weight.device.type == "npu"


@pytest.mark.simulated_npu(group="transfer")
def test_a_second_patcher_finds_the_transfer_done(simulated_npu):
    Patcher().apply()
    assert torch.ones(2).cuda().device.type == "npu"
