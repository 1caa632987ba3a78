"""How every model family fares in every version of transformers: recorded, and written as a table.

    python tools/whole_models.py record    # compare the families of the installed version that are not recorded yet
    python tools/whole_models.py table     # write docs/transformers-models.md

``record`` can be interrupted: it writes after every family, and begins where it stopped.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import json
from pathlib import Path
from typing import Any, Iterator

RECORD = Path(__file__).parent / "whole_models.json"
TABLE = Path(__file__).parents[3] / "docs" / "transformers-models.md"


def recorded() -> dict[str, dict[str, Any]]:
    """version of transformers -> ``families``, how many there are, and ``outcomes``: family -> its outcome's fields."""
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def record() -> None:
    import tiny_models

    version = importlib.metadata.version("transformers")
    families = tiny_models.families_with_copies()
    tiny_models.tiny_model("llama")  # imports for all children what every model needs
    for family in families:
        everything = recorded()
        own = everything.setdefault(version, {"families": len(families), "outcomes": {}})
        if family in own["outcomes"]:
            continue
        outcome = tiny_models.compare_in_child(family)
        print(f"{family}: {outcome.verdict}", flush=True)
        own["outcomes"][family] = outcome._asdict()
        RECORD.write_text(json.dumps(everything, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def table() -> Iterator[str]:
    from tiny_models import FLOAT32_TOLERANCE, ROUNDINGS, Outcome

    versions = {
        version: {family: Outcome(**fields) for family, fields in own["outcomes"].items()}
        for version, own in sorted(recorded().items())
    }
    families = {version: own["families"] for version, own in recorded().items()}
    yield "# transformers: model families, patched against unpatched"
    yield ""
    yield (
        "Written by `packages/patches-transformers/tools/whole_models.py`. Every model family whose files hold a"
        " definition that `transformers_patches` replaces, built from a tiny configuration without a download, run on"
        " a CPU: the first output and the gradients of all parameters. float32: each tensor to"
        f" {FLOAT32_TOLERANCE:.0e} of its largest value, or to {ROUNDINGS:g} times the error that rounding leaves in"
        f" upstream's own result, which a run in float64 shows. bfloat16: to {ROUNDINGS:g} times that error, which"
        " float32 shows, or as many times what one rounding does to the largest value."
    )
    yield ""
    yield (
        "| transformers | families | tried | build | patched = unpatched | of those to the bit |"
        " norms, rotations, gated layers replaced |"
    )
    yield "|---|---|---|---|---|---|---|"
    for version, outcomes in versions.items():
        built = [one for one in outcomes.values() if one.built]
        equal = [one for one in built if not one.problem]
        replaced = ", ".join(str(sum(getattr(o, kind) for o in equal)) for kind in _KINDS)
        bits = sum(one.equal_to_the_bit for one in equal)
        counts = (families[version], len(outcomes), len(built), len(equal), bits)
        yield f"| {version} | {' | '.join(map(str, counts))} | {replaced} |"
    yield ""
    yield (
        "A cell says how many definitions of norms, rotations and gated layers are replaced; `=` to the bit,"
        " `≈` within the tolerance, `no`: not built, an empty cell: not in this version, or not tried."
    )
    yield from ("", "| family | " + " | ".join(versions) + " |", "|---|" + "---|" * len(versions))
    for family in sorted({family for outcomes in versions.values() for family in outcomes}):
        cells = (_cell(outcomes.get(family)) for outcomes in versions.values())
        yield f"| {family} | " + " | ".join(cells) + " |"
    yield from ("", "## Left alone in families that are built, and why", "")
    yield from _reasons(
        (line.partition(": ")[2].replace("left alone: ", ""), line.partition(": ")[0])
        for outcomes in versions.values()
        for outcome in outcomes.values()
        for line in outcome.left_alone
    )
    yield from ("## Not built, and why", "")
    yield from _reasons(
        (outcome.problem, f"{family} ({version})")
        for version, outcomes in versions.items()
        for family, outcome in outcomes.items()
        if not outcome.built
    )


_KINDS = ("norms", "rotations", "gated_mlps")


def _cell(outcome: Any) -> str:
    if outcome is None:
        return ""
    if not outcome.built:
        return "no"
    sign = outcome.problem or ("=" if outcome.equal_to_the_bit else "≈")
    return " ".join([*(str(getattr(outcome, kind)) for kind in _KINDS), sign])


def _reasons(pairs: Iterator[tuple[str, str]]) -> Iterator[str]:
    """A line for each reason, with everything that it is the reason for."""
    grouped: dict[str, set[str]] = collections.defaultdict(set)
    for reason, subject in pairs:
        grouped[reason].add(subject)
    for reason, subjects in sorted(grouped.items(), key=lambda item: (-len(item[1]), item[0])):
        yield f"- {reason}: {', '.join(sorted(subjects))}"
    yield ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "table"))
    if parser.parse_args().what == "record":
        record()
    else:
        TABLE.write_text("\n".join(table()), encoding="utf-8")


if __name__ == "__main__":
    main()
