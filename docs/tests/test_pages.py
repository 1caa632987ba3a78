"""The Python code on every page runs as it stands.

A page's ```python blocks are one program, in their order, in a fresh process. Blocks of other languages are not run.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent
ON_THE_SIMULATED_NPU = "testing-without-an-npu.md"  # the tests of patcher-testing run that page
PAGES = sorted(
    page
    for page in DOCS.rglob("*.md")
    if "```python" in page.read_text(encoding="utf-8") and page.name != ON_THE_SIMULATED_NPU
)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_the_code_of_a_page_runs(page, tmp_path):
    blocks = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "program.py").write_text("\n".join(blocks), encoding="utf-8")
    process = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout + process.stderr


def test_the_site_builds_and_no_link_is_broken(tmp_path):
    command = ["mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    process = subprocess.run(
        [sys.executable, "-m", *command], cwd=DOCS.parent, capture_output=True, text=True
    )
    assert process.returncode == 0, process.stdout + process.stderr
    assert (tmp_path / "zh" / "concepts" / "index.html").is_file()


def test_the_catalogue_is_what_the_patch_sets_say():
    code = "import patch_catalogue as c; assert c.PAGE.read_text(encoding='utf-8') == c.page()"
    process = subprocess.run([sys.executable, "-c", code], cwd=DOCS, capture_output=True, text=True)
    assert process.returncode == 0, "run: python docs/patch_catalogue.py\n" + process.stderr
