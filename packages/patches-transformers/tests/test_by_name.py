"""The patches for Qwen-VL and for image processors."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import random

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)

import tiny_models  # noqa: E402
from packaging.specifiers import SpecifierSet  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from patcher_core import Patcher  # noqa: E402
from transformers_patches import Qwen3VLPlaceholderMask  # noqa: E402
from transformers_patches.image_processor_functions import LARGEST_RANK, permute_in_parts  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
IMAGE, VIDEO = 5, 7


# ---------------------------------------------------------------------- placeholder mask
VERSION = importlib.metadata.version("transformers")
#: The method came with 4.55, and counts from some version between 5.10 and 5.15 on.
WHERE_IT_GATHERS = SpecifierSet(">=4.55,<5.15")


@pytest.fixture(scope="module", params=["qwen2_vl", "qwen3_vl"])
def model(request):
    if request.param not in tiny_models.families():
        pytest.skip(f"transformers {VERSION} has no {request.param}")
    if VERSION not in WHERE_IT_GATHERS:
        pytest.skip(f"transformers {VERSION} counts the tokens and gathers nothing")
    model = tiny_models.tiny_model(request.param)
    model.config.image_token_id, model.config.video_token_id = IMAGE, VIDEO
    with Patcher(backend="portable").add(Qwen3VLPlaceholderMask) as patcher:
        place = f"{type(model).__module__}.{type(model).__qualname__}.get_placeholder_mask"
        assert place in [one.name for one in patcher.report if one.status.value == "applied"]
    return model


def _call(model, by_embedding=False, **changes):
    torch.manual_seed(3)
    input_ids = torch.tensor([[1, IMAGE, IMAGE, 2, VIDEO], [IMAGE, 3, 4, VIDEO, VIDEO]])
    embeds = model.get_input_embeddings()(input_ids).detach()
    arguments = {
        "image_features": torch.randn(3, embeds.shape[-1]),
        "video_features": torch.randn(3, embeds.shape[-1]),
        **changes,
    }
    return model.get_placeholder_mask(None if by_embedding else input_ids, inputs_embeds=embeds, **arguments)


@pytest.mark.parametrize("by_embedding", [False, True])
@pytest.mark.parametrize("changes", [{}, {"image_features": None}, {"video_features": None}], ids=str)
def test_the_masks_are_those_of_upstream(model, by_embedding, changes):
    expected = _call(model, by_embedding, **changes)
    assert [one.any().item() and not one.all().item() for one in expected] == [True, True]
    with Patcher(backend="portable").add(Qwen3VLPlaceholderMask):
        found = _call(model, by_embedding, **changes)
    assert all(
        torch.equal(one, other) and one.dtype is other.dtype
        for one, other in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("kind", ["image_features", "video_features"])
@pytest.mark.parametrize("count", [2, 4])
def test_a_wrong_number_of_features_is_upstreams_error(model, kind, count):
    wrong = {kind: torch.randn(count, model.get_input_embeddings().embedding_dim)}
    with pytest.raises(ValueError) as expected:
        _call(model, **wrong)
    with Patcher(backend="portable").add(Qwen3VLPlaceholderMask), pytest.raises(ValueError) as found:
        _call(model, **wrong)
    assert str(found.value) == str(expected.value)


def test_nothing_is_gathered(model):
    with Patcher(backend="portable").add(Qwen3VLPlaceholderMask), _Operators() as operators:
        _call(model)
    assert not {"aten.index.Tensor", "aten.nonzero.default"} & operators.names
    with _Operators() as operators:
        _call(model)
    assert "aten.index.Tensor" in operators.names


# ---------------------------------------------------------------------- permutations
class _Operators(TorchDispatchMode):
    """What runs, and with how many dimensions."""

    def __init__(self):
        super().__init__()
        self.names, self.permuted = set(), []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(str(func))
        if str(func) == "aten.permute.default":
            self.permuted.append(args[0].dim())
        return func(*args, **(kwargs or {}))


def test_a_permutation_in_parts_is_the_permutation():
    for _ in range(200):
        rank = random.randint(2, 11)
        shape = [random.randint(1, 3) for _ in range(rank)]
        order = random.sample(range(rank), rank)
        tensor = torch.randn(shape)
        found = permute_in_parts(tensor, [one - rank * random.randint(0, 1) for one in order])
        assert torch.equal(found, tensor.permute(order)) and found.is_contiguous()


#: How Qwen-VL and its relatives cut images and videos into patches.
ORDERS = [(0, 1, 4, 7, 5, 8, 3, 2, 6, 9), (0, 1, 4, 7, 5, 8, 6, 9, 3, 2), (0, 1, 3, 6, 4, 7, 2, 5, 8)]


@pytest.mark.parametrize("order", ORDERS, ids=str)
def test_no_part_of_a_patch_permutation_has_more_dimensions_than_an_npu_copies(order):
    tensor = torch.randn([2, 3, 2, 3, 2, 2, 2, 3, 2, 2][: len(order)])
    with _Operators() as operators:
        found = permute_in_parts(tensor, order)
    assert torch.equal(found, tensor.permute(order))
    assert math.prod(operators.permuted) and max(operators.permuted) <= LARGEST_RANK
