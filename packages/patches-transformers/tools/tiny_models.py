"""Models of the installed transformers, built tiny from a configuration, patched against unpatched.

    python tools/tiny_models.py                 # every family of which something is replaced
    python tools/tiny_models.py llama gemma2    # these

Nothing is downloaded. Each family runs in a forked process, so that none can disturb the others.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import importlib.metadata
import inspect
import io
import multiprocessing
import re
import resource
import warnings
from typing import Any, Mapping, NamedTuple

import torch
from differences import Float64, difference_in_roundings, largest_difference, relative_errors
from example_inputs import example_inputs

#: What a configuration is shrunk to, wherever it has an attribute of that name.
SIZES = {
    **dict.fromkeys(("hidden_size", "d_model", "embed_dim", "out_hidden_size"), 32),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "intermediate_size_mlp"), 40),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "expert_intermediate_size"), 24),
    **dict.fromkeys(("num_hidden_layers", "num_layers", "n_layer", "encoder_layers", "decoder_layers", "depth"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads"), 4),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 2),
    **dict.fromkeys(("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts"), 2),
    **dict.fromkeys(("n_group", "topk_group"), 1),
    **dict.fromkeys(("q_lora_rank", "kv_lora_rank"), 16),
    **dict.fromkeys(("head_dim", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rotary_dim"), 8),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), 64),
    "hidden_size_per_layer_input": 8,
    "max_position_embeddings": 64,
    "first_k_dense_replace": 1,
    **dict.fromkeys(("upsample_groups", "mamba_d_head"), 16),
    "mamba_n_heads": 4,
    "image_size": 32,
    "patch_size": 8,
    "num_kv_shared_layers": 0,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}  # fmt: skip
#: What transformers 4 needs besides, where its own default is None.
ROPE_SCALING = {
    name: {"rope_type": "default", "mrope_section": [2, 1, 1]}
    for name in (
        *("qwen3_vl_text", "qwen3_vl_moe_text"),
        *("qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"),
    )
}
#: For models whose rotation has a fixed size, such as the three sections of Qwen2.5-VL: tried where SIZES do not build.
WIDE_HEADS = {
    **SIZES,
    **dict.fromkeys(("hidden_size", "d_model", "embed_dim"), 256),
    **dict.fromkeys(("num_attention_heads", "n_head", "num_heads"), 2),
    **dict.fromkeys(("num_key_value_heads", "num_kv_heads"), 1),
    **dict.fromkeys(("head_dim", "rotary_dim"), 128),
}
#: More parameters than this, and a configuration counts as one that does not shrink.
LARGEST = 30_000_000


class Outcome(NamedTuple):
    """How one family fared: ``""`` as the problem where patched is unpatched."""

    family: str
    built: bool
    norms: int = 0
    rotations: int = 0
    gated_mlps: int = 0
    left_alone: tuple[str, ...] = ()
    problem: str = ""
    equal_to_the_bit: bool = False

    @property
    def verdict(self) -> str:
        if not self.built:
            return f"does not build: {self.problem}"
        return self.problem or ("equal to the bit" if self.equal_to_the_bit else "equal within the tolerance")


def tiny_configuration(config_class: type, sizes: Mapping[str, int] = SIZES, sets_unset: bool = False) -> Any:
    """The default configuration with these sizes, also in the configurations of its parts (text, vision, audio).

    Args:
        sets_unset: also where the default is None, which some configurations have for what a model needs.
    """
    return config_class(**_named_there(config_class(), sizes, sets_unset))


def _named_there(default: Any, sizes: Mapping[str, int], sets_unset: bool) -> dict[str, Any]:
    """Those sizes that the configuration has, and the same for each of its parts."""
    from transformers import PretrainedConfig

    own: dict[str, Any] = {
        name: size
        for name, size in sizes.items()
        if (_read(default, name) is not None or (sets_unset and name in vars(default)))
        and not _is_computed(default, name)
    }
    if "kv_lora_rank" in own and "num_key_value_heads" in own:
        own["num_key_value_heads"] = own["num_attention_heads"]  # latent attention: a key for each query
    if default.model_type in ROPE_SCALING and _read(default, "rope_parameters") is None:
        own["rope_scaling"] = ROPE_SCALING[default.model_type]
    for name in ("rope_parameters", "rope_scaling"):
        rope = _read(default, name)
        if isinstance(rope, dict) and "mrope_section" in rope and "head_dim" in sizes:
            own[name] = {**rope, "mrope_section": _sections(default, rope, sizes["head_dim"])}
    for name in getattr(default, "sub_configs", ()):
        part = _read(default, name)
        if isinstance(part, PretrainedConfig):
            own[name] = {**_named_there(part, sizes, sets_unset), "model_type": part.model_type}
    return own


def _sections(default: Any, rope: Mapping[str, Any], head_dim: int) -> list[int]:
    """Sections of a multimodal rotation in the proportions of Qwen-VL's: 16, 24, 24 of 64 pairs."""
    rotated = rope.get("partial_rotary_factor") or _read(default, "partial_rotary_factor") or 1.0
    pairs = int(head_dim * rotated) // 2
    return [pairs - 2 * (pairs * 3 // 8), pairs * 3 // 8, pairs * 3 // 8]


def _is_computed(configuration: Any, name: str) -> bool:
    found = inspect.getattr_static(type(configuration), name, None)
    return isinstance(found, property) and found.fset is None


def _read(configuration: Any, name: str) -> Any:
    """The attribute, or None; Gemma 4 raises an error of its own for those that differ between layers."""
    try:
        return getattr(configuration, name, None)
    except Exception:
        return None


def tiny_model(family: str, sizes: Mapping[str, int] = SIZES, sets_unset: bool = False) -> torch.nn.Module:
    """A model of the family with random weights, in evaluation mode: for causal language modelling where it can.

    Raises:
        ValueError: it has more than ``LARGEST`` parameters. Whatever upstream raises where it cannot be built.
    """
    from transformers import CONFIG_MAPPING, AutoModel, AutoModelForCausalLM

    config = tiny_configuration(CONFIG_MAPPING[family], sizes, sets_unset)
    auto = AutoModelForCausalLM if type(config) in AutoModelForCausalLM._model_mapping else AutoModel
    with torch.device("meta"):
        size = sum(one.numel() for one in auto.from_config(config, attn_implementation="eager").parameters())
    if size > LARGEST:
        raise ValueError(f"{size / 1e6:.0f} million parameters: its configuration does not shrink")
    model = auto.from_config(config, attn_implementation="eager")
    for parameter in model.parameters():  # upstream's initial norms are all ones, rotations of equal heads
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def model_that_runs(family: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor], list[torch.Tensor]]:
    """The model in the first sizes with which it runs, what it is called with, and what it computes."""
    first = None
    for sizes, sets_unset in ((SIZES, False), (WIDE_HEADS, False), (SIZES, True)):
        try:
            model = tiny_model(family, sizes, sets_unset)
            for inputs in example_inputs(model):
                try:
                    return model, inputs, outputs_and_gradients(model, inputs)
                except Exception as error:
                    first = first or error
        except Exception as error:
            first = first or error
    raise first or TypeError(f"{type(model).__name__} takes neither text nor pictures nor sound")


def outputs_and_gradients(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """The first output, and the gradients of a weighted sum of it by every parameter that it depends on."""
    parameters_of_forward = inspect.signature(model.forward).parameters
    no_cache = {"use_cache": False} if "use_cache" in parameters_of_forward else {}
    dtype = next(model.parameters()).dtype
    given = {name: one.to(dtype) if one.is_floating_point() else one for name, one in inputs.items()}
    output = model(**given, **no_cache)
    first = output if torch.is_tensor(output) else output[0] if "logits" not in output else output["logits"]
    weights = torch.linspace(-1, 1, first.numel()).reshape(first.shape).to(first.device)
    parameters = [one for one in model.parameters() if one.requires_grad]
    gradients = torch.autograd.grad((first.to(_wider(dtype)) * weights).sum(), parameters, allow_unused=True)
    return [first.detach(), *(one for one in gradients if one is not None)]


def _wider(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)


def exact_outputs_and_gradients(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]
) -> list[torch.Tensor]:
    """The same in float64 throughout, by a copy of the model."""
    with Float64():
        return outputs_and_gradients(copy.deepcopy(model).double(), inputs)


#: float32, relative to the largest value of each tensor: what another order of summation does. There is no lower limit
#: to what counts: a gradient of 1e-9 must agree to five digits of its own.
FLOAT32_TOLERANCE = 1e-5
#: In units of the error that rounding leaves in upstream's own result: two results that are rounded at other places
#: lie up to one such error each from the exact one, on either side. For bfloat16 the exact one is that of float32, and
#: the smallest unit what one rounding does to the largest value. Where float32 differs by more than its tolerance, the
#: errors of both are taken from runs in float64.
ROUNDINGS = 2.0
OTHER_SEEDS = (101, 102, 103)
_BFLOAT16_UNIT = torch.finfo(torch.bfloat16).eps / 2


def compare(family: str, seed: int = 0) -> Outcome:
    """Build the family, run it unpatched, patched and restored, in float32 and bfloat16."""
    torch.manual_seed(seed)
    try:
        model, inputs, exact = model_that_runs(family)
    except Exception as error:
        reason = re.sub(
            r" from '?/\S*", "", " ".join(str(error).split())
        )  # the place of the installation says nothing
        return Outcome(family, False, problem=f"{type(error).__name__}: {reason}"[:160])
    found, results = _patched(model, inputs)
    outcome = Outcome(family, True, *_counts(results), _left_alone(results))
    difference = largest_difference(found, exact)
    if difference > FLOAT32_TOLERANCE:
        roundings = float32_errors_in_upstreams(family)
        if roundings > ROUNDINGS:
            return outcome._replace(
                problem=f"float32 differs by {difference:.1e}, {roundings:.1f} times its own rounding"
            )
    if largest_difference(outputs_and_gradients(model, inputs), exact) != 0.0:
        return outcome._replace(problem="restore() does not give upstream's values back")
    equal = torch.equal(found[0], exact[0])
    try:
        expected = outputs_and_gradients(model.to(torch.bfloat16), inputs)
    except Exception:
        return outcome._replace(equal_to_the_bit=equal)  # some models run in float32 only on a CPU
    found, _ = _patched(model, inputs)
    difference = difference_in_roundings(found, expected, exact, _BFLOAT16_UNIT)
    if difference > ROUNDINGS:
        return outcome._replace(
            problem=f"bfloat16 differs by {difference:.1f} times its own rounding > {ROUNDINGS}"
        )
    return outcome._replace(equal_to_the_bit=equal and torch.equal(found[0], expected[0]))


def float32_errors_in_upstreams(family: str) -> float:
    """The patched model's largest error in float32, in units of upstream's own in the same tensor.

    Both against float64, relative to the largest value, and summed over models with other weights: in a gradient whose
    terms cancel one another, which of two errors is the larger is chance.
    """
    errors = []
    for seed in OTHER_SEEDS:
        torch.manual_seed(seed)
        model, inputs, expected = model_that_runs(family)
        exact = exact_outputs_and_gradients(model, inputs)
        found, _ = _patched(model, inputs)
        errors.append([relative_errors(one, exact) for one in (found, expected)])
    ours, upstreams = (list(map(sum, zip(*side))) for side in zip(*errors))
    smallest = len(OTHER_SEEDS) * FLOAT32_TOLERANCE / ROUNDINGS
    return max(one / max(other, smallest) for one, other in zip(ours, upstreams))


def _patched(
    model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]
) -> tuple[list[torch.Tensor], list[Any]]:
    """What the patched model computes, and the results that are about its own files."""
    import transformers_patches
    from patcher_core import Patcher

    with Patcher(backend="portable").add(*transformers_patches.STRUCTURAL) as patcher:
        found = outputs_and_gradients(model, inputs)
        files = {type(one).__module__ for one in model.modules()}
        own = [one for one in patcher.report if any(one.name.startswith(f"{file}.") for file in files)]
    return found, own


def _counts(results: list[Any]) -> tuple[int, ...]:
    applied = [one.group for one in results if one.status.value == "applied"]
    return tuple(applied.count(group) for group in ("rms_norm", "rope", "swiglu"))


def _left_alone(results: list[Any]) -> tuple[str, ...]:
    return tuple(
        sorted(
            f"{one.name.rpartition('modeling_')[2]}: {one.reason}"
            for one in results
            if one.status.value == "skipped" and "it is not gated" not in one.reason
        )
    )


def keeps_its_rotation(model: torch.nn.Module) -> bool:
    """Whether attention layers keep ``apply_rotary_pos_emb`` in an attribute, as in transformers 5.0 to 5.10.

    pickle refuses a function that is not what its name means at that time, as while it is patched.
    """
    kept = (
        function
        for module in model.modules()
        for function in (vars(module).get("rotary_fn"), *vars(module).get("_hidden_kernels", {}).values())
    )
    return any(getattr(function, "__name__", "") == "apply_rotary_pos_emb" for function in kept)


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
    chosen = parser.parse_args().families or families_with_copies()
    tiny_model("llama")  # imports for all children what every model needs
    print(f"transformers {importlib.metadata.version('transformers')}: {len(chosen)} families")
    print(f"{'family':34} norms ropes mlps  result")
    for family in chosen:
        outcome = compare_in_child(family)
        counts = f"{outcome.norms:5d} {outcome.rotations:5d} {outcome.gated_mlps:4d}"
        print(f"{family:34} {counts}  {outcome.verdict}", *outcome.left_alone, sep="; ", flush=True)


if __name__ == "__main__":
    main()
