"""DeformConv and ModulatedDeformConv on the installed mmcv, against a formula of its own by ``grid_sample``."""

from __future__ import annotations

import importlib.util

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

from torch.nn import functional as F  # noqa: E402

import mmcv_patches  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402

NAMES = ("deform_conv", "modulated_deform_conv")
#: groups, deform_groups, kernel, stride, padding, dilation
GEOMETRIES = [
    (1, 1, (3, 3), 1, 1, 1),
    (2, 1, (3, 3), 2, 0, 1),
    (1, 2, (1, 3), (1, 2), (0, 1), 1),
    (2, 4, (3, 2), (2, 1), 2, (1, 2)),
]


@pytest.fixture(scope="module")
def patcher():
    with Patcher(backend="portable").add(*mmcv_patches.ALL, options={"force": True}) as applied:
        yield applied


@pytest.fixture
def ops(patcher):
    """``mmcv.ops``, patched."""
    import mmcv.ops

    return mmcv.ops


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def convolution_of_samples(
    image, offset, mask, weight, bias, stride, padding, dilation, groups, deform_groups
):
    """One ``grid_sample`` for each tap of each deformable group, weighted, then a 1 x 1 convolution of all taps."""
    (rows, columns), (stride, padding, dilation) = weight.shape[2:], map(pair, (stride, padding, dilation))
    height, width = offset.shape[2:]
    down = torch.arange(height, dtype=image.dtype)[:, None] * stride[0] - padding[0]
    across = torch.arange(width, dtype=image.dtype) * stride[1] - padding[1]
    samples = []
    for group, part in enumerate(image.chunk(deform_groups, 1)):
        for tap in range(rows * columns):
            place = group * rows * columns + tap
            y = down + tap // columns * dilation[0] + offset[:, 2 * place]
            x = across + tap % columns * dilation[1] + offset[:, 2 * place + 1]
            grid = torch.stack([(2 * x + 1) / image.shape[3] - 1, (2 * y + 1) / image.shape[2] - 1], -1)
            sample = F.grid_sample(part, grid, align_corners=False)
            samples.append(sample if mask is None else sample * mask[:, place, None])
    taps = torch.stack(samples).unflatten(0, (deform_groups, rows * columns))
    patches = taps.permute(2, 0, 3, 1, 4, 5).flatten(1, 3)  # batch, (channels, taps), height, width
    return F.conv2d(patches, weight.flatten(1)[..., None, None], bias, groups=groups)


def random_inputs(name, geometry, dtype=torch.float64, with_bias=True, batch=2, size=(7, 9)):
    """Tensors by argument order, and the settings."""
    groups, deform_groups, kernel, stride, padding, dilation = geometry
    image = torch.randn(batch, 4, *size, dtype=dtype)
    weight = torch.randn(6, 4 // groups, *kernel, dtype=dtype)
    out = F.conv2d(image, weight, None, stride, padding, dilation, groups).shape[2:]
    taps = deform_groups * kernel[0] * kernel[1]
    # Away from whole numbers, where the slope of a bilinear sample jumps: float32 rounds to either side of one.
    cell = (torch.randn(batch, 2 * taps, *out, dtype=dtype) * 1.5).floor()
    offset = cell + 0.05 + 0.9 * torch.rand(batch, 2 * taps, *out, dtype=dtype)
    mask = torch.rand(batch, taps, *out, dtype=dtype) if name == "modulated_deform_conv" else None
    bias = torch.randn(6, dtype=dtype) if mask is not None and with_bias else None
    tensors = [None if t is None else t.requires_grad_() for t in (image, offset, mask, weight, bias)]
    return tensors, (stride, padding, dilation, groups, deform_groups)


def patched(ops, name, tensors, settings):
    image, offset, mask, weight, bias = tensors
    if name == "deform_conv":
        return ops.deform_conv2d(image, offset, weight, *settings)
    return ops.modulated_deform_conv2d(image, offset, mask, weight, bias, *settings)


def compare(ops, name, tensors, settings, tolerance):
    output, expected = patched(ops, name, tensors, settings), convolution_of_samples(*tensors, *settings)
    inputs = [tensor for tensor in tensors if tensor is not None]
    grad_output = torch.randn_like(expected)
    found = [output, *torch.autograd.grad(output, inputs, grad_output)]
    for ours, theirs in zip(found, [expected, *torch.autograd.grad(expected, inputs, grad_output)]):
        assert ours.dtype is theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


def test_forward_and_backward_of_both_functions_are_replaced(patcher, ops):
    status = {result.name: result.status for result in patcher.report if "deform_conv." in result.name}
    assert len(status) == 4 and set(status.values()) == {PatchStatus.APPLIED}


# float32: offsets move a sample by its rounding, times the slope of the image.
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-9), (torch.float32, 3e-4)], ids=["64", "32"]
)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("name", NAMES)
def test_values_and_gradients_equal_the_formula(ops, name, geometry, dtype, tolerance):
    tensors, settings = random_inputs(name, geometry)
    tensors = [None if t is None else t.detach().to(dtype).requires_grad_() for t in tensors]
    compare(ops, name, tensors, settings, tolerance)


def test_a_convolution_without_bias_and_with_a_frozen_input_has_the_other_gradients(ops):
    for name in NAMES:
        tensors, settings = random_inputs(name, GEOMETRIES[1], with_bias=False)
        image, offset, mask, weight, _ = tensors
        output = patched(ops, name, [image.detach(), offset.detach(), mask, weight, None], settings)
        expected = convolution_of_samples(*tensors, *settings)
        ours, theirs = (torch.autograd.grad((t * t).sum(), weight)[0] for t in (output, expected))
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_a_wrong_gradient_planted_on_purpose_is_caught(ops, name, monkeypatch):
    function = {"deform_conv": ops.deform_conv, "modulated_deform_conv": ops.modulated_deform_conv}[name]
    cls = getattr(function, "ModulatedDeformConv2dFunction" if name in NAMES[1:] else "DeformConv2dFunction")
    right = cls.backward

    def wrong(ctx, grad_output):
        grad_input, grad_offset, *others = right(ctx, grad_output)
        return (grad_input, grad_offset.roll(1, dims=1), *others)  # row and column exchanged

    monkeypatch.setattr(cls, "backward", staticmethod(wrong))
    with pytest.raises(AssertionError, match="not close"):
        compare(ops, name, *random_inputs(name, GEOMETRIES[0]), 1e-9)


@pytest.mark.parametrize("kind", ["DCN", "DCNv2"])
def test_what_the_registry_builds_runs_the_replacement(ops, kind):
    if mmcv_patches.mmcv_version.is_v1x:
        from mmcv.cnn import CONV_LAYERS as registry
    else:
        from mmengine.registry import MODELS as registry

    layer = registry.build(
        {"type": kind, "in_channels": 4, "out_channels": 6, "kernel_size": 3, "padding": 1}
    )
    torch.nn.init.normal_(layer.conv_offset.weight)
    image = torch.randn(2, 4, 6, 5)
    offset, mask = layer.conv_offset(image), None
    if kind == "DCNv2":
        rows, columns, mask = offset.chunk(3, dim=1)
        offset, mask = torch.cat([rows, columns], 1), mask.sigmoid()
    expected = convolution_of_samples(
        image, offset, mask, layer.weight, getattr(layer, "bias", None), 1, 1, 1, 1, 1
    )
    torch.testing.assert_close(layer(image), expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NAMES)
def test_the_offset_decides_the_dtype_as_upstream(ops, name):
    tensors, settings = random_inputs(name, GEOMETRIES[0], torch.float32)
    image, offset, mask, weight, bias = tensors
    output = patched(ops, name, [image, offset.half(), mask, weight, bias], settings)
    assert output.dtype is torch.float16
    gradients = torch.autograd.grad(output.float().sum(), [image, offset, weight])
    assert [gradient.dtype for gradient in gradients] == [torch.float32] * 3
    expected = convolution_of_samples(*tensors, *settings)
    torch.testing.assert_close(output.float(), expected, rtol=2e-2, atol=0.1)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_batch_gives_an_empty_output(ops, name):
    tensors, settings = random_inputs(name, GEOMETRIES[0], batch=0)
    output = patched(ops, name, tensors, settings)
    assert output.shape == (0, 6, 7, 9)
    assert not torch.autograd.grad(output.sum(), tensors[3])[0].any()


@pytest.mark.parametrize("name", NAMES)
def test_bad_inputs_are_refused_as_upstream_does(ops, name):
    (image, offset, mask, weight, bias), settings = random_inputs(name, GEOMETRIES[0])
    with pytest.raises(ValueError, match="Expected 4D tensor as input, got 3D"):
        patched(ops, name, [image[0], offset, mask, weight, bias], settings)
    with pytest.raises(ValueError, match="convolution input is too small"):
        patched(ops, name, [image[..., :1], offset, mask, weight, bias], (1, 0, 1, 1, 1))


def test_deform_conv_refuses_a_bias_and_a_batch_that_im2col_step_does_not_divide(ops):
    (image, offset, _, weight, _), settings = random_inputs("deform_conv", GEOMETRIES[0], batch=3)
    with pytest.raises(AssertionError, match="no bias"):
        ops.deform_conv2d(image, offset, weight, *settings, True)
    with pytest.raises(AssertionError, match="no multiple of im2col_step 2"):
        ops.deform_conv2d(image, offset, weight, *settings, False, 2)
