"""Both deformable convolutions equal the compiled operators, and the formula summed over every pixel."""

from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")


@dataclasses.dataclass
class Case:
    batch: int = 2
    channels: int = 4
    outputs: int = 6
    size: tuple[int, int] = (7, 9)
    kernel: tuple[int, int] = (3, 3)
    stride: tuple[int, int] = (1, 1)
    padding: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    groups: int = 1
    deformable_groups: int = 1
    dtype: torch.dtype = torch.float64
    #: Standard deviation of the offsets, in pixels; None draws whole pixels.
    spread: float | None = 2.0

    def output_size(self) -> tuple[int, int]:
        zipped = zip(self.size, self.kernel, self.stride, self.padding, self.dilation)
        return tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zipped)

    def inputs(self) -> dict[str, torch.Tensor]:
        taps = self.kernel[0] * self.kernel[1] * self.deformable_groups
        offset = torch.randn(self.batch, taps * 2, *self.output_size(), dtype=self.dtype)
        return {
            "x": torch.randn(self.batch, self.channels, *self.size, dtype=self.dtype),
            "weight": torch.randn(self.outputs, self.channels // self.groups, *self.kernel, dtype=self.dtype),
            "offset": (offset * 2).round() if self.spread is None else offset * self.spread,
            "mask": torch.rand(self.batch, taps, *self.output_size(), dtype=self.dtype),
            "bias": torch.randn(self.outputs, dtype=self.dtype),
        }

    def first_version(self) -> dict[str, int]:
        (kh, kw), (sh, sw), (ph, pw), (dh, dw) = self.kernel, self.stride, self.padding, self.dilation
        sizes = {
            "kW": kw,
            "kH": kh,
            "dW": sw,
            "dH": sh,
            "padW": pw,
            "padH": ph,
            "dilationW": dw,
            "dilationH": dh,
        }
        return {**sizes, "group": self.groups, "deformable_group": self.deformable_groups}

    def second_version(self) -> dict[str, int]:
        names = ("kernel", "stride", "pad", "dilation")
        pairs = zip(names, (self.kernel, self.stride, self.padding, self.dilation))
        sizes = {f"{name}_{axis}": value for name, pair in pairs for axis, value in zip("hw", pair)}
        return {**sizes, "group": self.groups, "deformable_group": self.deformable_groups}


CASES = {
    "plain": Case(),
    "single precision": Case(dtype=torch.float32),
    "stride": Case(stride=(2, 3)),
    "padding": Case(padding=(0, 2)),
    "dilation": Case(dilation=(2, 1), padding=(2, 1)),
    "odd kernel": Case(kernel=(1, 4), padding=(0, 1)),
    "groups": Case(groups=2),
    "deformable groups": Case(deformable_groups=2),
    "more groups than deformable groups": Case(channels=8, groups=4, outputs=8, deformable_groups=2),
    "fewer groups than deformable groups": Case(channels=8, groups=2, outputs=2, deformable_groups=4),
    "groups across deformable groups": Case(channels=6, groups=2, deformable_groups=3),
    "one image": Case(batch=1, size=(3, 3), padding=(0, 0)),
    "whole pixel offsets": Case(spread=None),
    "no offset": Case(spread=0.0),
    "far outside": Case(spread=50.0),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


def run_first_version(module, case: Case, x, weight, offset, grad, scale: float = 1.0, **_):
    """Output and the gradients for x, offset, weight; buffers that are added to start from one."""
    scratch = torch.empty(0, dtype=x.dtype)
    output = torch.full((len(x), len(weight), *case.output_size()), 7, dtype=x.dtype)
    rest = {**case.first_version(), "im2col_step": len(x)}
    module.deform_conv_forward(x, weight, offset, output, scratch, scratch.clone(), **rest)
    grad_x, grad_offset, grad_weight = torch.ones_like(x), torch.ones_like(offset), torch.ones_like(weight)
    module.deform_conv_backward_input(x, offset, grad, grad_x, grad_offset, weight, scratch, **rest)
    module.deform_conv_backward_parameters(
        x, offset, grad, grad_weight, scratch, scratch.clone(), scale=scale, **rest
    )
    return output, grad_x, grad_offset, grad_weight


def run_second_version(module, case: Case, x, weight, offset, mask, bias, grad, with_bias: bool = True):
    """Output and the gradients for x, weight, bias, offset, mask; buffers start from one."""
    scratch = torch.empty(0, dtype=x.dtype)
    output = torch.full((len(x), len(weight), *case.output_size()), 7, dtype=x.dtype)
    rest = {**case.second_version(), "with_bias": with_bias}
    module.modulated_deform_conv_forward(
        x, weight, bias, scratch, offset, mask, output, scratch.clone(), **rest
    )
    grads = [torch.ones_like(tensor) for tensor in (x, weight, bias, offset, mask)]
    ones = torch.ones(case.output_size(), dtype=x.dtype)
    module.modulated_deform_conv_backward(
        x, weight, bias, ones, offset, mask, scratch.clone(), *grads, grad, **rest
    )
    return (output, *grads)


def by_definition(case: Case, x, weight, offset, mask, bias) -> torch.Tensor:
    """Every sample as a sum over every pixel, weighted with the hat function around the sampled point."""
    (height, width), (rows, columns), (kernel_h, kernel_w) = case.size, case.output_size(), case.kernel
    shape = (case.deformable_groups, kernel_h, kernel_w)
    offset = offset.unflatten(1, (*shape, 2))
    step = [
        torch.arange(count, dtype=x.dtype) * stride for count, stride in zip((rows, columns), case.stride)
    ]
    tap = [
        torch.arange(count, dtype=x.dtype) * dilation for count, dilation in zip(case.kernel, case.dilation)
    ]
    y = step[0][:, None] - case.padding[0] + tap[0][:, None, None, None] + offset[:, :, :, :, 0]
    x_ = step[1] - case.padding[1] + tap[1][:, None, None] + offset[:, :, :, :, 1]
    hat_y = (1 - (y[..., None] - torch.arange(height)).abs()).clamp(min=0)
    hat_x = (1 - (x_[..., None] - torch.arange(width)).abs()).clamp(min=0)
    maps = x.unflatten(1, (case.deformable_groups, -1))
    samples = torch.einsum("ngijpqy,ngijpqx,ngcyx->ngcijpq", hat_y, hat_x, maps)
    samples = samples * mask.unflatten(1, shape)[:, :, None]
    samples = samples.flatten(1, 2).unflatten(1, (case.groups, -1))
    out = torch.einsum("ngcijpq,gocij->ngopq", samples, weight.unflatten(0, (case.groups, -1)))
    return out.flatten(1, 2) + bias[:, None, None]


def assert_all_close(actual, expected, case: Case) -> None:
    tolerance = 1e-10 if case.dtype == torch.float64 else 2e-5
    for ours, theirs in zip(actual, expected):
        torch.testing.assert_close(ours, theirs, atol=tolerance * 10, rtol=tolerance)


def test_the_first_version_equals_the_compiled_one(extension, compiled, case: Case) -> None:
    inputs = case.inputs()
    grad = torch.randn(case.batch, case.outputs, *case.output_size(), dtype=case.dtype)
    for scale in (1.0, 0.25):
        theirs = run_first_version(compiled, case, **inputs, grad=grad, scale=scale)
        assert_all_close(run_first_version(extension, case, **inputs, grad=grad, scale=scale), theirs, case)


@pytest.mark.parametrize("with_bias", [True, False])
def test_the_second_version_equals_the_compiled_one(extension, compiled, case: Case, with_bias) -> None:
    inputs = case.inputs()
    grad = torch.randn(case.batch, case.outputs, *case.output_size(), dtype=case.dtype)
    theirs = run_second_version(compiled, case, **inputs, grad=grad, with_bias=with_bias)
    assert_all_close(
        run_second_version(extension, case, **inputs, grad=grad, with_bias=with_bias), theirs, case
    )


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].spread])
def test_values_and_gradients_follow_the_formula(extension, name: str) -> None:
    case = CASES[name]
    inputs = {key: value.requires_grad_() for key, value in case.inputs().items()}
    output = by_definition(case, **inputs)
    grad = torch.randn_like(output)
    order = ("x", "weight", "bias", "offset", "mask")
    grads = torch.autograd.grad(output, [inputs[key] for key in order], grad)
    added = [grad + 1 for grad in grads[:3]]
    ours = run_second_version(extension, case, **inputs, grad=grad)
    assert_all_close(ours, [output.detach(), *added, *grads[3:]], case)


def test_without_offset_and_mask_it_is_the_ordinary_convolution(extension) -> None:
    case = Case(groups=2, deformable_groups=2, stride=(2, 1), dilation=(1, 2), padding=(2, 1))
    inputs = case.inputs()
    inputs["offset"].zero_()
    expected = torch.nn.functional.conv2d(
        inputs["x"], inputs["weight"], None, case.stride, case.padding, case.dilation, case.groups
    )
    ours = run_first_version(extension, case, **inputs, grad=torch.randn_like(expected))
    torch.testing.assert_close(ours[0], expected)


def test_many_pixels_are_worked_off_in_chunks(extension, monkeypatch) -> None:
    case = CASES["deformable groups"]
    inputs = case.inputs()
    grad = torch.randn(case.batch, case.outputs, *case.output_size(), dtype=case.dtype)
    expected = run_second_version(extension, case, **inputs, grad=grad)
    monkeypatch.setattr("mmcv_patches.extension.deformable_columns.COLUMN_ELEMENTS", 300)
    assert_all_close(run_second_version(extension, case, **inputs, grad=grad), expected, case)


def test_channels_last_inputs_and_buffers_are_fine(extension) -> None:
    case = CASES["deformable groups"]
    inputs = case.inputs()
    grad = torch.randn(case.batch, case.outputs, *case.output_size(), dtype=case.dtype)
    expected = run_second_version(extension, case, **inputs, grad=grad)
    strided = {
        key: value.to(memory_format=torch.channels_last) if value.dim() == 4 else value
        for key, value in inputs.items()
    }
    actual = run_second_version(extension, case, **strided, grad=grad.to(memory_format=torch.channels_last))
    assert_all_close(actual, expected, case)


def test_half_precision_is_computed_in_single_precision(extension) -> None:
    case = Case(dtype=torch.float32, spread=1.0)
    inputs = {key: value.half() for key, value in case.inputs().items()}
    grad = torch.randn(case.batch, case.outputs, *case.output_size()).half()
    ours = run_second_version(extension, case, **inputs, grad=grad, with_bias=False)
    single = {key: value.float() for key, value in inputs.items()}
    expected = run_second_version(extension, case, **single, grad=grad.float(), with_bias=False)
    assert {tensor.dtype for tensor in ours} == {torch.float16}
    torch.testing.assert_close(ours[0], expected[0].half())
    torch.testing.assert_close(ours[4], expected[4].half())


def test_an_empty_batch_gives_empty_results(extension) -> None:
    case = Case(batch=0)
    grad = torch.randn(0, case.outputs, *case.output_size(), dtype=case.dtype)
    output, grad_x, _, grad_weight = run_first_version(extension, case, **case.inputs(), grad=grad)
    assert output.shape == grad.shape
    assert len(grad_x) == 0
    assert torch.equal(grad_weight, torch.ones_like(grad_weight))


@pytest.mark.parametrize("wrong", ["offset", "weight"])
def test_shapes_that_do_not_fit_are_named(extension, wrong: str) -> None:
    case = Case()
    inputs = case.inputs()
    inputs[wrong] = inputs[wrong][:, :-1]
    grad = torch.randn(case.batch, case.outputs, *case.output_size(), dtype=case.dtype)
    with pytest.raises(RuntimeError, match=rf"needs {wrong} of shape .*found"):
        run_first_version(extension, case, **inputs, grad=grad)
