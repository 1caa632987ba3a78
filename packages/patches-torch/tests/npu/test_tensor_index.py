"""TensorIndex on the simulated NPU: indexing equals what it is without the patch, also in its errors and gradients."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="this is a patch of torch")

from patcher_core import Patcher, configure_summary  # noqa: E402
from torch_patches import TensorIndex  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("random_seed")]


@pytest.fixture(autouse=True)
def quiet():
    configure_summary(False)
    yield
    configure_summary(True)


@pytest.fixture
def patcher(simulated_npu):
    patcher = Patcher().add(TensorIndex).disable("transfer_to_npu")
    yield patcher
    patcher.restore()


def mask(*shape, dtype=torch.bool):
    return (torch.rand(*shape) < 0.5).to(dtype).npu()


class Subclass(torch.Tensor):
    pass


def cases():
    """Name, tensor, index; made anew for every seed."""
    vector, matrix = torch.randn(7).npu(), torch.randn(7, 3).npu()
    cube = torch.randn(7, 3, 2).npu()
    return {
        "mask over a vector": (vector, mask(7)),
        "mask over rows": (matrix, mask(7)),
        "mask over rows of integers": (torch.randint(9, (7, 3)).npu(), mask(7)),
        "mask over rows of halves": (matrix.half(), mask(7)),
        "mask that selects nothing": (matrix, torch.zeros(7, dtype=torch.bool).npu()),
        "mask that selects everything": (vector, torch.ones(7, dtype=torch.bool).npu()),
        "mask of all elements": (matrix, mask(7, 3)),
        "mask over the rows of a cube": (cube, mask(7)),
        "mask too short": (matrix, mask(6)),
        "mask too long": (vector, mask(8)),
        "mask of rank 0": (vector, torch.tensor(True).npu()),
        "rows without columns": (torch.zeros(7, 0).npu(), mask(7)),
        "no rows": (torch.zeros(0, 3).npu(), mask(0)),
        "tensor of rank 0": (torch.tensor(2.0).npu(), torch.tensor(True).npu()),
        "mask on a tensor of rank 0": (torch.tensor(2.0).npu(), mask(1)),
        "uint8 mask": (matrix, mask(7, dtype=torch.uint8)),
        "mask on the CPU": (matrix, mask(7).cpu()),
        "list of booleans": (matrix, [True, False, True, False, True, False, True]),
        "mask and slice": (matrix, (mask(7), slice(1, None))),
        "mask and integer": (matrix, (mask(7), 1)),
        "mask and positions": (matrix, (mask(7).fill_(True), torch.zeros(7, dtype=torch.long).npu())),
        "positions": (matrix, torch.tensor([3, 3, 0]).npu()),
        "integer": (matrix, -1),
        "integer out of range": (matrix, 7),
        "slice": (matrix, slice(1, 5, 2)),
        "None": (vector, None),
        "ellipsis": (cube, (..., 0)),
        "not contiguous": (matrix.t(), mask(3)),
        "subclass": (matrix.as_subclass(Subclass), mask(7)),
        "expanded": (vector[:1].expand(7), mask(7)),
    }


def outcome(tensor, index):
    """Type, dtype, shape, values and gradient of ``tensor[index]``, or the type and text of its error."""
    if tensor.is_floating_point():
        tensor = (
            tensor.detach().clone().requires_grad_() if tensor.is_contiguous() else tensor.requires_grad_()
        )
    try:
        result = tensor[index]
    except Exception as error:
        return (type(error), str(error).splitlines()[0])
    gradient = None
    if tensor.is_floating_point() and result.numel():
        weights = torch.arange(1, result.numel() + 1, dtype=result.dtype).view(result.shape).npu()
        (gradient,) = torch.autograd.grad((result * weights).sum(), tensor)
        gradient = gradient.cpu().tolist()
    return (
        type(result),
        result.dtype,
        result.shape,
        result.device,
        result.is_contiguous(),
        result.tolist(),
        gradient,
    )


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning")
def test_every_index_gives_what_it_gave_before_and_gives_again_after(patcher):
    made = cases()
    expected = {name: outcome(*case) for name, case in made.items()}
    patcher.apply()
    assert {name: outcome(*case) for name, case in made.items()} == expected
    patcher.restore()
    assert {name: outcome(*case) for name, case in made.items()} == expected
    errors = [name for name, result in expected.items() if issubclass(result[0], Exception)]
    assert errors == ["mask too short", "mask too long", "mask on a tensor of rank 0", "integer out of range"]


@pytest.mark.parametrize("shape", [(7,), (7, 3)])
def test_a_mask_over_elements_or_rows_runs_as_masked_select(patcher, simulated_npu, shape):
    tensor, chosen = torch.randn(shape).npu(), mask(7)
    patcher.apply()
    with simulated_npu.record_operators() as recording:
        tensor[chosen]
    assert [call.name for call in recording.calls] == ["aten::masked_select"]
    patcher.restore()
    with simulated_npu.record_operators() as recording:
        tensor[chosen]
    assert [call.name for call in recording.calls] == ["aten::index.Tensor"]


def test_tensors_are_made_from_tensors_before_while_and_after(patcher):
    def construct():
        return torch.Tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist()

    assert construct() == [1.0, 2.0]
    patcher.apply()
    assert construct() == [1.0, 2.0]
    patcher.restore()
    assert construct() == [1.0, 2.0]


def test_nothing_of_the_python_class_is_touched(patcher):
    before = dict(vars(torch.Tensor))
    patcher.apply()
    assert dict(vars(torch.Tensor)) == before


def test_another_patcher_finds_it_applied(patcher):
    patcher.apply()
    second = Patcher().add(TensorIndex).disable("transfer_to_npu").apply()
    (result,) = second.report.results
    assert (result.status, result.reason) == ("skipped", f"already applied by {patcher}")
    patcher.restore()
    second.restore()
    second.apply()
    assert len(second.report.applied) == 1
    second.restore()


def test_the_trap_that_this_patch_avoids_is_real(run_python):
    """On this torch still: assigning the slot breaks construction for good. If this fails, the trap is gone."""
    said = run_python(
        """
        import torch
        torch.Tensor([torch.tensor(1.0)])
        torch.Tensor.__getitem__ = lambda self, index: None
        del torch.Tensor.__getitem__
        try:
            torch.Tensor([torch.tensor(1.0)])
        except TypeError as error:
            print(error)
        """
    )
    assert "0-d tensor" in said
