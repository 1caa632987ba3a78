"""Outputs of the references have the shapes and dtypes that torch_npu's own meta kernels announce."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the simulated NPU needs torch")

from torch.utils._pytree import tree_map  # noqa: E402

pytestmark = [pytest.mark.simulated_npu, pytest.mark.usefixtures("simulated_npu", "random_seed")]


def half(*shape):
    return torch.randn(shape, dtype=torch.float16)


CAUSAL = torch.ones(2048, 2048, dtype=torch.bool).triu(1)

CALLS = {
    "npu_rms_norm": lambda: (half(3, 5, 16), half(16)),
    "npu_rms_norm float32 gamma": lambda: (half(3, 5, 16), torch.rand(16)),
    "npu_add_rms_norm": lambda: (half(3, 5, 16), half(3, 5, 16), half(16)),
    "npu_gemma_rms_norm": lambda: (half(3, 16), half(16)),
    "npu_layer_norm_eval": lambda: (half(3, 16), [16]),
    "npu_rotary_mul": lambda: (half(2, 4, 6, 8), half(2, 1, 6, 8), half(2, 1, 6, 8)),
    "npu_rotary_mul_backward": lambda: (
        half(2, 4, 6, 8),
        half(2, 4, 6, 8),
        half(2, 1, 6, 8),
        half(2, 1, 6, 8),
    ),
    "npu_apply_rotary_pos_emb": lambda: (
        half(2, 6, 4, 8),
        half(2, 6, 2, 8),
        half(2, 6, 1, 8),
        half(2, 6, 1, 8),
    ),
    "npu_swiglu": lambda: (half(3, 6, 8), -1),
    "npu_swiglu middle": lambda: (half(3, 6, 8), 1),
    "npu_swiglu_backward": lambda: (half(3, 6, 4), half(3, 6, 8)),
    "npu_geglu": lambda: (half(3, 8),),
    "fast_gelu": lambda: (half(3, 8),),
    "npu_fast_gelu_backward": lambda: (half(3, 8), half(3, 8)),
    "npu_gelu": lambda: (half(3, 8),),
    "npu_silu": lambda: (half(3, 8),),
    "npu_transpose": lambda: (half(2, 3, 4), [0, 2, 1]),
    "npu_dtype_cast": lambda: (half(2, 3), torch.float32),
    "npu_fusion_attention BNSD": lambda: (half(2, 4, 6, 8), half(2, 2, 5, 8), half(2, 2, 5, 8), 4, "BNSD"),
    "npu_fusion_attention BSND": lambda: (half(2, 6, 4, 8), half(2, 5, 2, 8), half(2, 5, 2, 8), 4, "BSND"),
    "npu_fusion_attention BSH": lambda: (half(2, 6, 32), half(2, 5, 16), half(2, 5, 16), 4, "BSH"),
    "npu_fusion_attention SBH": lambda: (half(6, 2, 32), half(5, 2, 16), half(5, 2, 16), 4, "SBH"),
}


def described(value):
    return (tuple(value.shape), value.dtype) if isinstance(value, torch.Tensor) else type(value)


def on(device, value):
    return value.to(device) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("name", CALLS)
def test_outputs_are_what_the_meta_kernel_announces(name):
    operator = getattr(torch.ops.npu, name.partition(" ")[0])
    args = CALLS[name]()
    announced = operator(*tree_map(lambda value: on("meta", value), args))
    found = operator(*tree_map(lambda value: on("npu", value), args))
    assert tree_map(described, found) == tree_map(described, announced)


def test_packed_attention_gives_what_the_meta_kernel_announces():
    import torch_npu

    tensors = (half(8, 4, 8), half(9, 2, 8), half(9, 2, 8))
    options = {"actual_seq_qlen": [3, 8], "actual_seq_kvlen": [4, 9], "sparse_mode": 3}
    found, announced = (
        torch_npu.npu_fusion_attention(
            *(t.to(device) for t in tensors), 4, "TND", atten_mask=CAUSAL.to(device), **options
        )
        for device in ("npu", "meta")
    )
    assert tree_map(described, found) == tree_map(described, announced)
