"""Every copy of what the structural patches replace in the installed transformers, by form. No model is imported.

    python tools/survey_forms.py            # counts, coverage, and what is left alone and why
    python tools/survey_forms.py --sources  # and the place of the first copy of each form

Where a new version of transformers has a form that is not known, its fingerprint is printed here; write its
implementation, or the reason why it is left alone, into the table of the patch.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Iterator, NamedTuple

from patcher_core.fingerprints import definitions
from transformers_patches.gated_mlp import GATED_MLPS
from transformers_patches.known_forms import KnownForms
from transformers_patches.rms_norm import RMS_NORMS
from transformers_patches.rotary_embedding import ROTARY_EMBEDDINGS

KINDS = {"RMSNorm": RMS_NORMS, "RotaryEmbedding": ROTARY_EMBEDDINGS, "GatedMLP": GATED_MLPS}
#: Reasons that say that a definition is not what the patch is for, so that it is no part of what could be covered.
NOT_MEANT = ("it is not gated", "it is written for another framework than PyTorch")


class Copy(NamedTuple):
    """One definition in the installed library."""

    module: str
    qualname: str
    line: int
    fingerprint: str


def copies(known: KnownForms) -> Iterator[Copy]:
    """Every definition of those names in ``transformers.models``, sorted by module."""
    spec = importlib.util.find_spec("transformers")
    if spec is None or spec.origin is None:
        raise SystemExit("transformers is not installed here")
    models = Path(spec.origin).parent / "models"
    for path in sorted(models.glob("*/modeling_*.py")):
        for found in definitions(path.read_text(encoding="utf-8"), known.names):
            module = f"transformers.models.{path.parent.name}.{path.stem}"
            yield Copy(module, found.qualname, found.line, found.fingerprint)


def copies_by_fingerprint(known: KnownForms) -> dict[str, list[Copy]]:
    """The same by fingerprint, the commonest first."""
    groups: dict[str, list[Copy]] = {}
    for copy in copies(known):
        groups.setdefault(copy.fingerprint, []).append(copy)
    return dict(sorted(groups.items(), key=lambda group: -len(group[1])))


class Coverage(NamedTuple):
    """How many definitions there are, how many of them are replaced, and how many forms are not known."""

    meant: int
    covered: int
    unknown: int

    @property
    def share(self) -> float:
        return self.covered / self.meant if self.meant else 1.0


def coverage(known: KnownForms) -> Coverage:
    """The coverage of one patch in the installed transformers."""
    groups = copies_by_fingerprint(known)
    meant = {one: found for one, found in groups.items() if known.left_alone.get(one) not in NOT_MEANT}
    return Coverage(
        sum(len(found) for found in meant.values()),
        sum(len(found) for one, found in meant.items() if one in known.forms),
        sum(one not in known.forms and one not in known.left_alone for one in groups),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sources", action="store_true", help="print the place of the first copy of each form"
    )
    show_sources = parser.parse_args().sources
    print(f"transformers {importlib.metadata.version('transformers')}")
    for name, known in KINDS.items():
        found = coverage(known)
        print(
            f"\n{name}: {found.covered} of {found.meant} definitions ({found.share:.1%}), {found.unknown} unknown forms"
        )
        for fingerprint, group in copies_by_fingerprint(known).items():
            reason = known.left_alone.get(fingerprint, "NOT KNOWN")
            if reason in NOT_MEANT and not show_sources:
                continue
            verdict = known.forms.get(fingerprint) or f"left alone: {reason}"
            print(f"  {len(group):4d}  {fingerprint}  {verdict}")
            if show_sources:
                print(f"        {group[0].module}.{group[0].qualname}, line {group[0].line}")


if __name__ == "__main__":
    main()
