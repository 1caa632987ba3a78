"""The HTML report, as the text that it is and in a browser."""

from __future__ import annotations

import html
import re
import shutil
import subprocess

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed (Debian: chromium)")


@pytest.fixture
def page(project):
    """The path of the report of a run; its texts are not harmless."""
    module = project.libraries / "greeter_patches.py"
    text = module.read_text().replace(
        "def soft_part(name):", "def soft_part(name):  # </pre><script>document.title = 'taken over'</script>"
    )
    module.write_text(text)
    project.write("train.py", "from greeter.words import greet\ngreet('a')\n")
    project.patcher(
        "run", "--with", "greeter", "--patch", "Knocking", "--skip-import", "flash_attn",
        "--report", "report.html", "--", "train.py", "<b>bold</b>",
    )  # fmt: skip
    return project.folder / "report.html"


def visible_rows(document: str) -> list[str]:
    """The texts of the rows of patches that a browser shows."""
    rows = re.findall(r'<tr class="patch"([^>]*)>(.*?)\n</tr>', document, re.DOTALL)
    return [re.sub(r"<[^>]+>", " ", body) for attributes, body in rows if "hidden" not in attributes]


def opened(page, folder, fragment: str = "", *options: str) -> str:
    """The document as it is after its scripts have run."""
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"]
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        *quiet,
        *options,
        "--dump-dom",
        f"file://{page}{fragment}",
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


def test_the_page_needs_nothing_from_elsewhere_and_escapes_every_text(page):
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert "<b>bold</b>" not in text and html.escape("<b>bold</b>") in text
    assert "taken over" in text and "<script>document.title" not in text


def test_the_page_shows_status_sources_imports_and_processes(page):
    text = page.read_text(encoding="utf-8")
    rows = {
        name: row for row in visible_rows(text) for name in re.findall(r"greeter\.words\.[\w.]+", row)[:1]
    }
    assert "applied" in rows["greeter.words.greet"] and " yes " in re.sub(
        r"\s+", " ", rows["greeter.words.greet"]
    )
    assert "never" in rows["greeter.words.part"] and "portable" in rows["greeter.words.part"]
    assert "greeter 1.0" in rows["greeter.words.Door.knock"]
    assert "return join(&#34;hello&#34;, name)" in text and "flash_attn" in text
    assert "train.py" in text[text.index("<h2>Processes") :]


@in_a_browser
def test_the_page_filters_in_a_browser(page, tmp_path):
    everything = visible_rows(opened(page, tmp_path))
    found = visible_rows(opened(page, tmp_path, "#text=knock"))
    assert len(found) == 1 < len(everything)
    assert "greeter.words.Door.knock" in found[0]


@in_a_browser
def test_no_text_of_the_report_runs_as_code_in_a_browser(page, tmp_path):
    document = opened(page, tmp_path)
    assert re.search(r"<title>patcher: train.py &lt;b&gt;bold&lt;/b&gt;</title>", document)


def test_without_jinja_the_run_does_not_begin(project):
    project.install({"jinja2.py": "raise ImportError('not here')\n"})
    project.write("train.py", "print('ran')\n")
    done = project.patcher("run", "--report", "report.html", "--", "train.py", status=2)
    assert "pip install 'patcher-core[report]'" in done.stderr and not done.stdout
