"""BatchMatmul on the simulated NPU."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch", reason="this is a patch of torch")

import numpy as np  # noqa: E402

from patcher_core import Patcher, configure_summary  # noqa: E402
from torch_patches import BatchMatmul  # noqa: E402

pytestmark = [
    pytest.mark.simulated_npu,
    pytest.mark.usefixtures("random_seed"),
    pytest.mark.filterwarnings("ignore:Sparse:UserWarning"),
]


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    yield
    configure_summary(True)


@pytest.fixture
def patcher(simulated_npu):
    patcher = Patcher().add(BatchMatmul).disable("transfer_to_npu")
    yield patcher
    patcher.restore()


WAYS = {
    "torch.matmul": lambda a, b: torch.matmul(a, b),
    "keyword": lambda a, b: torch.matmul(input=a, other=b),
    "method": lambda a, b: a.matmul(b),
    "operator": lambda a, b: a @ b,
}

#: (input, other): made for the operator
COLUMNS = [
    ((2, 3, 4, 4), (2, 3, 4, 1)),
    ((1, 3, 4, 4), (5, 1, 4, 1)),
    ((2, 1, 6, 1, 4, 4), (2, 5, 1, 3, 4, 1)),
    ((1, 2, 1, 2, 1, 3, 3), (1, 2, 2, 1, 2, 3, 1)),
]


def values_and_gradients(multiply, a, b):
    a, b = a.detach().clone().requires_grad_(), b.detach().clone().requires_grad_()
    result = multiply(a, b)
    weights = torch.linspace(-1, 1, result.numel(), device="cpu").view(result.shape).to(result)
    gradients = torch.autograd.grad((result * weights).sum(), (a, b))
    return [result.cpu(), *(gradient.cpu() for gradient in gradients)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shapes", COLUMNS)
def test_batches_of_columns_equal_the_product_on_the_cpu(patcher, simulated_npu, way, shapes):
    a, b = (torch.randn(shape) for shape in shapes)
    expected = values_and_gradients(torch.matmul, a, b)
    patcher.apply()
    with simulated_npu.record_operators() as recording:
        found = values_and_gradients(WAYS[way], a.npu(), b.npu())
    names = {call.name for call in recording.calls}
    assert "mx_driving.npu_batch_matmul" in names
    for one, wanted in zip(found, expected):
        assert wanted.abs().max() > 0
        torch.testing.assert_close(one, wanted, rtol=1e-5, atol=1e-5)


def test_halves_are_accumulated_in_single_precision(patcher):
    a, b = torch.randn(3, 2, 4, 4).half(), torch.randn(3, 2, 4, 1).half()
    patcher.apply()
    found = torch.matmul(a.npu(), b.npu())
    assert found.dtype == torch.float16
    assert torch.equal(found.cpu(), (a.float() @ b.float()).half())


def others():
    """Operands that are none of its business, by name."""
    dense = torch.randn(2, 3, 4, 4).npu()
    column = torch.randn(2, 3, 4, 1).npu()
    return {
        "vectors": (torch.randn(4).npu(), torch.randn(4).npu()),
        "matrices": (torch.randn(3, 4).npu(), torch.randn(4, 5).npu()),
        "rank 3": (dense[0], column[0]),
        "ranks differ": (dense, column[0]),
        "two columns": (dense, torch.randn(2, 3, 4, 2).npu()),
        "not square": (torch.randn(2, 3, 5, 4).npu(), column),
        "inner dimensions differ": (dense, torch.randn(2, 3, 3, 1).npu()),
        "batches do not broadcast": (dense, torch.randn(2, 2, 4, 1).npu()),
        "empty batch": (torch.randn(0, 3, 4, 4).npu(), torch.randn(1, 3, 4, 1).npu()),
        "bfloat16": (dense.bfloat16(), column.bfloat16()),
        "integers": (torch.ones(2, 3, 4, 4).int(), torch.ones(2, 3, 4, 1).int()),
        "dtypes differ": (dense, column.half()),
        "on the CPU": (dense.cpu(), column.cpu()),
        "array on the right": (torch.randn(2, 3, 4, 4), np.ones((2, 3, 4, 1), np.float32)),
        "array on the left": (np.ones((2, 3, 4, 4), np.float32), torch.randn(2, 3, 4, 1)),
        "scalar": (torch.randn(2, 3, 4, 4), 2.0),
        "scalar on the left": (2.0, torch.randn(2, 3, 4, 4)),
        "sparse": (torch.eye(4).to_sparse(), torch.randn(4, 2)),
        "sparse csr": (torch.eye(4).to_sparse_csr(), torch.randn(4, 2)),
        "list": (torch.randn(4), [1.0, 2.0, 3.0, 4.0]),
    }


def outcome(multiply, a, b):
    try:
        result = multiply(a, b)
    except Exception as error:
        return (type(error), str(error).splitlines()[0])
    if isinstance(result, torch.Tensor):
        return (type(result), result.dtype, result.shape, result.layout, result.to_dense().float().tolist())
    return (type(result), result)


def test_everything_else_gives_what_it_gave_before_and_gives_again_after(patcher):
    made = others()
    ways = list(itertools.product(WAYS, made))

    def outcomes():
        return {(way, name): outcome(WAYS[way], *made[name]) for way, name in ways}

    expected = outcomes()
    patcher.apply()
    found = outcomes()
    assert {key: value for key, value in found.items() if value != expected[key]} == {}
    patcher.restore()
    assert outcomes() == expected


def test_out_is_filled(patcher):
    a, b = torch.randn(2, 3, 4, 4).npu(), torch.randn(2, 3, 4, 1).npu()
    out = torch.empty(2, 3, 4, 1).npu()
    patcher.apply()
    assert torch.matmul(a, b, out=out) is out
    torch.testing.assert_close(out.cpu(), a.cpu() @ b.cpu())


def test_autocast_chooses_the_dtype_as_before(patcher):
    a, b = torch.randn(2, 3, 4, 4).npu(), torch.randn(2, 3, 4, 1).npu()
    patcher.apply()
    with torch.autocast("npu", dtype=torch.float16):
        assert torch.matmul(a, b).dtype == torch.float16


def test_tensors_are_made_from_tensors_before_while_and_after(patcher):
    for step in (lambda: None, patcher.apply, patcher.restore):
        step()
        assert torch.Tensor([torch.tensor(1.0)]).tolist() == [1.0]


class Product(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2, 3, 4, 4))

    def forward(self, x):
        return torch.matmul(self.weight, x) + self.weight.matmul(x) + self.weight @ x


def test_tracing_compiling_and_exporting_work_while_patched_and_after_restore(patcher):
    model, x = Product(), torch.randn(2, 3, 4, 1)
    expected = 3 * (model.weight @ x)

    def check():
        for made in (
            model,
            torch.fx.symbolic_trace(model),
            torch.compile(model, backend="eager", fullgraph=True),
            torch.compile(model, backend="aot_eager", fullgraph=True),
            torch.export.export(model, (x,)).module(),
        ):
            torch.testing.assert_close(made(x), expected)
        return made

    patcher.apply()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), expected)
    check()
    patcher.restore()
    check()
    torch.testing.assert_close(compiled(x), expected)


def test_a_model_on_the_device_compiles_as_well(patcher):
    model, x = Product().npu(), torch.randn(2, 3, 4, 1).npu()
    expected = 3 * (model.weight.cpu() @ x.cpu())
    patcher.apply()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x).cpu(), expected, rtol=1e-5, atol=1e-5)
