"""The backend `npu` where there is no NPU: it says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HIDE = "import sys; sys.modules['torch_npu'] = None"
ASK = "from patcher_core.backends import unavailable; print(unavailable('npu'))"


def test_without_torch_npu_it_says_so_and_imports_no_torch(run_python):
    code = f"{HIDE}; {ASK}; assert 'torch' not in sys.modules"
    assert run_python(code) == "torch_npu is not installed"


def test_an_import_that_fails_is_told_with_its_cause_and_not_tried_again(run_python):
    counting = """
        import builtins
        builtins.tried = getattr(builtins, "tried", 0) + 1
        try:
            raise OSError("libhccl.so: cannot open shared object file")
        except OSError as error:
            raise ImportError("please check the installation") from error
        """
    code = f"{ASK}; print(unavailable('npu')); import builtins; print(builtins.tried)"
    lines = run_python(code, {"torch_npu/__init__.py": counting}).splitlines()
    reason = "torch_npu does not import: OSError: libhccl.so: cannot open shared object file"
    assert lines == [reason, reason, "1"]


def test_a_machine_without_devices_is_told_apart(run_python):
    empty = "class npu:\n    device_count = staticmethod(lambda: 0)\n"
    assert run_python(ASK, {"torch_npu.py": empty}) == "no NPU device found"


def test_importing_the_set_imports_none_of_the_libraries(run_python):
    code = "import sys, torch_patches; print(sorted({'torch', 'numpy', 'torch_scatter'} & set(sys.modules)))"
    assert run_python(code) == "[]"


def test_an_eager_apply_without_an_npu_does_not_import_torch(run_python):
    code = f"""
        {HIDE}
        from patcher_core import Patcher, configure_summary
        configure_summary(False)
        print(*Patcher().apply().report.notes)
        assert "torch" not in sys.modules
        """
    expected = "internal_format, transfer_to_npu: needs npu (torch_npu is not installed)"
    assert run_python(code) == expected


def test_without_torch_apply_does_and_says_nothing(tmp_path):
    """In an interpreter that has the core and this set, and nothing else."""
    packages = Path(__file__).parents[2]
    sources = [packages / "patcher-core" / "src", packages / "patches-torch" / "src", tmp_path]
    code = f"""
import sys
sys.path[:0] = {[str(folder) for folder in sources]!r}
from patcher_core import Patcher
patcher = Patcher().apply()
assert patcher.report.notes == () and "torch_patches" not in sys.modules
"""
    metadata = tmp_path / "patches_torch-0.1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: patches-torch\nVersion: 0.1.0\n")
    (metadata / "entry_points.txt").write_text("[patcher.environment]\ntorch = torch_patches.environment\n")
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
