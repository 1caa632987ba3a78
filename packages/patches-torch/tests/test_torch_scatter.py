"""The portable torch_scatter against the compiled one: values, positions, dtypes and gradients."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder

import pytest

torch = pytest.importorskip("torch", reason="torch_scatter is made of torch")

from torch_patches import TorchScatter, portable_torch_scatter  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("random_seed"),
    pytest.mark.filterwarnings("ignore:.*torch.jit.*deprecated"),
    pytest.mark.filterwarnings("ignore:scatter_reduce.. is in beta:UserWarning"),
]


class Supplied:
    """torch_scatter as the patch supplies it where it is not installed."""

    def __getattr__(self, name):
        for patch in TorchScatter.patches():
            if patch.name != "torch_scatter" and hasattr(made := patch.factory(), name):
                return getattr(made, name)
        return getattr(portable_torch_scatter, name)


ours = Supplied()


@pytest.fixture(scope="module")
def theirs():
    """torch_scatter with its compiled kernels, kept off sys.path so that no other test finds it."""
    folder = os.environ.get("PATCHER_REFERENCE_TORCH_SCATTER")
    sys.path[:0] = [folder] if folder else []
    try:
        return pytest.importorskip("torch_scatter", reason="no compiled reference here")
    finally:
        if folder:
            sys.path.remove(folder)


FLOATS = [torch.float32, torch.float64]
DTYPES = [*FLOATS, torch.float16, torch.bfloat16, torch.int32, torch.int64]

#: shape of src, shape of the index, dim
SCATTERED = [
    ((17,), (17,), -1),
    ((17, 3), (17,), 0),
    ((3, 17), (17,), 1),
    ((3, 17, 2), (17,), -2),
    ((3, 17, 2), (3, 17), 1),
    ((3, 17, 2), (1, 17, 1), 1),
    ((3, 17, 2), (3, 17, 2), -2),
]
REDUCTIONS = ["sum", "add", "mul", "mean", "min", "max"]


def numbers(shape, dtype):
    """Random numbers, all different along the last dimensions and none of them zero, exact in every dtype."""
    count = int(torch.tensor(shape).prod())
    chosen = torch.randperm(4 * count)[:count] - 2 * count
    chosen = torch.where(chosen >= 0, chosen + 1, chosen).view(shape)
    return chosen.to(dtype) if not dtype.is_floating_point else (chosen / (2.0 * count)).to(dtype)


def same(found, expected, dtype):
    tolerance = {torch.float16: 5e-3, torch.bfloat16: 5e-2, torch.float32: 1e-5}.get(dtype, 1e-10)
    found = found if isinstance(found, tuple) else (found,)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert len(found) == len(expected)
    for one, wanted in zip(found, expected):
        torch.testing.assert_close(one, wanted, rtol=tolerance, atol=tolerance)


def gradient(function, src, *arguments, **named):
    src = src.clone().requires_grad_()
    result = function(src, *arguments, **named)
    result = result[0] if isinstance(result, tuple) else result
    weights = torch.linspace(0.5, 2, result.numel(), dtype=result.dtype).view(result.shape)
    return torch.autograd.grad((result * weights).sum(), src)[0]


def both(theirs, name, src, *arguments, with_gradient=True, **named):
    """Compare results, and gradients unless upstream has none to compare with; ``out`` is copied for each side."""

    def arguments_of_one_side():
        return {key: value.clone() if key == "out" else value for key, value in named.items()}

    expected = getattr(theirs, name)(src.clone(), *arguments, **arguments_of_one_side())
    found = getattr(ours, name)(src.clone(), *arguments, **arguments_of_one_side())
    same(found, expected, src.dtype)
    if with_gradient and src.dtype in FLOATS:
        expected = gradient(getattr(theirs, name), src, *arguments, **arguments_of_one_side())
        found = gradient(getattr(ours, name), src, *arguments, **arguments_of_one_side())
        assert expected.abs().max() > 0
        same(found, expected, src.dtype)


@pytest.mark.parametrize("shape, index_shape, dim", SCATTERED)
@pytest.mark.parametrize(
    "dtype, reduction",
    # products of many integers overflow, those of many halves vanish
    [(dtype, one) for dtype in DTYPES for one in REDUCTIONS if one != "mul" or dtype in FLOATS],
)
def test_scatter(theirs, shape, index_shape, dim, dtype, reduction):
    src, index = numbers(shape, dtype), torch.randint(0, 6, index_shape)
    both(theirs, f"scatter_{reduction}", src, index, dim)
    both(theirs, f"scatter_{reduction}", src, index, dim, dim_size=9)
    both(theirs, "scatter", src, index, dim=dim, reduce=reduction)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_into_out(theirs, reduction):
    src, index = numbers((5, 17), torch.float64), torch.randint(0, 6, (17,))
    out = numbers((5, 8), torch.float64)
    both(theirs, f"scatter_{reduction}", src, index, 1, out=out)
    given = out.clone()
    result = getattr(ours, f"scatter_{reduction}")(src, index, 1, given)
    assert (result[0] if isinstance(result, tuple) else result) is given


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_scatter_of_nothing(theirs, reduction):
    src, index = torch.zeros(0, 3), torch.zeros(0, dtype=torch.long)
    for named in ({}, {"dim_size": 4}):
        expected = getattr(theirs, f"scatter_{reduction}")(src, index, 0, **named)
        same(getattr(ours, f"scatter_{reduction}")(src, index, 0, **named), expected, src.dtype)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("out", [None, torch.ones(4, 3)], ids=["", "out"])
def test_nothing_has_a_gradient_as_well(theirs, reduction, out):
    src = torch.zeros(0, 3, requires_grad=True)

    def result(side):
        into = None if out is None else out.clone()
        found = getattr(side, f"scatter_{reduction}")(src, torch.zeros(0).long(), 0, into, 4)
        return found[0] if isinstance(found, tuple) else found

    assert result(ours).requires_grad == result(theirs).requires_grad
    if result(theirs).requires_grad:
        result(ours).sum().backward()
        assert src.grad.shape == src.shape


@pytest.mark.parametrize("name", ["scatter_min", "scatter_max"])
def test_of_equal_elements_the_first_is_taken_and_receives_the_gradient(theirs, name):
    src = torch.randint(0, 3, (40,)).double()
    index = torch.randint(0, 5, (40,))
    both(theirs, name, src + 1, index)


@pytest.mark.parametrize("name", ["scatter_min", "scatter_max"])
def test_infinity_and_nan_are_treated_as_upstream_treats_them(theirs, name):
    src = torch.tensor([float("nan"), 1.0, float("inf"), -float("inf"), 2.0, float("nan"), float("inf")])
    index = torch.tensor([0, 0, 1, 2, 2, 3, 4])
    same(getattr(ours, name)(src, index), getattr(theirs, name)(src, index), src.dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["scatter_min", "scatter_max"])
def test_what_is_no_better_than_out_is_not_taken(theirs, name, dtype):
    limits = (torch.finfo if dtype.is_floating_point else torch.iinfo)(dtype)
    extremes = [limits.min, limits.max]
    if dtype.is_floating_point:
        extremes += [-float("inf"), float("inf")]
    for content in extremes:
        for start in extremes:
            src, index = torch.full((3,), content, dtype=dtype), torch.tensor([0, 0, 2])
            out = torch.full((3,), start, dtype=dtype)
            expected = getattr(theirs, name)(src, index, 0, out.clone())
            same(getattr(ours, name)(src, index, 0, out.clone()), expected, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ["segment_min_csr", "segment_max_csr"])
def test_a_segment_in_which_nothing_is_better_than_the_limit_has_the_limit(theirs, name, dtype):
    indptr = torch.tensor([0, 2, 2, 5, 6])
    if dtype.is_floating_point:
        limits = torch.finfo(dtype)
        contents = [float("inf"), -float("inf"), float("nan"), limits.min, limits.max]
    else:
        contents = [torch.iinfo(dtype).max, torch.iinfo(dtype).min]
    for content in contents:
        src = torch.full((6, 2), content, dtype=dtype)
        src[3] = 1
        # Only the values: upstream's position is that of the group before, or what was in the memory.
        same(getattr(ours, name)(src, indptr)[0], getattr(theirs, name)(src, indptr)[0], dtype)


#: shape of src, shape of the pointers or index but for their last dimension
SEGMENTED = [((17,), ()), ((17, 3), ()), ((3, 17), (3,)), ((3, 17, 2), (1,)), ((3, 4, 17, 2), (3, 4))]
SEGMENT_REDUCTIONS = ["sum", "add", "mean", "min", "max"]


def pointers(leading):
    inner = torch.randint(0, 18, (*leading, 5)).sort(-1)[0]
    return torch.cat([torch.zeros(*leading, 1).long(), inner, torch.full((*leading, 1), 17)], -1)


@pytest.mark.parametrize("shape, leading", SEGMENTED)
@pytest.mark.parametrize("reduction", SEGMENT_REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_segments_by_pointers(theirs, shape, leading, reduction, dtype):
    src, indptr = numbers(shape, dtype), pointers(leading)
    both(theirs, f"segment_{reduction}_csr", src, indptr)
    both(theirs, "segment_csr", src, indptr, reduce=reduction)


@pytest.mark.parametrize("reduction", SEGMENT_REDUCTIONS)
def test_segments_by_pointers_leave_out_what_lies_outside_and_fill_out(theirs, reduction):
    src, indptr = numbers((17, 3), torch.float64), torch.tensor([2, 5, 5, 11])
    name = f"segment_{reduction}_csr"
    both(theirs, name, src, indptr, with_gradient=False)
    both(theirs, name, src, indptr, with_gradient=False, out=numbers((3, 3), torch.float64))
    inside = gradient(getattr(ours, name), src, indptr)
    assert inside[2:11].abs().max() > 0
    assert inside[:2].abs().max() == inside[11:].abs().max() == 0


@pytest.mark.parametrize("shape, leading", SEGMENTED)
@pytest.mark.parametrize("reduction", SEGMENT_REDUCTIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_segments_by_index(theirs, shape, leading, reduction, dtype):
    src, index = numbers(shape, dtype), torch.randint(0, 6, (*leading, 17)).sort(-1)[0]
    # upstream's own gradient refuses an index that its reduction broadcasts
    compared = {"with_gradient": index.shape == src.shape[: index.dim()]}
    both(theirs, f"segment_{reduction}_coo", src, index, **compared)
    both(theirs, f"segment_{reduction}_coo", src, index, dim_size=9, **compared)
    both(theirs, "segment_coo", src, index, reduce=reduction, **compared)


@pytest.mark.parametrize("reduction", ["sum", "add"])
def test_segments_by_index_into_out(theirs, reduction):
    src, index = numbers((17, 3), torch.float64), torch.randint(0, 6, (17,)).sort()[0]
    index[0] = 0  # upstream starts the first group from entry 0 of out, whichever group that is
    both(theirs, f"segment_{reduction}_coo", src, index, out=numbers((8, 3), torch.float64))


@pytest.mark.parametrize("reduction, better_of", [("min", torch.minimum), ("max", torch.maximum)])
def test_extremes_into_out_follow_the_definition(reduction, better_of):
    src, index = numbers((17, 3), torch.float64), torch.randint(1, 6, (17,)).sort()[0]
    out = numbers((8, 3), torch.float64)
    expected = out.clone()
    for row, group in zip(src, index):
        expected[group] = better_of(expected[group], row)
    found, positions = getattr(ours, f"segment_{reduction}_coo")(src, index, out.clone())
    assert torch.equal(found, expected)
    improved = expected != out
    assert torch.equal(positions < 17, improved)
    assert torch.equal(src.gather(0, positions.clamp(max=16))[improved], expected[improved])


@pytest.mark.parametrize("leading, trailing", [((), ()), ((), (3,)), ((2,), (3,)), ((2, 3), ())])
def test_gathering_from_segments(theirs, leading, trailing):
    src = numbers((*leading, 6, *trailing), torch.float64)
    both(theirs, "gather_csr", src, pointers(leading))
    both(theirs, "gather_coo", src, torch.randint(0, 6, (*leading, 17)).sort(-1)[0])


COMPOSITES = ["scatter_std", "scatter_logsumexp", "scatter_softmax", "scatter_log_softmax"]


@pytest.mark.parametrize("shape, index_shape, dim", SCATTERED)
@pytest.mark.parametrize("name", COMPOSITES)
def test_composites(theirs, shape, index_shape, dim, name):
    src, index = numbers(shape, torch.float64), torch.randint(0, 6, index_shape)
    for named in ({}, {"dim_size": 9}):
        expected = getattr(theirs, name)(src, index, dim, **named)
        same(getattr(ours, name)(src, index, dim, **named), expected, src.dtype)
    weights = torch.randn(2, *expected.shape, dtype=torch.float64)[0]

    def weighted(module):
        leaf = src.clone().requires_grad_()
        # where a group has one element its deviation is zero, and the derivative of the root is not finite
        loss = (
            getattr(module, name)(leaf, index, dim, dim_size=9).clamp(
                min=1e-3 if name == "scatter_std" else None, max=1e9
            )
            * weights
        ).sum()
        return torch.autograd.grad(loss, leaf)[0].nan_to_num()

    same(weighted(ours), weighted(theirs), torch.float32)


def test_the_biased_deviation_and_the_logarithm_with_out(theirs):
    src, index = numbers((17, 3), torch.float64), torch.randint(0, 6, (17,))
    same(
        ours.scatter_std(src, index, 0, unbiased=False),
        theirs.scatter_std(src, index, 0, unbiased=False),
        torch.float64,
    )
    out = numbers((6, 3), torch.float64)
    index[:6] = torch.arange(6)
    same(
        ours.scatter_logsumexp(src, index, 0, out.clone()),
        theirs.scatter_logsumexp(src, index, 0, out.clone()),
        torch.float64,
    )


@pytest.mark.parametrize("name", COMPOSITES[1:])
def test_composites_of_integers_are_refused(name):
    with pytest.raises(ValueError, match=f"{name} takes floating point tensors, got torch.int64"):
        getattr(ours, name)(torch.arange(3), torch.arange(3))


@pytest.mark.parametrize("name", ["scatter", "segment_coo", "segment_csr"])
def test_an_unknown_reduction_is_refused(name):
    with pytest.raises(ValueError, match="got 'median'"):
        getattr(ours, name)(torch.randn(3), torch.arange(3), reduce="median")


def test_every_name_of_upstream_is_there(theirs):
    assert set(theirs.__all__) - {"torch_scatter"} == set(ours.__all__)
    assert theirs.__version__ == ours.__version__
    for module in ("utils", "scatter", "segment_csr", "segment_coo", "composite"):
        upstream = importlib.import_module(f"torch_scatter.{module}")
        mine = importlib.import_module(f"torch_patches.portable_torch_scatter.{module}")
        functions = {
            name
            for name, value in vars(upstream).items()
            if getattr(value, "__module__", "").startswith("torch_scatter")
        }
        assert functions <= set(vars(mine)), functions - set(vars(mine))


def test_an_index_is_broadcast_as_upstream_does(theirs):
    utils = importlib.import_module("torch_scatter.utils")
    for shape, index_shape, dim in SCATTERED:
        src, index = numbers(shape, torch.float32), torch.randint(0, 6, index_shape)
        assert torch.equal(ours.broadcast(index, src, dim), utils.broadcast(index, src, dim))


def test_gradients_of_gradients_exist():
    src, index = torch.randn(7, dtype=torch.float64, requires_grad=True), torch.tensor([0, 1, 0, 2, 2, 1, 0])
    for name in ("scatter_sum", "scatter_mean", "scatter_mul", "scatter_logsumexp", "scatter_softmax"):
        assert torch.autograd.gradgradcheck(lambda x, name=name: getattr(ours, name)(x, index), src)


# ---------------------------------------------------------------- supplied where it is not installed
USES = """
import torch
import torch_scatter
import torch_scatter.composite
import torch_scatter.utils
from torch_scatter import gather_csr, scatter, segment_coo
from torch_scatter.composite import scatter_softmax
from torch_scatter.scatter import scatter_max, scatter_mean
from torch_scatter.segment_csr import segment_sum_csr

src, index = torch.tensor([1.0, 5.0, 2.0, 4.0]), torch.tensor([0, 1, 0, 3])
assert scatter(src, index, reduce="sum").tolist() == [3.0, 5.0, 0.0, 4.0]
assert torch_scatter.scatter(src, index, reduce="mean").tolist() == [1.5, 5.0, 0.0, 4.0]
values, positions = torch_scatter.scatter_max(src, index, dim_size=5)
assert (values.tolist(), positions.tolist()) == ([2.0, 5.0, 0.0, 4.0, 0.0], [2, 1, 4, 3, 4])
assert segment_sum_csr(src, torch.tensor([0, 1, 4])).tolist() == [1.0, 11.0]
assert segment_coo(src, torch.tensor([0, 0, 1, 1]), reduce="min").tolist() == [1.0, 2.0]
assert gather_csr(torch.tensor([7.0, 8.0]), torch.tensor([0, 1, 3])).tolist() == [7.0, 8.0, 8.0]
torch.testing.assert_close(scatter_softmax(src, torch.zeros(4).long()), src.softmax(0))
assert torch_scatter.__version__ == "2.1.2"
"""


@pytest.mark.parametrize(
    "how",
    [
        'Patcher().replace_import("torch_scatter", "torch_patches.portable_torch_scatter")',
        "Patcher().add(TorchScatter).apply()",
        "Patcher().add(TorchScatter).apply(lazy=True)",
    ],
)
def test_where_it_is_not_installed_it_is_supplied(run_python, how):
    if PathFinder.find_spec("torch_scatter") is not None:
        pytest.skip("torch_scatter is installed in this environment")
    run_python(
        f"""
from patcher_core import Patcher, configure_patcher_logging
from torch_patches import TorchScatter
configure_patcher_logging(level="ERROR")
patcher = {how}
{USES}
patcher.restore()
import sys
assert not [name for name in sys.modules if name.startswith("torch_scatter")]
"""
    )


def test_an_installed_one_is_left_alone_without_an_npu_and_replaced_if_told(run_python, theirs):
    folder = os.path.dirname(os.path.dirname(theirs.__file__))
    run_python(
        f"""
import sys
sys.path.append({folder!r})
from patcher_core import Patcher, configure_patcher_logging
from torch_patches import TorchScatter
configure_patcher_logging(level="ERROR")
patcher = Patcher().add(TorchScatter).apply()
(result,) = patcher.report.results
assert (result.status, result.reason) == ("skipped", "upstream's own implementation runs here"), result
import torch_scatter
original = torch_scatter.scatter_max
patcher = Patcher(backend="portable").add(TorchScatter).apply()
assert not patcher.report.failed
assert torch_scatter.scatter_max.__module__ == "torch_patches.portable_torch_scatter.scatter"
assert torch_scatter.composite.softmax.scatter_max is torch_scatter.scatter_max
patcher.restore()
assert torch_scatter.scatter_max is original
""",
        warnings="ignore",
    )
