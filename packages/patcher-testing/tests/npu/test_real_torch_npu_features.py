"""What is real on the simulated NPU beyond operators: transfer_to_npu, compilation, autocast, streams, the profiler."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("simulated_npu")]


def test_fused_adamw_and_clipping_of_torch_npu_equal_torch_optim(random_seed):
    import copy

    import torch_npu

    model = torch.nn.Linear(4, 3)
    on_npu = copy.deepcopy(model).npu()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    fused = torch_npu.optim.NpuFusedAdamW(on_npu.parameters(), lr=0.1)
    for x in torch.randn(3, 5, 4):
        optimizer.zero_grad()
        fused.zero_grad()
        model(x).square().sum().backward()
        on_npu(x.npu()).square().sum().backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        torch.testing.assert_close(fused.clip_grad_norm_fused_(1.0).cpu().squeeze(), norm)
        optimizer.step()
        fused.step()
    for expected, found in zip(model.parameters(), on_npu.parameters()):
        torch.testing.assert_close(found.detach().cpu(), expected.detach(), rtol=1e-3, atol=1e-4)


def test_compiled_functions_trace_npu_operators_by_their_real_meta_kernels():
    import torch_npu

    x = torch.randn(3, 8)
    on_npu = x.npu().requires_grad_()
    compiled = torch.compile(lambda t: torch_npu.npu_swiglu(t) + 1, backend="aot_eager", fullgraph=True)
    compiled(on_npu).sum().backward()
    gate, up = x.chunk(2, -1)
    torch.testing.assert_close(compiled(on_npu).detach().cpu(), torch.nn.functional.silu(gate) * up + 1)
    assert on_npu.grad.abs().sum() > 0


def test_autocast_and_checkpointing():
    a, b = torch.randn(3, 3).npu().requires_grad_(), torch.randn(3, 3).npu()
    with torch.autocast("npu", dtype=torch.bfloat16):
        assert (a @ b).dtype == torch.bfloat16
    torch.utils.checkpoint.checkpoint(lambda t: (t @ b).square().sum(), a, use_reentrant=False).backward()
    torch.testing.assert_close(a.grad, 2 * (a @ b).detach() @ b.t())


def test_streams_and_events_complete():
    stream, start, end = (
        torch.npu.Stream(),
        torch.npu.Event(enable_timing=True),
        torch.npu.Event(enable_timing=True),
    )
    start.record()
    with torch.npu.stream(stream):
        total = torch.ones(4, device="npu").sum()
    end.record()
    torch.npu.synchronize()
    assert total.item() == 4
    assert stream.query() and end.query()
    assert start.elapsed_time(end) >= 0


def test_memory_of_one_device_is_not_that_of_the_other():
    x = torch.ones(3, device="npu:0")
    moved = x.to("npu:1")
    moved.add_(1)
    assert (x.device.index, moved.device.index) == (0, 1)
    assert (x.sum().item(), moved.sum().item()) == (3, 6)


@pytest.mark.simulated_npu(group="transfer_to_npu")
@pytest.mark.filterwarnings("ignore::ImportWarning", "ignore::RuntimeWarning", "ignore::DeprecationWarning")
def test_transfer_to_npu_turns_cuda_into_npu():
    from torch_npu.contrib import transfer_to_npu  # noqa: F401

    assert torch.cuda.is_available()
    assert torch.ones(2).cuda().device.type == "npu"
    assert torch.zeros(2, device="cuda:1").device == torch.device("npu:1")
    assert next(torch.nn.Linear(2, 2).cuda().parameters()).device.type == "npu"


def test_transfer_to_npu_of_another_group_is_not_seen_here():
    assert not torch.cuda.is_available()
