"""From an empty virtual environment to the first report and the first upgrade, with built wheels and a real torch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

PACKAGES = Path(__file__).resolve().parents[3]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

pytestmark = pytest.mark.skipif(
    shutil.which("uv") is None, reason="no uv on PATH, which makes the environment"
)

SOURCE = {
    "1.0": "def scale(batch):\n    return batch * 2\n\ndef shift(batch):\n    return batch + 1\n",
    "1.1": "def scale(batch):\n    return batch.mul(2)\n\ndef shift(batch):\n    return batch + 1  # one\n",
}
PATCH_SET = """
    from patcher_core import AtomicPatch, Patch

    def scale_by_ten(batch):
        return batch * 10

    def shift_by_hundred(batch):
        return batch + 100

    class Scaling(Patch):
        library = "batches"
        why = "upstream scales too little"
        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("batches.scale", scale_by_ten)]

    class Shifting(Patch):
        library = "batches"
        why = "upstream shifts too little"
        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("batches.shift", shift_by_hundred)]

    CATALOG = ALL = DEFAULT = [Scaling, Shifting]
"""
TRAIN = """
    import sys
    import torch
    from torch.utils.data import DataLoader, Dataset
    import batches

    class Numbers(Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, index):
            return batches.scale(torch.tensor(float(index)))

    if __name__ == "__main__":
        loader = DataLoader(Numbers(), batch_size=2, num_workers=2, multiprocessing_context="spawn")
        print(torch.cat(list(loader)).tolist(), batches.shift(torch.tensor(1)).item(), sys.argv[1:])
"""
TRAIN_DISTRIBUTED = """
    import sys
    import torch
    import torch.distributed as dist
    import batches

    dist.init_process_group("gloo")
    value = batches.scale(torch.tensor(float(dist.get_rank() + 1)))
    dist.all_reduce(value)
    # one write: torchrun starts its ranks unbuffered, where print() writes the end of the line by itself
    sys.stdout.write(f"rank {dist.get_rank()}: {value.item()}\\n")
    dist.destroy_process_group()
"""


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A wheel of pure Python: its ``METADATA`` and ``entry_points.txt`` are among the files."""
    information = f"{name}-{version}.dist-info"
    contents = {
        f"{information}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{information}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{path.replace("DIST-INFO", information): textwrap.dedent(text) for path, text in files.items()},
    }
    contents[f"{information}/RECORD"] = "".join(
        f"{path},,\n" for path in (*contents, f"{information}/RECORD")
    )
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(member, text)
    return path


class NewUser:
    """An empty virtual environment, and a folder with two scripts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "model"
        self.folder.mkdir()
        self.bin = folder / "venv" / "bin"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        hidden = (
            "RANK",
            "LOCAL_RANK",
            "WORLD_SIZE",
            "PATCHER_",
            "PYTHONPATH",
            "UV_CONSTRAINT",
            "UV_OVERRIDE",
            "UV_PYTHON",
        )
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        self.environment["VIRTUAL_ENV"] = str(folder / "venv")
        links = filter(None, [str(self.wheels), os.environ.get("UV_FIND_LINKS")])
        self.environment["UV_FIND_LINKS"] = ",".join(links)
        self._do("uv", "venv", "--quiet", "--python", sys.executable, str(folder / "venv"))
        for package in ("patcher-core", "patches-torch"):
            self._do(
                "uv", "build", "--quiet", "--wheel", "--out-dir", str(self.wheels), str(PACKAGES / package)
            )
        entry_points = "[patcher.patch_sets]\nbatches = batches_patches\n"
        patch_set = {"batches_patches.py": PATCH_SET, "DIST-INFO/entry_points.txt": entry_points}
        wheel(self.wheels, "patches_batches", "1.0", patch_set)
        for version, source in SOURCE.items():
            wheel(self.wheels, "batches", version, {"batches.py": source})
        for name, text in (("train.py", TRAIN), ("train_distributed.py", TRAIN_DISTRIBUTED)):
            (self.folder / name).write_text(textwrap.dedent(text))

    def install(self, *requirements: str) -> None:
        self._do("uv", "pip", "install", "--quiet", *requirements)

    def patcher(self, *arguments: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        return self._do(str(self.bin / "patcher"), *arguments, status=status)

    def _do(self, *command: str, status: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == status, f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done


def browser_text(page: Path, profile: Path) -> str:
    """The document as Chromium shows it."""
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", f"--user-data-dir={profile}"]
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        *quiet,
        "--dump-dom",
        f"file://{page}#text=batches.s",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_from_an_empty_environment_to_an_upgrade_that_is_noticed(tmp_path):
    user = NewUser(tmp_path)
    user.install(
        "patcher-core[report]", "patches-torch", "patches-batches", "batches==1.0", "torch==2.13.0", "numpy"
    )

    listed = user.patcher("list").stdout
    assert (
        "patches-torch" in listed
        and "batches: found 1.0" in listed
        and "upstream scales too little" in listed
    )

    run = user.patcher("run", "--report", "spawn.json", "--", "train.py", "--epochs", "1")
    assert run.stdout == "[0.0, 10.0, 20.0, 30.0] 101 ['--epochs', '1']\n"
    assert run.stderr.count("PATCHER SUMMARY") == 1 and "never called" not in run.stderr
    roles = [process["role"] for process in json.loads((user.folder / "spawn.json").read_text())["processes"]]
    assert roles.count("program") == 1 and roles.count("worker") >= 2

    torchrun = ("torchrun", "--standalone", "--nproc_per_node", "2", "train_distributed.py")
    run = user.patcher("run", "--report", "distributed.html", "--", *torchrun)
    assert sorted(run.stdout.splitlines()) == ["rank 0: 30.0", "rank 1: 30.0"]
    assert run.stderr.count("PATCHER SUMMARY") == 1
    assert "Shifting: batches.shift" in run.stderr[run.stderr.index("applied but never called") :]
    page = user.folder / "distributed.html"
    if CHROMIUM is not None:
        assert ">2 of " in browser_text(
            page, tmp_path / "profile"
        )  # the filter has run, and two patches match
    assert page.read_text().count("program</td>") == 2 and "launcher" in page.read_text()

    user.patcher("lock")
    assert "every target" not in user.patcher("check", "--locked").stdout
    user.install("batches==1.1")
    check = user.patcher("check", "--locked", status=1).stdout
    assert "batches: 1.0 was recorded, 1.1 is installed" in check
    assert "-    return batch * 2" in check and "+    return batch.mul(2)" in check
    rows = [line.split() for line in check.splitlines() if line.startswith(("  safe", "  changed"))]
    states = {row[1]: row[0] for row in rows}
    assert states["Scaling"] == "changed" and states["Shifting"] == "safe"
