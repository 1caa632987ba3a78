"""MultiScaleDeformableAttention and PortableExtension on the installed mmcv, against mmcv's own Python formula."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")
if importlib.util.find_spec("mmcv") is None:
    pytest.skip("mmcv is not installed in this environment", allow_module_level=True)

# Upstream's own warnings, about torch and pkg_resources, are not what is tested here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

import mmcv_patches  # noqa: E402
from mmcv_patches import multi_scale_deformable_attention as implementation  # noqa: E402
from patcher_core import Patcher, PatchStatus  # noqa: E402


@pytest.fixture
def function():
    """mmcv's autograd function, patched."""
    with Patcher(backend="portable").add(*mmcv_patches.ALL) as patcher:
        applied = [result.status for result in patcher.report if "multi_scale" in result.name]
        assert applied == [PatchStatus.APPLIED] * 2
        from mmcv.ops import multi_scale_deform_attn

        yield multi_scale_deform_attn


def random_inputs(
    dtype=torch.float64, shapes=((5, 7), (3, 4), (1, 2)), batch=2, heads=2, channels=3, queries=6, points=4
):
    generator = torch.Generator().manual_seed(random.randrange(2**31))
    sizes = torch.tensor(shapes)
    starts = torch.cat([torch.zeros(1, dtype=torch.long), sizes.prod(1).cumsum(0)[:-1]])
    value = torch.randn(batch, int(sizes.prod(1).sum()), heads, channels, generator=generator, dtype=dtype)
    # Between the centres of pixels, where the slope of a sample jumps and float32 rounds to either side.
    across, size = sizes.flip(1)[:, None].to(dtype), (batch, queries, heads, len(shapes), points, 2)
    cell = ((torch.rand(size, generator=generator, dtype=dtype) * 1.4 - 0.2) * across).floor()
    locations = (cell + 0.5 + 0.05 + 0.9 * torch.rand(size, generator=generator, dtype=dtype)) / across
    weights = torch.rand(batch, queries, heads, len(shapes), points, generator=generator, dtype=dtype)
    differentiable = [tensor.requires_grad_() for tensor in (value, locations, weights)]
    return sizes, starts, differentiable


def values_and_gradients(output, inputs):
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(output.dtype)
    return [output, *torch.autograd.grad((output * weight).sum(), inputs)]


def compare(module, dtype, tolerance):
    sizes, starts, inputs = random_inputs(dtype)
    value, locations, weights = inputs
    patched = module.MultiScaleDeformableAttnFunction.apply(value, sizes, starts, locations, weights, 64)
    upstream = module.multi_scale_deformable_attn_pytorch(value, sizes, locations, weights)
    for ours, theirs in zip(values_and_gradients(patched, inputs), values_and_gradients(upstream, inputs)):
        assert ours.dtype is theirs.dtype
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance)


# float32: some hundred terms of size one are summed in another order.
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_values_and_gradients_equal_mmcvs_python_formula(function, dtype, tolerance):
    compare(function, dtype, tolerance)


def test_a_wrong_gradient_planted_on_purpose_is_caught(function, monkeypatch):
    right = implementation.portable_backward

    def wrong(ctx, grad_output):
        gradients = list(right(ctx, grad_output))
        gradients[3] = gradients[3].flip(-1)
        return tuple(gradients)

    monkeypatch.setattr(function.MultiScaleDeformableAttnFunction, "backward", staticmethod(wrong))
    with pytest.raises(AssertionError, match="not close"):
        compare(function, torch.float64, 1e-10)


def test_locations_and_weights_take_the_dtype_of_the_value_as_upstream(function):
    sizes, starts, (value, locations, weights) = random_inputs()
    out = function.MultiScaleDeformableAttnFunction.apply(value.half(), sizes, starts, locations, weights, 64)
    assert out.dtype is torch.float16
    gradients = torch.autograd.grad(out.float().sum(), (value, locations, weights))
    assert all(gradient.isfinite().all() for gradient in gradients)


def run(code):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)


@pytest.mark.skipif(
    importlib.util.find_spec("mmcv._ext") is not None, reason="this mmcv has its compiled operators"
)
def test_mmcv_ops_cannot_be_imported_without_the_extension_and_can_with_it_and_not_after_restore():
    bare = run("import mmcv.ops")
    assert bare.returncode != 0 and "mmcv._ext" in bare.stderr
    patched = run(
        """
        import sys, mmcv_patches
        from patcher_core import Patcher
        patcher = Patcher().add(mmcv_patches.PortableExtension).apply()
        assert "torch" not in sys.modules, "declaring the module imported torch"
        import mmcv.ops
        patcher.restore()
        assert "mmcv._ext" not in sys.modules
        try:
            import mmcv._ext
        except ModuleNotFoundError:
            print("gone again")
        """
    )
    assert patched.stdout.strip() == "gone again", patched.stderr


def test_lazily_applied_the_extension_is_there_when_mmcv_ops_asks_for_it():
    done = run(
        """
        import sys
        from patcher_core import default_patcher
        default_patcher.apply(lazy=True)
        assert not {"torch", "mmcv", "mmcv_patches"} & set(sys.modules)
        from mmcv.ops import MultiScaleDeformableAttention
        ours = [r for r in default_patcher.report if r.group.startswith("multi_scale")]
        print([(r.status.value, r.name.rpartition(".")[2]) for r in ours])
        """
    )
    assert done.stdout.strip() == "[('applied', 'forward'), ('applied', 'backward')]", (
        done.stdout + done.stderr
    )
