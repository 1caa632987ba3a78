"""Masks with one row for all queries, through upstream's own attention, U-Net and transformer."""

from __future__ import annotations

import pytest
import torch
from diffusers.models.attention_processor import AttnProcessor2_0, FusedAttnProcessor2_0
from masked_models import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    SHAPES,
    TEXT_WIDTH,
    WIDTH,
    ExplicitlyExpanding,
    attention,
    expanded,
    mask_of,
    small_transformer,
    small_unet,
    with_random_weights,
)
from torch.overrides import TorchFunctionMode

import diffusers_patches
from patcher_core import Patcher
from patcher_testing.numerics import assert_faults_are_caught, assert_same_numerics


@pytest.fixture
def patcher():
    patcher = Patcher().add(diffusers_patches.AttnProcessor2_0)
    yield patcher
    patcher.restore()


class MasksSeen(TorchFunctionMode):
    """The masks that reach ``scaled_dot_product_attention``."""

    def __init__(self):
        super().__init__()
        self.masks = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.nn.functional.scaled_dot_product_attention:
            self.masks.append(kwargs["attn_mask"])
        return func(*args, **(kwargs or {}))


def assert_close(found, wanted):
    assert wanted.abs().max() > 1e-3
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["float", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_attention_equals_upstream_with_an_expanded_mask(patcher, shape, kind):
    attn, mask = attention(), mask_of(SHAPES[shape], kind)
    x, text = torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, TEXT_WIDTH)
    wanted = attn(x, encoder_hidden_states=text, attention_mask=expanded(mask, QUERIES))
    assert (wanted - attn(x, encoder_hidden_states=text)).abs().max() > 1e-4, "the mask masks nothing"
    patcher.apply()
    with MasksSeen() as seen:
        found = attn(x, encoder_hidden_states=text, attention_mask=mask)
    assert_close(found, wanted)
    assert [tuple(mask.shape) for mask in seen.masks] == [(BATCH, HEADS, QUERIES, KEYS)]
    assert seen.masks[0].stride(2) == 0, "the rows take memory"


@pytest.mark.parametrize("kind", ["float", "bool"])
@pytest.mark.parametrize("shape", SHAPES)
def test_self_attention_over_an_image_has_a_query_for_each_pixel(patcher, shape, kind):
    attn, mask = attention(cross=False), mask_of((*SHAPES[shape][:-1], 6), kind)
    image = torch.randn(BATCH, WIDTH, 2, 3)
    wanted = attn(image, attention_mask=expanded(mask, 6))
    patcher.apply()
    assert_close(attn(image, attention_mask=mask), wanted)


@pytest.mark.parametrize("cross", [True, False])
def test_without_a_mask_the_result_is_the_same_to_the_bit(patcher, cross):
    attn = attention(cross)
    arguments = (torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, TEXT_WIDTH) if cross else None)
    wanted = attn(*arguments)
    patcher.apply()
    assert torch.equal(attn(*arguments), wanted)


def test_a_mask_with_a_row_for_each_query_stays_as_it_is(patcher):
    attn, x = attention(cross=False), torch.randn(BATCH, QUERIES, WIDTH)
    for rows in (BATCH, BATCH * HEADS):
        mask = torch.randn(rows, QUERIES, QUERIES)
        patcher.restore()
        wanted = attn(x, attention_mask=mask)
        patcher.apply()
        assert torch.equal(attn(x, attention_mask=mask), wanted)


def test_four_dimensions_that_upstream_can_read_are_read_as_upstream_reads_them(patcher):
    attn, x = attention(cross=False), torch.randn(BATCH, HEADS, WIDTH)  # as many queries as heads
    mask = torch.randn(BATCH, HEADS, 1, HEADS)
    wanted = attn(x, attention_mask=mask)
    patcher.apply()
    assert torch.equal(attn(x, attention_mask=mask), wanted)


@pytest.mark.parametrize(
    "shape", [(1, 1, KEYS), (BATCH + 1, 1, KEYS), (BATCH, 2, KEYS), (BATCH, 1, KEYS - 1)]
)
def test_a_mask_that_does_not_fit_is_refused_as_upstream_refuses_it(patcher, shape):
    attn, mask = attention(), torch.randn(shape)
    x, text = torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, TEXT_WIDTH)
    with pytest.raises(RuntimeError):
        attn(x, encoder_hidden_states=text, attention_mask=mask)
    patcher.apply()
    with pytest.raises(RuntimeError):
        attn(x, encoder_hidden_states=text, attention_mask=mask)


def test_a_model_with_fused_projections_is_patched_as_well(patcher):
    attn, mask = attention(cross=False), torch.randn(BATCH, 1, QUERIES)
    x = torch.randn(BATCH, QUERIES, WIDTH)
    attn.fuse_projections()
    attn.set_processor(FusedAttnProcessor2_0())
    wanted = attn(x, attention_mask=expanded(mask, QUERIES))
    patcher.apply()
    with MasksSeen() as seen:
        assert_close(attn(x, attention_mask=mask), wanted)
    assert tuple(seen.masks[0].shape) == (BATCH, HEADS, QUERIES, QUERIES)


@pytest.mark.parametrize("kind", ["float", "bool"])
def test_a_unet_equals_itself_with_explicitly_expanded_masks(patcher, kind):
    model = with_random_weights(small_unet())
    arguments = (torch.randn(BATCH, 4, 8, 8), 7, torch.randn(BATCH, KEYS, TEXT_WIDTH))
    mask = mask_of((BATCH, KEYS), "bool")
    masks = {"encoder_attention_mask": mask if kind == "bool" else mask.float()}
    model.set_attn_processor(ExplicitlyExpanding())
    wanted = model(*arguments, **masks).sample
    model.set_attn_processor(AttnProcessor2_0())
    assert (wanted - model(*arguments).sample).abs().max() > 1e-4, "the mask masks nothing"
    patcher.apply()
    with MasksSeen() as seen:
        assert_close(model(*arguments, **masks).sample, wanted)
    shapes = {tuple(mask.shape) for mask in seen.masks if mask is not None}
    assert shapes and all(shape[2] > 1 for shape in shapes)


@pytest.mark.parametrize("kind", ["float", "bool"])
def test_a_transformer_equals_itself_with_explicitly_expanded_masks(patcher, kind):
    model = with_random_weights(small_transformer())
    x, text = torch.randn(BATCH, 4, 3, 3), torch.randn(BATCH, KEYS, TEXT_WIDTH)
    mask = mask_of((BATCH, KEYS), "bool")
    masks = {"encoder_attention_mask": mask if kind == "bool" else mask.float()}
    for block in model.transformer_blocks:
        block.attn1.set_processor(ExplicitlyExpanding())
        block.attn2.set_processor(ExplicitlyExpanding())
    wanted = model(x, encoder_hidden_states=text, **masks).sample
    for block in model.transformer_blocks:
        block.attn1.set_processor(AttnProcessor2_0())
        block.attn2.set_processor(AttnProcessor2_0())
    assert (wanted - model(x, encoder_hidden_states=text).sample).abs().max() > 1e-4
    patcher.apply()
    with MasksSeen() as seen:
        assert_close(model(x, encoder_hidden_states=text, **masks).sample, wanted)
    assert {tuple(mask.shape) for mask in seen.masks if mask is not None} == {(BATCH, HEADS, 9, KEYS)}


def _call(function, attn):
    """``AttnProcessor2_0.__call__`` as a function of tensors."""

    def call(x, text, mask):
        return function(AttnProcessor2_0(), attn.to(x.dtype), x, text, mask)

    return call


def _inputs(draw):
    queries, keys, batch = draw.size() + 1, draw.size() + 1, draw.batch()
    return (
        draw.tensor(batch, queries, WIDTH),
        draw.tensor(batch, keys, TEXT_WIDTH),
        draw.tensor(batch, 1, keys),
    )


def test_values_and_gradients_are_upstreams_in_every_dtype(patcher):
    attn, original = attention(), AttnProcessor2_0.__call__
    patcher.apply()
    patched = AttnProcessor2_0.__call__
    assert patched is not original
    assert_same_numerics(_call(patched, attn), _call(original, attn), _inputs)


def test_a_wrong_replacement_would_be_noticed():
    assert_faults_are_caught(_call(AttnProcessor2_0.__call__, attention()), _inputs)


def test_the_compiled_model_is_one_graph(patcher):
    patcher.apply()
    attn, mask = attention(), torch.randn(BATCH, 1, KEYS)
    arguments = (torch.randn(BATCH, QUERIES, WIDTH), torch.randn(BATCH, KEYS, TEXT_WIDTH), mask)
    compiled = torch.compile(attn, backend="eager", fullgraph=True)
    assert_close(compiled(*arguments), attn(*arguments))
