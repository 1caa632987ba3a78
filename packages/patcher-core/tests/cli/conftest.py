"""A small library in two versions, a patch set for it, and real processes of the ``patcher`` command."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any, Mapping

import pytest

LIBRARY = {
    "greeter/__init__.py": '__version__ = "1.0"\n',
    "greeter/words.py": """
        SEPARATOR = ", "

        def greet(name):
            \"\"\"A greeting.\"\"\"
            return join("hello", name)

        def part(name):
            return join("goodbye", name)

        def join(word, name):
            return word + SEPARATOR + name

        class Door:
            def knock(self, times=1):
                return "knock" * times
    """,
    "greeter-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1.0\n",
}
LIBRARY_2 = {
    **LIBRARY,
    "greeter/words.py": LIBRARY["greeter/words.py"]
    .replace("word + SEPARATOR + name", 'f"{word}{SEPARATOR}{name}"')
    .replace('"knock" * times', '" ".join(["knock"] * times)  # as people do'),
    "greeter/__init__.py": '__version__ = "1.1"\n',
    "greeter-1.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: greeter\nVersion: 1.1\n",
}
del LIBRARY_2["greeter-1.0.dist-info/METADATA"]
PATCH_SET = {
    "greeter_patches.py": """
        from patcher_core import AtomicPatch, Patch

        def loud_greet(name):
            return ("HELLO, " + name).upper()

        def soft_part(name):
            return "bye " + name

        def knock_twice(self, times=1):
            return "knock" * times * 2

        def is_short(name):
            return len(name) < 4

        class LoudGreeting(Patch):
            \"\"\"Greets loudly.\"\"\"
            library = "greeter"
            why = "upstream cannot be heard <on> the device"
            upstream = "greeter issue 7"
            until = "greeter 3"

            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("greeter.words.greet", loud_greet)]

        class SoftParting(Patch):
            library = "greeter"
            why = "upstream is harsh"
            backends = ("portable",)

            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("greeter.words.part", soft_part, runtime_check=is_short)]

        class Knocking(Patch):
            library = "greeter"
            why = "one is not heard"

            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("greeter.words.Door.knock", knock_twice)]

        DEFAULT = [LoudGreeting]
        ALL = [*DEFAULT, SoftParting]
        CATALOG = [*ALL, Knocking]
    """,
    "patches_greeter-0.5.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: patches-greeter\nVersion: 0.5\nProvides-Extra: upstream\n"
        "Requires-Dist: greeter<2,>=1.0; extra == 'upstream'\n"
    ),
    "patches_greeter-0.5.dist-info/entry_points.txt": "[patcher.patch_sets]\ngreeter = greeter_patches\n",
}


class Project:
    """A folder with a model's files, beside a folder of installed libraries that stands on PYTHONPATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "project"
        self.libraries = folder / "libraries"
        self.folder.mkdir()
        self.install({**LIBRARY, **PATCH_SET})

    def install(self, files: Mapping[str, str]) -> None:
        """Put files into the folder of installed libraries."""
        write_files(self.libraries, files)

    def upgrade_library(self) -> None:
        """Install the other version of the library in place of the first."""
        for file in (self.libraries / "greeter-1.0.dist-info").iterdir():
            file.unlink()
        (self.libraries / "greeter-1.0.dist-info").rmdir()
        self.install(LIBRARY_2)

    def write(self, name: str, text: str) -> Path:
        """Write a file of the model."""
        write_files(self.folder, {name: text})
        return self.folder / name

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def patcher(self, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run the ``patcher`` command here."""
        return self.python("-m", "patcher_core", *arguments, **options)

    def python(
        self, *arguments: str, status: int | None = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run Python here, and hold its exit status against ``status`` (None: any)."""
        done = subprocess.run(
            [sys.executable, *arguments],
            cwd=str(self.folder),
            env=self.environment(env),
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert status is None or done.returncode == status, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment variables of commands that run here."""
        hidden = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "PATCHER_", "NO_COLOR", "FORCE_COLOR")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        paths = [str(self.libraries), *(path for path in sys.path if path)]
        return {**kept, "PYTHONPATH": os.pathsep.join(paths), **(more or {})}


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for relative, text in files.items():
        path = folder / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)
