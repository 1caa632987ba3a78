"""The fused step of AdamW on the simulated NPU against torch.optim.AdamW on the CPU."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch", reason="this is a patch of torch_npu")

from patcher_core import Patcher, configure_summary  # noqa: E402
from torch_patches import FusedAdamW  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("random_seed")]


@pytest.fixture
def patcher(simulated_npu):
    configure_summary(False)
    with Patcher().add(FusedAdamW).disable("transfer_to_npu") as patcher:
        yield patcher
    configure_summary(True)


def model():
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"amsgrad": True},
        {"weight_decay": 0.1, "betas": (0.8, 0.95), "eps": 1e-6},
    ],
)
def test_five_steps_end_where_torch_ends(patcher, simulated_npu, settings):
    reference, x = model(), torch.randn(5, 8, 4)
    start = copy.deepcopy(reference)
    on_npu = copy.deepcopy(reference).npu()
    expected = torch.optim.AdamW(reference.parameters(), lr=1e-2, **{"weight_decay": 0.0, **settings})
    optimizer = simulated_npu.torch_npu.optim.NpuFusedAdamW(
        on_npu.parameters(), lr=1e-2, **{"weight_decay": 0.0, **settings}
    )
    with simulated_npu.record_operators() as recording:
        for batch in x:
            for network, step, inputs in ((reference, expected, batch), (on_npu, optimizer, batch.npu())):
                step.zero_grad()
                network(inputs).square().sum().backward()
                step.step()
    assert any("adamw" in call.name for call in recording.calls)
    for wanted, found, before in zip(reference.parameters(), on_npu.parameters(), start.parameters()):
        assert not torch.equal(wanted, before)
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-5)
