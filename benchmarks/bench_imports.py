"""What it costs a program to import the core, beside `import logging`."""

from __future__ import annotations

from typing import Iterator

from .paired import Figure, paired_processes


def figures() -> Iterator[Figure]:
    yield Figure(
        "import patcher_core",
        paired_processes("import patcher_core", "import logging"),
        1.6,
        "import logging",
    )
