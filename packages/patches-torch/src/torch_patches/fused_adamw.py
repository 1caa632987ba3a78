"""The step of torch_npu's fused AdamW as one operator."""

from __future__ import annotations

from typing import Any, Mapping

from patcher_core import AtomicPatch, Patch


class FusedAdamW(Patch):
    """``torch_npu.optim.NpuFusedAdamW`` with ``mx_driving.fused_adamw_custom``.

    torch_npu combines the parameters of a group into one tensor and updates that with a dozen operators; this is one.
    """

    name = "npu_fused_adamw_step"
    library = "torch_npu"
    backends = ("npu",)
    why = "the update of the combined parameters takes a dozen passes over memory"
    upstream = "torch_npu/optim/npu_fused_adamw.py, torch_npu 2.1.0.post17 to 2.13.0"

    @classmethod
    def patches(cls, options: Mapping[str, Any] | None = None) -> list[Any]:
        return [AtomicPatch("torch_npu.optim.NpuFusedAdamW._group_step", group_step)]


def group_step(self: Any, group_index: int) -> None:
    """Update the combined parameters of one group, in place (AdamW, https://arxiv.org/abs/1711.05101).

    Raises:
        RuntimeError: a gradient is sparse.
    """
    import mx_driving

    group = self.param_groups[group_index]
    for parameter in group["params"]:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            raise RuntimeError("NpuFusedAdamW takes no sparse gradients; use torch.optim.SparseAdam for them")
        self.state[parameter]["step"] += 1
    for parameters, gradients, state in zip(
        self.combined_params_indexed_by_group[group_index],
        self.combined_grads_indexed_by_group[group_index],
        self.combined_param_states_indexed_by_group[group_index],
    ):
        if parameters is None or gradients is None:
            continue
        state["step"] += 1
        mx_driving.fused_adamw_custom(
            parameters,
            gradients,
            state["exp_avg"],
            state["exp_avg_sq"],
            state["max_exp_avg_sq"] if group["amsgrad"] else None,
            group["lr"],
            *group["betas"],
            group["weight_decay"],
            group["eps"],
            state["step"],
            group["amsgrad"],
        )
