"""A new patch set passes the contract suite as it was written."""

import os
import subprocess

import pytest

from nox_support.environments import ROOT
from nox_support.new_patch_set import write_patch_set


def uv(*arguments, **settings):
    subprocess.run(["uv", *map(str, arguments)], check=True, capture_output=True, **settings)


def test_it_passes_the_contract(tmp_path):
    folder = write_patch_set("tabulate", "tabulate.tabulate", "tabulate", "0.9.0", tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    uv("venv", "--python", "3.11", tmp_path / "venv")
    local = [
        argument
        for name in ("patcher-core", "patcher-testing")
        for argument in ("-e", ROOT / "packages" / name)
    ]
    uv("pip", "install", "--python", python, *local, "-e", folder, "tabulate==0.9.0", "pytest")
    process = subprocess.run(
        [python, "-m", "pytest", "-q", "-W", "error", "tests"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST")},
    )
    assert process.returncode == 0, process.stdout + process.stderr


@pytest.mark.parametrize(
    "name, target, complaint",
    [
        ("Tabulate", "tabulate.tabulate", "NAME is 'Tabulate'"),
        ("../x", "tabulate.tabulate", "NAME is '../x'"),
        ("tabulate", "tabulate", "TARGET is 'tabulate'"),
        ("tabulate", "tabulate.tabulate()", "TARGET is"),
    ],
)
def test_what_cannot_be_meant_writes_nothing(tmp_path, name, target, complaint):
    with pytest.raises(ValueError, match=complaint):
        write_patch_set(name, target, "tabulate", "0.9.0", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_patch_set_that_exists_is_left_alone(tmp_path):
    kept = tmp_path / "patches-tabulate" / "mine.py"
    kept.parent.mkdir()
    kept.write_text("mine")
    with pytest.raises(FileExistsError, match="choose another name"):
        write_patch_set("tabulate", "tabulate.tabulate", "tabulate", "0.9.0", tmp_path)
    assert [file.name for file in kept.parent.iterdir()] == ["mine.py"]
