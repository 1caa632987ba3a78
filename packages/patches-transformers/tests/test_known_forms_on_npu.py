"""Every known form with the operators of the NPU, beside upstream's own code on the same simulated NPU."""

from __future__ import annotations

import importlib.util
import os

import pytest

torch = pytest.importorskip("torch")

if importlib.util.find_spec("transformers") is None:
    pytest.skip("transformers is not installed in this environment", allow_module_level=True)
if importlib.util.find_spec("patcher_testing") is None or "PATCHER_TESTING_NPU_PACKAGES" not in os.environ:
    pytest.skip("there is no torch_npu to simulate in this environment", allow_module_level=True)

import form_inputs  # noqa: E402
from form_comparison import KINDS, assert_same, both, one_of_each  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.filterwarnings("ignore")]

#: What a form must have run on the NPU.
OPERATORS = {"RMSNorm": "npu_rms_norm", "RotaryEmbedding": "npu_rotary_mul", "GatedMLP": "npu_swiglu"}
COPIES = [pytest.param(kind, *one.values, id=one.id) for kind in KINDS for one in one_of_each(kind)]


def _calls(kind, copy, owner, original, dtype, other_dtype):
    """The tensors to take gradients of, and the arguments, all on the NPU; weights, cos and sin in another dtype."""
    form = KINDS[kind].forms[copy.fingerprint]
    if kind == "RotaryEmbedding":
        arguments = form_inputs.rotary_arguments(form, original, dtype, other_dtype)
        arguments = {name: _on_npu(one) for name, one in arguments.items()}
        yield [one for one in arguments.values() if torch.is_tensor(one) and one.requires_grad], [], arguments
        return
    if kind == "GatedMLP":
        calls = [form_inputs.gated_mlp(owner, form, dtype)]
    else:
        x = (torch.randn(2, 3, form_inputs.WIDTH) * 3).to(dtype).requires_grad_()
        calls = [(module, [x]) for module in form_inputs.norms(owner, dtype, other_dtype)]
    for module, arguments in calls:
        arguments = [_on_npu(one) for one in arguments]
        yield [arguments[0], *module.to("npu").parameters()], [module, *arguments], {}


def _on_npu(value):
    return value.detach().to("npu").requires_grad_(value.requires_grad) if torch.is_tensor(value) else value


@pytest.mark.parametrize(("kind", "copy"), COPIES)
def test_a_form_on_the_npu_is_what_upstream_computes(simulated_npu, kind, copy):
    owner, original, patched = both(kind, copy, backend="npu")
    with simulated_npu.record_operators() as operators:
        for inputs, arguments, named in _calls(kind, copy, owner, original, torch.float32, torch.float32):
            assert_same(patched, original, inputs, *arguments, **named, exact=False)
    operators.assert_ran(OPERATORS[kind])


@pytest.mark.parametrize(("kind", "copy"), COPIES)
def test_a_form_on_the_npu_gives_the_dtype_that_upstream_gives(kind, copy):
    owner, original, patched = both(kind, copy, backend="npu")
    for _, arguments, named in _calls(kind, copy, owner, original, torch.bfloat16, torch.float32):
        found, expected = (f(*arguments, **named) for f in (patched, original))
        found, expected = (one if isinstance(one, tuple) else (one,) for one in (found, expected))
        assert [one.dtype for one in found] == [one.dtype for one in expected]
