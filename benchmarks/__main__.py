"""Prints every figure of `benchmarks/bench_*.py` as a Markdown table; names after `--` choose files.

    python -m nox -s bench
    python -m nox -s bench -- imports

Each file defines `figures()`, which yields Figure and Amount rows. The command fails if one is above its
reach.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from .paired import Amount, Figure, machine

HEADER = "| figure | ratio | middle half | reach | ours | peer |\n|---|---|---|---|---|---|"


def row(figure: Figure | Amount) -> str:
    reach = "shown" if figure.reach is None else f"≤ {figure.reach:g}{'' if figure.reached else ' MISSED'}"
    if isinstance(figure, Amount):
        cells = (figure.name, f"{figure.value:.3g} {figure.unit}", "", reach, "", "")
    else:
        ratio = figure.ratio
        cells = (
            figure.name,
            f"{ratio.median:.3f}",
            f"{ratio.low:.3f} to {ratio.high:.3f}",
            reach,
            duration(ratio.ours_seconds),
            f"{figure.peer}: {duration(ratio.peer_seconds)}",
        )
    return f"| {' | '.join(cells)} |"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main(names: list[str]) -> int:
    known = {
        file.stem[len("bench_") :]: file.stem for file in sorted(Path(__file__).parent.glob("bench_*.py"))
    }
    unknown = sorted(set(names) - set(known))
    if unknown:
        print(f"no benchmark named {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    print(f"{machine()}\n\n{HEADER}", flush=True)
    missed = 0
    for name in names or known:
        for figure in import_module(f"benchmarks.{known[name]}").figures():
            print(row(figure), flush=True)
            missed += not figure.reached
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
