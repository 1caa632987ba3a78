"""The lines that the README tells a user to write do what it says."""

import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def test_the_lines_for_ones_own_model_make_the_operators_importable(tmp_path):
    (lines,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    script = tmp_path / "train.py"
    script.write_text(
        f"{lines}\nimport flash_attn\nfrom mmcv.ops import MultiScaleDeformableAttention, nms\n"
    )
    process = subprocess.run([sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    summary = process.stdout + process.stderr
    assert "PATCHER SUMMARY" in summary
    assert "flash_attn" in summary.partition("PATCHER SUMMARY")[2]
