"""npu_fusion_attention on the simulated NPU against PyTorch's own scaled_dot_product_attention."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

from torch.nn.functional import scaled_dot_product_attention  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("random_seed")]

# float32 with sums in another order; bfloat16 rounds the result once (2**-8)
TOLERANCES = {torch.float32: {"rtol": 1e-4, "atol": 1e-5}, torch.bfloat16: {"rtol": 2**-7, "atol": 2**-7}}

BATCH, HEADS, HEAD_SIZE = 2, 4, 8


def compressed_mask():
    return torch.ones(2048, 2048, dtype=torch.bool).triu(1)


def in_layout(tensor, layout):
    """From (batch, heads, sequence, head size)."""
    if layout == "BNSD":
        return tensor.contiguous()
    tensor = tensor.transpose(1, 2)
    if layout == "BSND":
        return tensor.contiguous()
    tensor = tensor.flatten(2)
    return (tensor if layout == "BSH" else tensor.transpose(0, 1)).contiguous()


def run_both(layout, dtype, *, key_heads=HEADS, queries=6, keys=6, scale=0.3, left_out=None, **npu_options):
    """Outputs and gradients (in `layout`) of the NPU operator and of SDPA for the same random inputs."""
    import torch_npu

    sizes = ((HEADS, queries), (key_heads, keys), (key_heads, keys))
    inputs = [torch.randn(BATCH, heads, length, HEAD_SIZE).to(dtype) for heads, length in sizes]

    expected_inputs = [tensor.clone().float().requires_grad_() for tensor in inputs]
    attended = None if left_out is None else ~left_out
    expected = scaled_dot_product_attention(
        *expected_inputs, attn_mask=attended, scale=scale, enable_gqa=True
    )
    grad = torch.randn_like(expected)
    expected.backward(grad)

    npu_inputs = [in_layout(tensor, layout).npu().requires_grad_() for tensor in inputs]
    result = torch_npu.npu_fusion_attention(*npu_inputs, HEADS, layout, scale=scale, **npu_options)
    result[0].backward(in_layout(grad.to(dtype), layout).npu())

    assert result[0].dtype == dtype
    wanted = [
        in_layout(tensor, layout) for tensor in (expected, *(tensor.grad for tensor in expected_inputs))
    ]
    found = [tensor.float().cpu() for tensor in (result[0], *(tensor.grad for tensor in npu_inputs))]
    return found, wanted


def assert_equal(found, wanted, dtype=torch.float32):
    for one_found, one_wanted in zip(found, wanted):
        assert one_wanted.abs().max() > 0
        torch.testing.assert_close(one_found, one_wanted, **TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
@pytest.mark.parametrize("key_heads", [HEADS, 2, 1])
def test_every_layout_with_and_without_grouped_queries(layout, key_heads, dtype):
    assert_equal(*run_both(layout, dtype, key_heads=key_heads), dtype)


@pytest.mark.parametrize("queries, keys", [(6, 6), (4, 9), (1, 7)])
@pytest.mark.parametrize("mode", [2, 3])
def test_compressed_causal_masks(mode, queries, keys):
    shift = 0 if mode == 2 else keys - queries
    left_out = torch.ones(queries, keys, dtype=torch.bool).triu(1 + shift)
    assert_equal(
        *run_both(
            "BNSD",
            torch.float32,
            queries=queries,
            keys=keys,
            left_out=left_out,
            sparse_mode=mode,
            atten_mask=compressed_mask().npu(),
        )
    )


def test_a_band_around_the_lower_right_diagonal():
    queries, keys, before, after = 5, 8, 2, 1
    distance = torch.arange(keys) - (torch.arange(queries).unsqueeze(1) + keys - queries)
    assert_equal(
        *run_both(
            "BSND",
            torch.float32,
            queries=queries,
            keys=keys,
            left_out=(distance > after) | (distance < -before),
            sparse_mode=4,
            pre_tockens=before,
            next_tockens=after,
            atten_mask=compressed_mask().npu(),
        )
    )


@pytest.mark.parametrize("shape", [(6, 6), (1, 1, 6, 6), (BATCH, 1, 6, 6), (BATCH, HEADS, 6, 6)])
@pytest.mark.parametrize("mode", [0, 1])
def test_true_in_a_mask_means_left_out(shape, mode):
    left_out = torch.rand(shape) < 0.3
    left_out[..., 0] = False
    found, wanted = run_both(
        "BNSD", torch.float32, left_out=left_out, sparse_mode=mode, atten_mask=left_out.npu()
    )
    assert_equal(found, wanted)


def test_a_query_that_may_attend_to_nothing_gives_zeros():
    import torch_npu

    left_out = torch.zeros(6, 6, dtype=torch.bool)
    left_out[2] = True
    q, k, v = (torch.randn(BATCH, HEADS, 6, HEAD_SIZE) for _ in range(3))
    found = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), HEADS, "BNSD", atten_mask=left_out.npu()
    )[0].cpu()
    assert torch.equal(found[:, :, 2], torch.zeros_like(found[:, :, 2]))
    assert found[:, :, 3].abs().min() > 0


def test_position_shift_is_added_before_scaling():
    import torch_npu

    q, k, v = (torch.randn(BATCH, HEADS, 6, HEAD_SIZE) for _ in range(3))
    shift = torch.randn(BATCH, HEADS, 6, 6)
    found = torch_npu.npu_fusion_attention(
        q.npu(), k.npu(), v.npu(), HEADS, "BNSD", pse=shift.npu(), scale=0.5
    )[0]
    expected = scaled_dot_product_attention(q, k, v, attn_mask=shift * 0.5, scale=0.5)
    torch.testing.assert_close(found.cpu(), expected, **TOLERANCES[torch.float32])


def test_the_scale_is_one_unless_given():
    import torch_npu

    q, k, v = (torch.randn(BATCH, HEADS, 6, HEAD_SIZE) for _ in range(3))
    found = torch_npu.npu_fusion_attention(q.npu(), k.npu(), v.npu(), HEADS, "BNSD")[0].cpu()
    torch.testing.assert_close(
        found, scaled_dot_product_attention(q, k, v, scale=1.0), **TOLERANCES[torch.float32]
    )


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("key_heads", [HEADS, 2])
def test_packed_sequences_attend_to_themselves(causal, key_heads):
    import torch_npu

    query_ends, key_ends = [3, 4, 10], [5, 7, 13]
    inputs = [
        torch.randn(ends[-1], heads, HEAD_SIZE)
        for heads, ends in ((HEADS, query_ends), (key_heads, key_ends), (key_heads, key_ends))
    ]
    npu_inputs = [tensor.npu().requires_grad_() for tensor in inputs]
    options = {"sparse_mode": 3, "atten_mask": compressed_mask().npu()} if causal else {}
    result = torch_npu.npu_fusion_attention(
        *npu_inputs, HEADS, "TND", scale=0.3, actual_seq_qlen=query_ends, actual_seq_kvlen=key_ends, **options
    )
    grad = torch.randn_like(inputs[0])
    result[0].backward(grad.npu())

    expected_inputs = [tensor.clone().requires_grad_() for tensor in inputs]
    q, k, v = expected_inputs
    parts = []
    for start, end, key_start, key_end in zip([0, *query_ends], query_ends, [0, *key_ends], key_ends):
        one = [t.transpose(0, 1) for t in (q[start:end], k[key_start:key_end], v[key_start:key_end])]
        lengths = (end - start, key_end - key_start)
        mask = torch.ones(lengths, dtype=torch.bool).tril(lengths[1] - lengths[0]) if causal else None
        parts.append(
            scaled_dot_product_attention(*one, attn_mask=mask, scale=0.3, enable_gqa=True).transpose(0, 1)
        )
    expected = torch.cat(parts)
    expected.backward(grad)

    assert_equal(
        [t.cpu() for t in (result[0], *(t.grad for t in npu_inputs))],
        [expected, *(t.grad for t in expected_inputs)],
    )


def test_dropout_keeps_the_mean_and_its_gradient_uses_the_same_mask():
    import torch_npu

    v = torch.eye(32).expand(1, 1, 32, 32).npu().requires_grad_()
    q = torch.randn(1, 1, 32, 32).npu()
    output, *_, seed, _offset, elements = torch_npu.npu_fusion_attention(
        q, q, v, 1, "BNSD", keep_prob=0.5, scale=0.01
    )
    assert seed != 0 and elements > 0
    # v is the identity, so the output is the dropped probabilities themselves, and so is the gradient,
    # transposed
    dropped = (output == 0).float().mean().item()
    assert 0.3 < dropped < 0.7
    output.backward(torch.eye(32).expand(1, 1, 32, 32).npu())
    torch.testing.assert_close(v.grad.cpu(), output.detach().cpu().transpose(-1, -2))


@pytest.mark.parametrize(
    "call, message",
    [
        ({"sparse_mode": 3}, "sparse_mode 3 takes atten_mask"),
        (
            {"sparse_mode": 2, "atten_mask": torch.ones(6, 6, dtype=torch.bool).triu(1)},
            "sparse_mode 2 takes atten_mask",
        ),
        ({"sparse_mode": 3, "atten_mask": torch.ones(2048, 2048, dtype=torch.bool).tril()}, "True = masked"),
        ({"atten_mask": torch.zeros(6, 6)}, "atten_mask must be bool or uint8"),
        ({"input_layout": "BSND"}, "head_num is 4 but BSND gives 6 heads"),
        ({"input_layout": "BHSD"}, "input_layout must be one of"),
        ({"keep_prob": 1.5}, "keep_prob must be"),
        ({"next_tockens": 0, "atten_mask": torch.zeros(6, 6, dtype=torch.bool)}, "must itself mask"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_a_device_would_refuse_or_get_wrong_is_refused(call, message):
    import torch_npu

    q = torch.randn(BATCH, HEADS, 6, HEAD_SIZE).npu()
    options = {key: value.npu() if isinstance(value, torch.Tensor) else value for key, value in call.items()}
    with pytest.raises(RuntimeError, match=message):
        torch_npu.npu_fusion_attention(q, q, q, HEADS, options.pop("input_layout", "BNSD"), **options)


@pytest.mark.parametrize("ends", [[0, 3, 8], [3, 7], [5, 3, 8], None])
def test_packed_lengths_that_are_not_cumulative_without_a_leading_zero_are_refused(ends):
    import torch_npu

    q = torch.randn(8, HEADS, HEAD_SIZE).npu()
    with pytest.raises(RuntimeError, match="cumulative lengths without a leading 0"):
        torch_npu.npu_fusion_attention(q, q, q, HEADS, "TND", actual_seq_qlen=ends, actual_seq_kvlen=ends)


def test_sparse_modes_that_are_not_modelled_say_so():
    import torch_npu

    q = torch.randn(BATCH, HEADS, 6, HEAD_SIZE).npu()
    with pytest.raises(NotImplementedError, match="sparse_mode 7"):
        torch_npu.npu_fusion_attention(
            q, q, q, HEADS, "BNSD", sparse_mode=7, atten_mask=compressed_mask().npu()
        )
