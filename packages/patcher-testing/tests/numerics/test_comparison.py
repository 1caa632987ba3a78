"""The comparison finds every kind of difference, and refuses to compare what cannot differ."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="numerics are torch's")

from torch.nn import functional  # noqa: E402

from patcher_testing.numerics import (  # noqa: E402
    CASES,
    Mismatch,
    Tolerance,
    VacuousComparison,
    assert_faults_are_caught,
    assert_same_numerics,
)


def linear_inputs(draw):
    batch, width, out = draw.batch(), draw.size(multiple_of=2), draw.size()
    return draw.tensor(batch, 5, width), draw.tensor(out, width), draw.tensor(out)


def linear_by_hand(x, weight, bias):
    return x @ weight.t() + bias


def test_an_equal_function_passes_in_every_case():
    comparison = assert_same_numerics(linear_by_hand, functional.linear, linear_inputs)
    assert len(comparison.compared) == 3 * len(CASES)
    assert "an empty batch, bfloat16" in comparison.compared


def test_two_runs_draw_different_inputs_and_a_seed_repeats_them(monkeypatch):
    seen = []

    def inputs(draw):
        args = linear_inputs(draw)
        seen.append(args[2].detach().clone())
        return args

    first = assert_same_numerics(
        linear_by_hand, functional.linear, inputs, dtypes=[torch.float32], cases=CASES[:1]
    )
    assert_same_numerics(linear_by_hand, functional.linear, inputs, dtypes=[torch.float32], cases=CASES[:1])
    monkeypatch.setenv("PATCHER_TESTING_SEED", str(first.seed))
    assert_same_numerics(linear_by_hand, functional.linear, inputs, dtypes=[torch.float32], cases=CASES[:1])
    assert not torch.equal(seen[0], seen[1])
    assert torch.equal(seen[0], seen[2])


def scaled(x, weight, bias):
    return functional.linear(x, weight, bias) * 1.02


def without_bias(x, weight, bias):
    return functional.linear(x, weight)


def in_float32(x, weight, bias):
    return functional.linear(x.float(), weight.float(), bias.float())


def another_shape(x, weight, bias):
    return functional.linear(x, weight, bias).flatten(0, 1)


def detached(x, weight, bias):
    return functional.linear(x, weight, bias).detach()


def detached_bias(x, weight, bias):
    return functional.linear(x, weight, bias.detach())


def scaled_gradient(x, weight, bias):
    return functional.linear(x * 2 - x.detach(), weight, bias)


def writes_its_input(x, weight, bias):
    result = functional.linear(x, weight, bias)
    x.data.add_(1)
    return result


def needs_contiguous(x, weight, bias):
    return (
        functional.linear(x.view(-1), weight.view(-1), bias)
        if not x.is_contiguous()
        else linear_by_hand(x, weight, bias)
    )


def fails_on_an_empty_batch(x, weight, bias):
    if len(x) == 0:
        raise ValueError("empty")
    return functional.linear(x, weight, bias)


def wrong_for_odd_sizes(x, weight, bias):
    result = functional.linear(x, weight, bias)
    return result if result.size(-1) % 2 == 0 else result + 1


def a_tuple(x, weight, bias):
    return (functional.linear(x, weight, bias),)


@pytest.mark.parametrize(
    "wrong, message",
    [
        (scaled, r"output: \d+ of \d+ elements differ.*tolerance: .* absolute \(2\*\*-23"),
        (without_bias, "elements differ"),
        (in_float32, r"dtype is torch.float32, the original's is torch.bfloat16"),
        (another_shape, r"shape is torch.Size"),
        (detached, "requires_grad is False, the original's is True"),
        (detached_bias, r"gradient of differentiable input 2 is None"),
        (scaled_gradient, r"gradient of differentiable input 0: \d+ of"),
        (writes_its_input, r"argument written in place: 0"),
        (needs_contiguous, "the call raised RuntimeError.*case: not contiguous"),
        (fails_on_an_empty_batch, "the call raised ValueError: empty.*case: an empty batch"),
        (wrong_for_odd_sizes, "case: odd sizes"),
        (a_tuple, "output is structured as"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_every_kind_of_difference_is_found_and_described(wrong, message):
    with pytest.raises(Mismatch, match=f"(?s){message}") as failure:
        assert_same_numerics(wrong, functional.linear, linear_inputs)
    assert "PATCHER_TESTING_SEED=" in str(failure.value)


def test_a_backward_pass_that_fails_is_found():
    class NoBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

    with pytest.raises(Mismatch, match="the backward pass raised NotImplementedError"):
        assert_same_numerics(NoBackward.apply, lambda x: x * 2, lambda draw: [draw.tensor(draw.batch(), 3)])


def test_errors_of_one_type_are_equal_and_of_another_are_not():
    def original(x):
        if x.size(0) == 1:
            raise ValueError("one is too few")
        return x * 2

    def other_error(x):
        if x.size(0) == 1:
            raise KeyError("one")
        return x * 2

    def inputs(draw):
        return [draw.tensor(draw.batch(), 3)]

    assert "a batch of one, float32" in assert_same_numerics(original, original, inputs).both_raised
    with pytest.raises(Mismatch, match="the call raised KeyError: 'one', the original ValueError"):
        assert_same_numerics(other_error, original, inputs)
    with pytest.raises(Mismatch, match="the call did not raise, the original raised ValueError"):
        assert_same_numerics(lambda x: x * 2, original, inputs)


def test_nan_and_infinity_equal_themselves_and_nothing_else():
    def original(x):
        return torch.where(x > 0, x.log(), -torch.inf) * torch.tensor([1.0, torch.nan, 1.0], dtype=x.dtype)

    def inputs(draw):
        return [draw.tensor(draw.batch(), 3)]

    assert_same_numerics(original, original, inputs, gradients=False)
    with pytest.raises(Mismatch, match="elements differ"):
        assert_same_numerics(lambda x: original(x).nan_to_num(), original, inputs, gradients=False)


def test_zero_inputs_outputs_and_gradients_are_refused():
    def inputs(draw):
        return [draw.tensor(draw.batch(), 3)]

    with pytest.raises(VacuousComparison, match=r"an input of shape .* is all zero"):
        assert_same_numerics(torch.neg, torch.neg, lambda draw: [torch.zeros(3)])
    with pytest.raises(VacuousComparison, match="every output of the original is zero"):
        assert_same_numerics(lambda x: x * 0, lambda x: x * 0, inputs)
    with pytest.raises(VacuousComparison, match="every gradient of the original is zero"):
        assert_same_numerics(lambda x: x * 0 + 1, lambda x: x * 0 + 1, inputs)


def test_a_function_that_always_raises_compares_nothing():
    def fails(x):
        raise ValueError

    with pytest.raises(VacuousComparison, match="no case with values could be compared"):
        assert_same_numerics(fails, fails, lambda draw: [draw.tensor(3)])


def test_a_dtype_without_a_cpu_kernel_upstream_is_noted():
    def inputs(draw):
        square = draw.tensor(3, 3)
        return [square @ square.t()]

    comparison = assert_same_numerics(torch.linalg.det, torch.linalg.det, inputs, cases=CASES[:1])
    assert comparison.compared == ["plain, float32"]
    assert comparison.not_runnable == ["plain, bfloat16", "plain, float16"]


def test_planted_faults_show_that_a_comparison_can_fail():
    assert_faults_are_caught(functional.linear, linear_inputs, cases=CASES[:1])
    blunt = {torch.float32: Tolerance(0.5, 0.0, "so wide that a wrong scale passes")}
    with pytest.raises(AssertionError, match=r"results scaled by 1\.1; .* passed unnoticed"):
        assert_faults_are_caught(
            functional.linear, linear_inputs, cases=CASES[:1], dtypes=[torch.float32], tolerances=blunt
        )
