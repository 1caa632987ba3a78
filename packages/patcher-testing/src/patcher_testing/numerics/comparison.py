"""Runs the original and the replacement on equal inputs and compares all that a caller can see."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Sequence

import torch
from torch.utils._pytree import tree_flatten, tree_map

from ..seeds import fresh_seed, how_to_repeat
from .cases import CASES, Case, Draw
from .tolerances import TOLERANCES, Tolerance, Tolerances, is_above_noise, is_close

#: What makes inputs: positional arguments, or a pair of positional and keyword arguments.
Inputs = Callable[[Draw], Any]


class Mismatch(AssertionError):
    """The replacement differs from the original."""


class VacuousComparison(AssertionError):
    """The comparison could not have failed, so it proves nothing."""


@dataclass
class Comparison:
    """What was compared; returned for a test that wants to know."""

    seed: int
    #: names of cases with equal results
    compared: list[str] = field(default_factory=list)
    #: names of cases in which both raised
    both_raised: list[str] = field(default_factory=list)
    #: names of cases whose dtype upstream has no CPU kernel for
    not_runnable: list[str] = field(default_factory=list)


@dataclass
class _Outcome:
    """Everything that a caller sees of one call."""

    result: Any = None
    error: Exception | None = None
    leaves: list[torch.Tensor] = field(default_factory=list)
    arguments: list[Any] = field(default_factory=list)
    gradient_error: Exception | None = None


def assert_same_numerics(
    replacement: Callable[..., Any],
    original: Callable[..., Any],
    inputs: Inputs,
    *,
    dtypes: Sequence[torch.dtype] = (torch.float32, torch.bfloat16, torch.float16),
    cases: Sequence[Case] = CASES,
    device: str = "cpu",
    tolerances: Tolerances | None = None,
    gradients: bool = True,
) -> Comparison:
    """Fail unless `replacement` does what `original` does, in every dtype and every case.

    Compared are values, shapes and dtypes of all outputs, whether they can be differentiated, the gradients of every
    differentiable input, inputs written in place, and the type of the error where one is raised.

    Args:
        inputs: called with a `Draw` for each case; returns the positional arguments, or a pair of those and a dict of
            keyword arguments.
        device: where the replacement runs; the original runs on the CPU.
        tolerances: for dtypes that need others than `TOLERANCES`; each carries its reason.
        gradients: False for functions that nobody differentiates.

    Raises:
        Mismatch: they differ; the text names the case, the place, the difference and the seed.
        VacuousComparison: inputs, outputs or gradients are all zero, or no case could be compared.
    """
    allowed = {**TOLERANCES, **(tolerances or {})}
    comparison = Comparison(fresh_seed())
    for number, (dtype, case) in enumerate((dtype, case) for dtype in dtypes for case in cases):
        name = f"{case.name}, {str(dtype).partition('.')[2]}"
        seed = comparison.seed + number
        args, kwargs = _arguments(inputs(Draw(case, dtype, seed)))
        try:
            _refuse_zero_inputs(args, kwargs)
            expected = _run(original, args, kwargs, "cpu", gradients, seed)
            if _has_no_kernel(expected.error):
                comparison.not_runnable.append(name)
                continue
            found = _run(replacement, args, kwargs, device, gradients, seed)
            _compare(found, expected, allowed, gradients)
            if case.batch and expected.error is None:
                _refuse_zero_results("output", list(_tensors(expected.result)), allowed)
                grads = [leaf.grad for leaf in expected.leaves if leaf.grad is not None]
                _refuse_zero_results("gradient", grads, allowed)
        except (Mismatch, VacuousComparison) as problem:
            text = f"{problem}\n  case: {name}\n  {how_to_repeat(comparison.seed)}"
            raise type(problem)(text) from problem.__cause__
        (comparison.both_raised if expected.error else comparison.compared).append(name)
    if not any(_case_has_values(name) for name in comparison.compared):
        raise VacuousComparison(
            f"no case with values could be compared: in {comparison.both_raised} both raised, "
            f"{comparison.not_runnable} have no CPU kernel upstream"
        )
    return comparison


def _case_has_values(name: str) -> bool:
    return not name.startswith("an empty batch")


def _arguments(made: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], dict):
        return tuple(made[0]), made[1]
    return tuple(made), {}


def _tensors(*values: Any) -> Iterator[torch.Tensor]:
    return (leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, torch.Tensor))


def _refuse_zero_inputs(args: Any, kwargs: Any) -> None:
    for tensor in _tensors(args, kwargs):
        if tensor.is_floating_point() and tensor.numel() and not bool(tensor.detach().any()):
            raise VacuousComparison(f"an input of shape {tuple(tensor.shape)} is all zero; draw it at random")


def _has_no_kernel(error: Exception | None) -> bool:
    return error is not None and "not implemented for '" in str(error)


def _copied(tensor: torch.Tensor, device: str) -> torch.Tensor:
    """A leaf of the same layout in memory of its own."""
    storage = (
        tensor.untyped_storage() if hasattr(tensor, "untyped_storage") else tensor.storage()
    )  # torch < 2
    size = storage.nbytes() // tensor.element_size()
    everything = tensor.detach().as_strided((size,), (1,), 0).clone().to(device)
    copy = everything.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset())
    return copy.requires_grad_(tensor.requires_grad)


def _run(
    function: Callable[..., Any], args: Any, kwargs: Any, device: str, gradients: bool, seed: int
) -> _Outcome:
    outcome = _Outcome()
    args, kwargs = tree_map(
        lambda value: _copied(value, device) if isinstance(value, torch.Tensor) else value, (args, kwargs)
    )
    outcome.leaves = [tensor for tensor in _tensors(args, kwargs) if tensor.requires_grad]
    # a leaf may not be written in place, which functions under test may do
    args, kwargs = tree_map(_non_leaf, (args, kwargs))
    outcome.arguments = list(_tensors(args, kwargs))
    torch.manual_seed(seed)
    try:
        outcome.result = function(*args, **kwargs)
    except Exception as error:
        outcome.error = error
        return outcome
    if gradients:
        try:
            _differentiate(outcome.result, seed)
        except Exception as error:
            outcome.gradient_error = error
    return outcome


def _non_leaf(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.view_as(value)
    return value


def _differentiate(result: Any, seed: int) -> None:
    outputs = [tensor for tensor in _tensors(result) if tensor.requires_grad]
    if not outputs:
        return
    generator = torch.Generator().manual_seed(seed)
    upstream = [torch.randn(tensor.shape, generator=generator).to(tensor) for tensor in outputs]
    torch.autograd.backward(outputs, upstream)


def _compare(found: _Outcome, expected: _Outcome, tolerances: Tolerances, gradients: bool) -> None:
    _compare_errors("the call", found.error, expected.error)
    if expected.error:
        return
    _compare_trees("output", found.result, expected.result, tolerances)
    _compare_trees("argument written in place:", found.arguments, expected.arguments, tolerances)
    if not gradients:
        return
    _compare_errors("the backward pass", found.gradient_error, expected.gradient_error)
    grads = [tensor.grad for tensor in expected.leaves]
    _compare_trees(
        "gradient of differentiable input", [tensor.grad for tensor in found.leaves], grads, tolerances
    )


def _compare_errors(place: str, found: Exception | None, expected: Exception | None) -> None:
    if expected is None and found is not None:
        raise Mismatch(f"{place} raised {_named(found)}, the original did not raise") from found
    if expected is not None and found is None:
        raise Mismatch(f"{place} did not raise, the original raised {_named(expected)}") from expected
    if expected is not None and found is not None and not isinstance(found, type(expected)):
        raise Mismatch(f"{place} raised {_named(found)}, the original {_named(expected)}") from found


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _refuse_zero_results(kind: str, tensors: Sequence[torch.Tensor], tolerances: Tolerances) -> None:
    floating = [tensor for tensor in tensors if tensor.is_floating_point() and tensor.numel()]
    if floating and not any(is_above_noise(tensor, tolerances) for tensor in floating):
        raise VacuousComparison(f"every {kind} of the original is zero, so a wrong replacement could pass")


def _compare_trees(place: str, found: Any, expected: Any, tolerances: Tolerances) -> None:
    found_leaves, found_structure = tree_flatten(found)
    expected_leaves, expected_structure = tree_flatten(expected)
    if found_structure != expected_structure:
        raise Mismatch(f"{place} is structured as {found_structure}, the original's as {expected_structure}")
    for number, (found_part, expected_part) in enumerate(zip(found_leaves, expected_leaves)):
        where = f"{place} {number}" if len(expected_leaves) > 1 else place
        if isinstance(expected_part, torch.Tensor) and isinstance(found_part, torch.Tensor):
            _compare_tensors(where, found_part, expected_part, tolerances)
        elif (
            isinstance(found_part, torch.Tensor)
            or isinstance(expected_part, torch.Tensor)
            or found_part != expected_part
        ):
            raise Mismatch(f"{where} is {_brief(found_part)}, the original's is {_brief(expected_part)}")


def _brief(value: Any) -> str:
    return f"a tensor of shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)


def _compare_tensors(where: str, found: torch.Tensor, expected: torch.Tensor, tolerances: Tolerances) -> None:
    for fact in ("shape", "dtype", "requires_grad"):
        found_part, expected_part = getattr(found, fact), getattr(expected, fact)
        if found_part != expected_part:
            raise Mismatch(f"{where}: {fact} is {found_part}, the original's is {expected_part}")
    tolerance = tolerances.get(expected.dtype, Tolerance(0.0, 0.0, "not a floating dtype: equal"))
    found, expected = found.detach().cpu(), expected.detach()
    close = is_close(found, expected, tolerance)
    if bool(close.all()):
        return
    worst = torch.nonzero(~close)[0].tolist()
    raise Mismatch(
        f"{where}: {int((~close).sum())} of {close.numel()} elements differ, the first at {worst}: "
        f"{found[tuple(worst)].item()!r}, the original's is {expected[tuple(worst)].item()!r}\n"
        f"  tolerance: {tolerance.relative:g} relative, {tolerance.noise:g} absolute ({tolerance.reason})"
    )
