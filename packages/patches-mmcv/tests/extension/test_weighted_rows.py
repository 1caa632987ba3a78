"""The weighted row sums equal dense matrix products, with embedding_bag and without."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from mmcv_patches.extension import weighted_rows  # noqa: E402


@pytest.fixture(params=[True, False], ids=["embedding_bag", "gather"], autouse=True)
def implementation(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test runs as on the CPU, and as on a device that has no embedding_bag, in several chunks."""
    if not request.param:
        monkeypatch.setattr(weighted_rows, "DEVICES_WITH_EMBEDDING_BAG", ())
        monkeypatch.setattr(weighted_rows, "GATHERED_ELEMENTS", 60)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "bags, members, rows, channels", [(13, 4, 9, 5), (1, 3, 1, 1), (0, 4, 9, 5), (6, 0, 9, 5)]
)
def test_sums_and_gradients_equal_those_of_the_dense_matrix(dtype, bags, members, rows, channels) -> None:
    table = torch.randn(rows, channels, dtype=dtype)
    index = torch.randint(0, rows, (bags, members), dtype=torch.int32)
    weight = torch.randn(bags, members, dtype=dtype)
    grad = torch.randn(bags, channels, dtype=dtype)
    one_hot = torch.nn.functional.one_hot(index.long(), rows).to(dtype)
    matrix = torch.einsum("bmr,bm->br", one_hot, weight)

    torch.testing.assert_close(weighted_rows.weighted_row_sum(table, index, weight), matrix @ table)
    torch.testing.assert_close(
        weighted_rows.weighted_row_sum_weight_gradient(grad, table, index),
        torch.einsum("bc,bmr,rc->bm", grad, one_hot, table),
    )
    total = torch.ones(rows, channels, dtype=dtype)
    weighted_rows.add_weighted_row_sum_transposed(total, grad, index, weight)
    torch.testing.assert_close(total, 1 + matrix.t() @ grad)
