"""A fault of each class, planted on purpose in a replacement that runs on the NPU, is caught by the tools."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

from torch.nn import functional  # noqa: E402

from patcher_testing.numerics import Mismatch, assert_same_numerics  # noqa: E402
from patcher_testing.schemas import record_calls, replay  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("simulated_npu")]


def attention(query, key, value, left_out):
    """What an upstream library would do: (batch, heads, sequence, head size), True = may not be attended to."""
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=~left_out)


def attention_inputs(draw):
    batch, heads, length, head_size = max(draw.batch(), 1), draw.size(), draw.size() + 1, 8
    left_out = draw.mask(length, length, probability=0.3)
    left_out[..., 0] = False
    return [*(draw.tensor(batch, heads, length, head_size) for _ in range(3)), left_out]


def npu_attention(query, key, value, left_out, **options):
    import torch_npu

    options = {"scale": query.size(-1) ** -0.5, "atten_mask": left_out, **options}
    return torch_npu.npu_fusion_attention(query, key, value, query.size(1), "BNSD", **options)[0]


def test_the_right_replacement_passes(simulated_npu):
    with simulated_npu.record_operators() as operators, record_calls() as calls:
        assert_same_numerics(npu_attention, attention, attention_inputs, device="npu")
    operators.assert_ran("npu_fusion_attention")
    operators.assert_ran("npu_fusion_attention_grad")
    replay(calls).assert_accepted()


def test_a_wrong_operator_name_is_caught():
    import torch_npu

    def misspelt(query, key, value, left_out):
        return torch_npu.npu_fused_attention(query, key, value, query.size(1), "BNSD", atten_mask=left_out)[0]

    with pytest.raises(Mismatch, match=r"raised AttributeError.*npu_fused_attention"):
        assert_same_numerics(misspelt, attention, attention_inputs, device="npu")


def test_an_operator_that_is_not_the_expected_one_is_caught(simulated_npu):
    with simulated_npu.record_operators() as operators:
        assert_same_numerics(attention, attention, attention_inputs, device="npu")
    with pytest.raises(
        AssertionError, match="expected npu_fusion_attention to run at least once, it ran 0 times"
    ):
        operators.assert_ran("npu_fusion_attention")


def test_a_wrong_keyword_is_caught():
    def misspelt(query, key, value, left_out):
        return npu_attention(query, key, value, left_out, attn_mask=left_out)

    with record_calls() as calls, pytest.raises(Mismatch, match="Unknown keyword argument 'attn_mask'"):
        assert_same_numerics(misspelt, attention, attention_inputs, device="npu")
    with pytest.raises(AssertionError, match=r"torch_npu 2\.6\.0 refuses npu_fusion_attention.*'attn_mask'"):
        replay(calls).assert_accepted()


def test_a_keyword_that_only_some_versions_have_is_caught():
    with record_calls() as calls:
        npu_attention(
            *(t.npu() for t in (*torch.randn(3, 1, 2, 4, 8), torch.zeros(4, 4).bool())), softmax_layout=""
        )
    with pytest.raises(
        AssertionError, match=r"torch_npu 2\.6\.0 refuses npu_fusion_attention.*'softmax_layout'"
    ):
        replay(calls).assert_accepted()


def test_an_inverted_mask_is_caught():
    def inverted(query, key, value, left_out):
        return npu_attention(query, key, value, ~left_out)

    with pytest.raises(Mismatch, match=r"output: .* elements differ"):
        assert_same_numerics(inverted, attention, attention_inputs, device="npu")


def test_a_wrong_scale_default_is_caught():
    def unscaled(query, key, value, left_out):
        return npu_attention(query, key, value, left_out, scale=1.0)

    def scale_of_none(query, key, value, left_out):
        return npu_attention(query, key, value, left_out, scale=None)

    with pytest.raises(Mismatch, match=r"output: .* elements differ"):
        assert_same_numerics(unscaled, attention, attention_inputs, device="npu")
    with pytest.raises(Mismatch, match=r"the call raised RuntimeError.*scale"):
        assert_same_numerics(scale_of_none, attention, attention_inputs, device="npu")


def test_a_dropped_bias_is_caught(simulated_npu):
    mx_driving = simulated_npu.mx_driving

    def upstream(x, offset, mask, weight, bias):
        patches = functional.unfold(x, 3, padding=1).unflatten(1, (x.size(1), 9)) * mask.flatten(2).unsqueeze(
            1
        )
        result = torch.einsum("ock,nckl->nol", weight.flatten(2), patches)
        return result.view(x.size(0), -1, *x.shape[2:]) + bias.view(1, -1, 1, 1) + 0 * offset.sum()

    def inputs(draw):
        # offsets far too small to be seen, so that an unfolded convolution is the reference
        offset = draw.tensor(1, 18, 4, 5, scale=1e-9, grad=False)
        return [
            draw.tensor(1, 64, 4, 5),
            offset,
            draw.uniform(0.5, 1.5, 1, 9, 4, 5),
            draw.tensor(64, 64, 3, 3, scale=0.1),
            draw.tensor(64),
        ]

    def dropped(x, offset, mask, weight, bias):
        return mx_driving.modulated_deform_conv2d(x, offset, mask, weight, bias, 1, 1)

    def added(x, offset, mask, weight, bias):
        return mx_driving.modulated_deform_conv2d(x, offset, mask, weight, None, 1, 1) + bias.view(
            1, -1, 1, 1
        )

    options = {"device": "npu", "dtypes": [torch.float32]}
    assert_same_numerics(added, upstream, inputs, **options)
    with pytest.raises(Mismatch, match=r"output: .* elements differ"):
        assert_same_numerics(dropped, upstream, inputs, **options)


def test_a_missing_backward_is_caught():
    import torch_npu

    def inputs(draw):
        width = draw.size(multiple_of=2)
        return [
            draw.tensor(max(draw.batch(), 1), width),
            draw.tensor(max(draw.batch(), 1), width),
            draw.tensor(width),
        ]

    def upstream(x, residual, weight):
        return functional.rms_norm(x + residual, (x.size(-1),), weight, 1e-6)

    def without_backward(x, residual, weight):
        return torch_npu.npu_add_rms_norm(x, residual, weight, 1e-6)[0]

    def with_backward(x, residual, weight):
        return torch_npu.npu_rms_norm(x + residual, weight, 1e-6)[0]

    assert_same_numerics(with_backward, upstream, inputs, device="npu")
    with pytest.raises(
        Mismatch, match=r"the backward pass raised RuntimeError.*npu_add_rms_norm is not implemented"
    ):
        assert_same_numerics(without_backward, upstream, inputs, device="npu")
    assert_same_numerics(without_backward, upstream, inputs, device="npu", gradients=False)
