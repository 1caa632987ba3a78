"""SparseConv3D and Voxelization without an NPU: which implementation is taken, and that it gives upstream's numbers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

#: An mmcv with compiled operators, beside the installed one.
COMPILED = os.environ.get("PATCHER_REFERENCE_MMCV", "")

needs_compiled_mmcv = pytest.mark.skipif(not COMPILED, reason="no compiled reference here")

PRELUDE = """
    import os, warnings
    warnings.simplefilter("ignore")  # mmcv's own, at import
    import torch
    from mmcv_patches import PortableExtension, SparseConv3D, Voxelization
    from patcher_core import Patcher, configure_summary
    configure_summary(enabled=False)
    torch.manual_seed(int(os.environ["TEST_SEED"]))
"""


def run(code: str, compiled: bool = False) -> None:
    """Run in a process of its own, with the compiled mmcv in front of the installed one if told so."""
    path = os.pathsep.join(filter(None, [COMPILED if compiled else "", os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_compiled_mmcv
def test_the_reference_has_compiled_operators() -> None:
    assert list(Path(COMPILED, "mmcv").glob("_ext*.so"))


@needs_compiled_mmcv
def test_sparse_convolution_runs_on_the_cpu_where_mmcv_was_compiled_without_it() -> None:
    run(
        """
        from mmcv.ops import SparseConvTensor, SubMConv3d

        cells = torch.cartesian_prod(*map(torch.arange, (2, 4, 3, 5)))
        cells = cells[torch.randperm(len(cells))[:40]].int()
        features = torch.randn(40, 4, requires_grad=True)
        convolution = SubMConv3d(4, 6, 3, indice_key="first")
        sparse = SparseConvTensor(features, cells, [4, 3, 5], 2)
        try:
            convolution(sparse)
        except RuntimeError as error:
            assert "not implemented on CPU" in str(error), error
        else:
            raise SystemExit("the original ran on the CPU: this patch is not needed here")

        with Patcher().add(SparseConv3D) as patcher:
            assert [result.backend.partition(" ")[0] for result in patcher.report] == ["portable"]
            found = convolution(sparse).features
            upstream = torch.randn_like(found)
            gradients = torch.autograd.grad(found, (features, convolution.weight), upstream)

        at = tuple(cells.long().unbind(1))
        dense = torch.zeros(2, 4, 3, 5, 4).index_put(at, features).movedim(-1, 1)
        weight = convolution.weight.movedim((-1, -2), (0, 1))
        expected = torch.nn.functional.conv3d(dense, weight, convolution.bias, padding=1).movedim(1, -1)[at]
        reference = torch.autograd.grad(expected, (features, convolution.weight), upstream)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        for own, wanted in zip(gradients, reference):
            torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-4)

        try:
            convolution(sparse)
        except RuntimeError:
            pass
        else:
            raise SystemExit("restore() did not put the original back")
        """,
        compiled=True,
    )


@needs_compiled_mmcv
def test_portable_voxelization_equals_the_compiled_one_which_is_left_alone_unless_told_otherwise() -> None:
    run(
        """
        import mmcv.ops

        original = vars(mmcv.ops.voxelize._Voxelization)["forward"]
        with Patcher().add(Voxelization) as patcher:
            assert vars(mmcv.ops.voxelize._Voxelization)["forward"] is original
            assert "upstream's own implementation runs here" in str([*patcher.report])

        for limits in ((5, 40), (5, 4000), (-1, -1), (-1, 7)):
            layer = mmcv.ops.Voxelization([0.5, 0.5, 1.0], [0.0, 0, 0, 4, 4, 4], *limits)
            points = torch.rand(800, 5) * 6 - 1
            expected = layer(points)
            with Patcher(backend="portable").add(Voxelization):
                assert vars(mmcv.ops.voxelize._Voxelization)["forward"] is not original
                found = layer(points)
            if torch.is_tensor(found):
                found, expected = (found,), (expected,)
            assert len(found) == len(expected)
            for own, wanted in zip(found, expected):
                assert own.dtype == wanted.dtype
                assert torch.equal(own, wanted)
        """,
        compiled=True,
    )


@pytest.mark.skipif(
    importlib.util.find_spec("mmcv._ext") is not None, reason="this mmcv has its compiled operators"
)
def test_without_compiled_operators_the_portable_implementations_are_taken() -> None:
    run(
        """
        with Patcher().add(PortableExtension, SparseConv3D, Voxelization) as patcher:
            taken = {r.group: r.backend.partition(" ")[0] for r in patcher.report if r.backend}
            assert taken == {"spconv3d": "portable", "voxelization": "portable"}, taken
            from mmcv.ops import Voxelization as Layer
            voxels, coordinates, counts = Layer([1.0, 1, 1], [0.0, 0, 0, 4, 4, 4], 2, 64)(torch.rand(90, 4) * 4)
            assert len(voxels) == len(coordinates) == len(counts) > 0
        """
    )


@pytest.mark.filterwarnings("ignore")  # mmcv's own, at import
def test_portable_sparse_convolution_is_the_dense_one_where_there_are_cells() -> None:
    from mmcv_patches import PortableExtension, SparseConv3D
    from patcher_core import Patcher

    extents = (3, 4, 5)
    cells = torch.cartesian_prod(torch.arange(2), *map(torch.arange, extents))
    cells = cells[torch.randperm(len(cells))[:40]]
    features = torch.randn(40, 6)
    with Patcher(backend="portable").add(PortableExtension, options={"force": True}).add(SparseConv3D):
        from mmcv.ops import SparseConvTensor, SubMConv3d

        layer = SubMConv3d(6, 4, 3, bias=False)
        found = layer(SparseConvTensor(features, cells.int(), list(extents), 2)).features
    dense = features.new_zeros(2, *extents, 6).index_put(tuple(cells.unbind(1)), features).movedim(-1, 1)
    # mmcv 1.x and 2.x keep the weight as (*kernel, in, out); out is put first here
    weight = layer.weight.movedim((-1, -2), (0, 1))
    expected = torch.nn.functional.conv3d(dense, weight, padding=1).movedim(1, -1)[tuple(cells.unbind(1))]
    # sums of 27 * 6 products in float32
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # mmcv's own, at import
def test_portable_sparse_convolution_is_the_sum_over_the_pairs_of_a_given_rule_book() -> None:
    from mmcv_patches import PortableExtension, SparseConv3D
    from patcher_core import Patcher

    features = torch.randn(12, 4, requires_grad=True)
    filters = torch.randn(3, 1, 1, 4, 5, requires_grad=True)
    pairs = torch.full((3, 2, 12), -1, dtype=torch.int32)
    counts = torch.tensor([12, 7, 3], dtype=torch.int32)
    sums = [torch.zeros(5) for _ in range(9)]
    for offset, count in enumerate(counts.tolist()):
        sources, targets = torch.randperm(12)[:count], torch.randint(9, (count,))
        pairs[offset, 0, :count], pairs[offset, 1, :count] = sources, targets
        for source, target in zip(sources.tolist(), targets.tolist()):
            sums[target] = sums[target] + features[source] @ filters[offset, 0, 0]
    expected = torch.stack(sums)
    with Patcher(backend="portable").add(PortableExtension, options={"force": True}).add(SparseConv3D):
        from mmcv.ops.sparse_functional import indice_conv

        found = indice_conv(features, filters, pairs, counts, 9)
        upstream = torch.randn_like(found)
        gradients = torch.autograd.grad(found, (features, filters), upstream)
    # sums of up to 22 * 4 products in float32
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    for own, wanted in zip(gradients, torch.autograd.grad(expected, (features, filters), upstream)):
        torch.testing.assert_close(own, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore")  # mmcv's own, at import
@pytest.mark.parametrize("limits", [(3, 9), (-1, -1)], ids=["hard", "dynamic"])
def test_portable_voxelization_is_a_loop_over_the_points(limits) -> None:
    from mmcv_patches import PortableExtension, Voxelization
    from patcher_core import Patcher

    size, low, high = (
        torch.tensor([1.0, 1.0, 2.0]),
        torch.tensor([0.0, -1.0, 0.0]),
        torch.tensor([3.0, 2.0, 4.0]),
    )
    points = torch.rand(60, 5) * 5 - 1
    cells = ((points[:, :3] - low) / size).floor().int()
    inside = ((cells >= 0) & (cells < ((high - low) / size).round())).all(1)
    assert inside.any() and not inside.all()
    voxels: dict[tuple[int, ...], list[torch.Tensor]] = {}
    for point, cell in zip(points[inside], cells[inside].flip(1).tolist()):
        if tuple(cell) in voxels or len(voxels) < 9:
            voxels.setdefault(tuple(cell), []).append(point)
    with Patcher(backend="portable").add(PortableExtension, Voxelization):
        from mmcv.ops import voxelization

        found = voxelization(points, size.tolist(), [*low.tolist(), *high.tolist()], *limits)
    if limits == (-1, -1):
        assert torch.equal(found, torch.where(inside[:, None], cells.flip(1), -1))
        return
    padded, coordinates, counts = found
    assert coordinates.tolist() == list(map(list, voxels))
    for place, members in enumerate(voxels.values()):
        kept = torch.stack(members[:3])
        assert int(counts[place]) == len(kept) and torch.equal(padded[place, : len(kept)], kept)
