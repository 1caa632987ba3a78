"""Models of the installed transformers, built tiny from a configuration, patched against unpatched.

    python tools/tiny_models.py                 # every family of which something is replaced
    python tools/tiny_models.py llama gemma2    # these

Nothing is downloaded. Each family runs in a forked process, so that none can disturb the others.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import io
import multiprocessing
import resource
import warnings
from typing import Any, NamedTuple

import torch

#: What a configuration is shrunk to, wherever it has an attribute of that name.
SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "embed_dim"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "intermediate_size_mlp"), 40),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_intermediate_size"), 24),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rotary_dim"), 8),
    "vocab_size": 64,
    "max_position_embeddings": 64,
    "first_k_dense_replace": 1,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
#: float32: summation order in gradients only; bfloat16: gradients of a few hundred products, rounded at each.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


class Outcome(NamedTuple):
    """How one family fared: ``""`` as the problem where patched is unpatched."""

    family: str
    built: bool
    norms: int = 0
    rotations: int = 0
    gated_mlps: int = 0
    left_alone: tuple[str, ...] = ()
    problem: str = ""


def tiny_model(family: str) -> torch.nn.Module:
    """A model of the family with random weights, in evaluation mode: for causal language modelling where it can."""
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    config_class = CONFIG_MAPPING[family]
    default = config_class()
    sizes = {name: size for name, size in SIZES.items() if getattr(default, name, None) is not None}
    if (
        "kv_lora_rank" in sizes and "num_key_value_heads" in sizes
    ):  # latent attention has as many keys as queries
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]
    config = config_class(**sizes, attn_implementation="eager")
    auto = AutoModelForCausalLM if type(config) in AutoModelForCausalLM._model_mapping else AutoModel
    model = auto.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # upstream's initial norms are all ones, rotations of equal heads
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def logits_and_gradients(model: torch.nn.Module, input_ids: torch.Tensor) -> list[torch.Tensor]:
    """The first output, and the gradients of a weighted sum of it by every parameter that it depends on."""
    output = model(input_ids=input_ids, use_cache=False)
    first = output[0] if "logits" not in output else output["logits"]
    weights = torch.linspace(-1, 1, first.numel()).reshape(first.shape).to(first.device)
    parameters = [one for one in model.parameters() if one.requires_grad]
    gradients = torch.autograd.grad((first.float() * weights).sum(), parameters, allow_unused=True)
    return [first.detach(), *(one for one in gradients if one is not None)]


def largest_difference(found: list[torch.Tensor], expected: list[torch.Tensor]) -> float:
    """The largest difference between two lists of tensors, relative to the largest value of its tensor, or 0.01."""
    assert len(found) == len(expected), "other parameters have a gradient"
    assert all(torch.isfinite(one).all() for one in expected), "upstream's own values are not finite"
    return max(
        ((one.float() - other.float()).abs().max() / other.float().abs().max().clamp(min=1e-2)).item()
        for one, other in zip(found, expected)
        if other.numel()
    )


def compare(family: str, seed: int = 0) -> Outcome:
    """Build the family, run it unpatched, patched and restored, in float32 and bfloat16."""
    import transformers_patches
    from patcher_core import Patcher

    torch.manual_seed(seed)
    try:
        model = tiny_model(family)
        input_ids = torch.randint(3, 60, (2, 9))
        logits_and_gradients(model, input_ids)
    except Exception as error:
        return Outcome(family, False, problem=f"{type(error).__name__}: {str(error).splitlines()[:1]}"[:110])
    counts: dict[str, int] = {}
    left_alone: set[str] = set()
    for dtype, tolerance in TOLERANCES.items():
        try:
            expected = logits_and_gradients(model.to(dtype), input_ids)
        except Exception:
            continue  # some models run in float32 only on a CPU
        with Patcher(backend="portable").add(*transformers_patches.STRUCTURAL) as patcher:
            found = logits_and_gradients(model, input_ids)
            results = [one for one in patcher.report if f".{family_folder(model)}." in one.name]
            for result in results:
                if result.status.value == "applied" and dtype is torch.float32:
                    counts[result.group] = counts.get(result.group, 0) + 1
                if result.status.value == "skipped" and "it is not gated" not in result.reason:
                    left_alone.add(f"{result.name.rpartition('modeling_')[2]}: {result.reason}")
        difference = largest_difference(found, expected)
        if difference > tolerance:
            return Outcome(
                family, True, problem=f"{dtype}: differs by {difference:.1e}, tolerance {tolerance:.0e}"
            )
        if largest_difference(logits_and_gradients(model, input_ids), expected) != 0.0:
            return Outcome(family, True, problem=f"{dtype}: restore() does not give upstream's values back")
    applied = (counts.get("rms_norm", 0), counts.get("rope", 0), counts.get("swiglu", 0))
    return Outcome(family, True, *applied, tuple(sorted(left_alone)))


def family_folder(model: torch.nn.Module) -> str:
    """The folder of ``transformers.models`` that the model's class stands in."""
    return type(model).__module__.split(".")[2]


def families() -> list[str]:
    """Every model type with a base model."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_MAPPING_NAMES

    return sorted({*MODEL_MAPPING_NAMES, *MODEL_FOR_CAUSAL_LM_MAPPING_NAMES})


def families_with_copies() -> list[str]:
    """Those whose folder of ``transformers.models`` has something that is replaced."""
    import survey_forms
    from transformers import CONFIG_MAPPING

    folders = {
        copy.module.split(".")[2]
        for known in survey_forms.KINDS.values()
        for copy in survey_forms.copies(known)
        if copy.fingerprint in known.forms
    }
    known_families = [family for family in families() if family in CONFIG_MAPPING]
    return [one for one in known_families if CONFIG_MAPPING[one].__module__.split(".")[2] in folders]


#: A family whose configuration does not shrink is stopped at this many bytes.
_ADDRESS_SPACE = 8 * 2**30


def _in_child(family: str, connection: Any) -> None:
    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    with contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        connection.send(compare(family))


def compare_in_child(family: str, seconds: float = 60) -> Outcome:
    """:func:`compare` in a forked process that is ended after ``seconds``."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_in_child, args=(family, theirs))
    child.start()
    theirs.close()
    try:
        return (
            ours.recv()
            if ours.poll(seconds)
            else Outcome(family, False, problem="takes too long or too much")
        )
    except EOFError:
        return Outcome(family, False, problem="its process ended")
    finally:
        child.kill()
        child.join()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*")
    chosen = parser.parse_args().families
    chosen = chosen or families_with_copies()
    tiny_model("llama")  # imports for all children what every model needs
    print(f"transformers {importlib.metadata.version('transformers')}: {len(chosen)} families")
    print(f"{'family':34} norms ropes mlps  result")
    outcomes = []
    for family in chosen:
        outcome = compare_in_child(family)
        outcomes.append(outcome)
        verdict = outcome.problem or "patched = unpatched"
        if not outcome.built:
            verdict = f"does not build: {outcome.problem}"
        counts = f"{outcome.norms:5d} {outcome.rotations:5d} {outcome.gated_mlps:4d}"
        print(
            f"{family:34} {counts}  {verdict}",
            *(f"; left alone: {one}" for one in outcome.left_alone),
            flush=True,
        )
    built = [one for one in outcomes if one.built]
    equal = [one for one in built if not one.problem]
    touched = [one for one in equal if one.norms or one.rotations or one.gated_mlps]
    print(
        f"{len(chosen)} families tried, {len(built)} build, {len(equal)} patched = unpatched, of which {len(touched)}"
        f" have something replaced: {sum(o.norms for o in equal)} norms, {sum(o.rotations for o in equal)} rotations,"
        f" {sum(o.gated_mlps for o in equal)} gated layers"
    )


if __name__ == "__main__":
    main()
