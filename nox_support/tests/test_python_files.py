"""An sdist that cannot be compiled: its Python files work, its compiled functions say that they do not."""

import subprocess
import sys
import tarfile

import pytest

from nox_support.python_files import install_python_files

FILES = {
    "setup.py": "raise SystemExit('no CUDA compiler')",
    "PKG-INFO": "Metadata-Version: 2.1\nName: boxes\nVersion: 0.17.3\n",
    "boxes/__init__.py": "",
    "boxes/area.py": "def area(x, y):\n    return x * y\n",
    "boxes/ops/__init__.py": "from .boxes_ext import overlap\nfrom . import boxes_ext\n",
    "tools/script.py": "raise SystemExit('not part of the package')",
}


@pytest.fixture
def sdist(tmp_path):
    for name, text in FILES.items():
        file = tmp_path / "boxes-0.17.3" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    with tarfile.open(tmp_path / "boxes-0.17.3.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "boxes-0.17.3", "boxes-0.17.3")
    return tmp_path / "boxes-0.17.3.tar.gz"


@pytest.fixture
def run(sdist, tmp_path):
    site_packages = tmp_path / "site-packages"
    site_packages.mkdir()
    install_python_files(sdist, site_packages, ["boxes.ops.boxes_ext"])

    def in_new_process(code):
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(site_packages)!r})\n{code}"]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    return in_new_process


def test_what_is_not_compiled_works_and_has_its_version(run):
    done = run(
        "from importlib.metadata import version\nfrom boxes.area import area\nprint(area(2, 3), version('boxes'))"
    )
    assert done.stdout.split() == ["6", "0.17.3"], done.stderr


def test_a_compiled_function_is_importable_and_says_what_it_lacks(run):
    done = run("from boxes import ops\nprint('imported')\nops.overlap(1)")
    assert done.stdout.split() == ["imported"]
    assert "RuntimeError: boxes.ops.boxes_ext.overlap is not compiled here" in done.stderr
    assert (
        "boxes_ext.other is not compiled here" in run("from boxes import ops\nops.boxes_ext.other()").stderr
    )


def test_only_packages_are_installed(run, tmp_path):
    assert sorted(path.name for path in (tmp_path / "site-packages").iterdir()) == [
        "boxes",
        "boxes-0.17.3.dist-info",
    ]


def test_a_compiled_module_of_no_package_is_an_error(sdist, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no package for boxes\.op\.boxes_ext"):
        install_python_files(sdist, tmp_path, ["boxes.op.boxes_ext"])
