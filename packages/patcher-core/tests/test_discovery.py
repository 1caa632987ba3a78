"""Entry points, and the patch sets that installed distributions bring."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import subprocess
import sys
import textwrap

import pytest

from patcher_core import Patcher
from patcher_core.discovery import entry_points, patch_sets
from patcher_core.distributions import hide_library, show_library

INITIAL_PATH = list(sys.path)


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder that is the whole of sys.path but for the standard library: nothing else is discovered."""
    folder = tmp_path / "site"
    folder.mkdir()
    standard = [path for path in sys.path if "site-packages" not in path and "src" not in path.split(os.sep)]
    monkeypatch.setattr(sys, "path", [str(folder), *standard])
    before = set(sys.modules)
    yield folder
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def install(site):
    def install_distribution(name, version="0.1.0", entries="", folder=site, **modules):
        metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            "Requires-Dist: lib-a<2,>=1; extra == 'upstream'\n"
        )
        if entries:
            (metadata / "entry_points.txt").write_bytes(
                entries if isinstance(entries, bytes) else textwrap.dedent(entries).encode()
            )
        for module, source in modules.items():
            (folder / f"{module}.py").write_text(textwrap.dedent(source))

    return install_distribution


PATCHES = """\
class One: ...
class Two: ...
CATALOG = [One, Two]
ALL = [One]
DEFAULT = (One,)
"""

ENTRIES = """
[console_scripts]
tool = patches_a:main

[patcher.patch_sets]
lib_a = patches_a
lib_b = patches_a
"""


def test_a_patch_set_is_found_with_its_libraries_and_imports_nothing(install):
    install("patches-a", "1.2.0", ENTRIES, patches_a=PATCHES)
    (found,) = patch_sets()
    assert (found.distribution.name, found.distribution.version) == ("patches-a", "1.2.0")
    assert (found.module, found.libraries) == ("patches_a", ("lib_a", "lib_b"))
    assert found.pins().upstream == ("lib-a<2,>=1",)
    assert "patches_a" not in sys.modules


def test_loading_gives_the_contents_of_the_module(install):
    install("patches-a", entries=ENTRIES, patches_a=PATCHES)
    (found,) = patch_sets()
    contents = found.load()
    module = sys.modules["patches_a"]
    assert contents == ([module.One, module.Two], [module.One], (module.One,))
    assert contents.default == (module.One,)
    assert found.error is None
    assert patch_sets()[0] is found


def test_a_group_of_an_installed_patch_set_takes_the_options_that_it_names_and_no_others(install):
    group = (
        "from patcher_core import Patch\nclass {}(Patch):\n    {}\n    def patches(options=None): return []\n"
    )
    sources = [group.format("Named", "option_names = ('force',)"), group.format("Plain", "pass"), PATCHES]
    install("patches-a", entries=ENTRIES, patches_a="".join(sources))
    import patches_a

    Patcher().add(patches_a.Plain, patches_a.Named, options={"force": True})
    with pytest.raises(ValueError, match=r"takes the option 'force'; taken are: backend\."):
        Patcher().add(patches_a.Plain, options={"force": True})


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("import no_such_dependency", "no_such_dependency"),
        ("raise OSError('libcudart.so.11.0')", "libcudart.so.11.0"),
        ("raise SystemExit('no device')", "no device"),
        ("def broken(:", "invalid syntax"),
        ("CATALOG = ALL = []", "DEFAULT"),
        ("CATALOG = ALL = []\nDEFAULT = 3", "DEFAULT"),
    ],
)
def test_a_patch_set_that_fails_to_load_tells_why_and_stops_no_other(install, source, cause):
    install("patches-a", entries="[patcher.patch_sets]\nlib_a = patches_a\n", patches_a=source)
    install("patches-b", entries="[patcher.patch_sets]\nlib_b = patches_b\n", patches_b=PATCHES)
    broken, good = patch_sets()
    assert broken.load() is None
    assert cause in str(broken.error)
    assert broken.load() is None
    assert good.load() is not None


def test_a_patch_set_whose_module_is_missing_is_named(install):
    install("patches-a", entries="[patcher.patch_sets]\nlib_a = patches_missing\n")
    (found,) = patch_sets()
    assert found.load() is None
    assert "patches_missing" in str(found.error)


def test_whether_a_library_is_here_is_found_without_importing_it(install, site):
    install("patches-a", entries=ENTRIES, patches_a=PATCHES)
    (found,) = patch_sets()
    assert not found.has_library()
    (site / "lib_b").mkdir()
    (site / "lib_b" / "__init__.py").write_text("raise RuntimeError('imported')")
    importlib.invalidate_caches()
    assert found.has_library()
    hide_library("lib_b")
    try:
        assert not found.has_library()
    finally:
        show_library("lib_b")


def test_patch_sets_come_sorted_by_distribution(install):
    for name in ("patches-c", "patches-a", "patches-b"):
        install(name, entries=f"[patcher.patch_sets]\nlib = {name.replace('-', '_')}\n")
    assert [found.distribution.name for found in patch_sets()] == ["patches-a", "patches-b", "patches-c"]


def test_of_a_distribution_installed_twice_the_first_on_the_path_counts(install, tmp_path, monkeypatch):
    install("patches-a", "1.0", "[patcher.patch_sets]\nlib_a = old_patches\n")
    install("patches-a", "2.0", "[patcher.patch_sets]\nlib_a = new_patches\n", folder=tmp_path / "first")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    assert [(found.module, found.distribution.version) for found in patch_sets()] == [("new_patches", "2.0")]


def test_an_update_without_entry_points_takes_those_of_the_shadowed_one_away(install, tmp_path, monkeypatch):
    install("patches-a", "1.0", "[patcher.patch_sets]\nlib_a = old_patches\n")
    install("patches-a", "2.0", folder=tmp_path / "first")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), *sys.path])
    assert patch_sets() == []


def test_what_is_installed_later_is_discovered(install, site):
    assert patch_sets() == []
    install("patches-a", entries=ENTRIES)
    os.utime(str(site), ns=(1, 1))  # the clock of a file system may be slower than this test
    assert [found.module for found in patch_sets()] == ["patches_a"]


def test_other_groups_are_read_the_same_way(install):
    source = "class Npu:\n    name = 'npu'\n"
    entries = """
    # a comment
    ; another
    [patcher.backends]
      npu=patches_a:Npu
    named = patches_a:Npu.name [extra]

    [patcher.environment]
    format = patches_a
    """
    install("patches-a", entries=entries, patches_a=source)
    npu, named = entry_points("patcher.backends")
    assert (npu.name, npu.value, npu.distribution.name) == ("npu", "patches_a:Npu", "patches-a")
    assert npu.load().name == named.load() == "npu"
    assert [entry.value for entry in entry_points("patcher.environment")] == ["patches_a"]
    assert entry_points("patcher.training_loops") == []


def test_entry_points_are_those_of_importlib_metadata(install):
    install("patches-a", entries=ENTRIES)
    install("patches-b", entries="[patcher.patch_sets]\nlib-with.dots = patches_b.deep : attribute.inner\n")
    expected = {
        (entry.name, entry.value.replace(" ", ""))
        for distribution in importlib.metadata.distributions()
        for entry in distribution.entry_points
        if entry.group == "patcher.patch_sets"
    }
    assert len(expected) == 3
    assert {(entry.name, entry.value) for entry in entry_points("patcher.patch_sets")} == expected


def test_a_group_that_is_not_the_patchers_is_refused():
    with pytest.raises(ValueError, match="console_scripts"):
        entry_points("console_scripts")


@pytest.mark.parametrize(
    ("entries", "named"),
    [
        ("[patcher.patch_sets]\nlib_a patches_a\nlib_b = patches_b\n", "lib_a patches_a"),
        ("[patcher.patch_sets]\nlib_a = \nlib_b = patches_b\n", "lib_a ="),
        ("[patcher.patch_sets]\n= patches_a\nlib_b = patches_b\n", "= patches_a"),
        ("[patcher.patch_sets]\nlib_a = rm -rf\nlib_b = patches_b\n", "rm -rf"),
        (b"[patcher.patch_sets]\nlib_a = \xff\xfe\nlib_b = patches_b\n", "lib_a"),
    ],
)
def test_a_malformed_line_is_named_and_the_others_count(install, caplog, entries, named):
    install("patches-a", entries=entries)
    with caplog.at_level(logging.WARNING):
        assert [found.module for found in patch_sets()] == ["patches_b"]
        patch_sets()
    (record,) = caplog.records
    assert named in record.getMessage()
    assert "patches-a" in record.getMessage()


@pytest.mark.parametrize("entries", [b"\xff\xfe[x\n===", b"no header\n", b"[unclosed\na = b\n", b"\0" * 100])
def test_broken_files_of_others_are_passed_over_silently(install, caplog, entries):
    install("someone-else", entries=entries)
    install("patches-a", entries=ENTRIES)
    with caplog.at_level(logging.DEBUG):
        assert [found.module for found in patch_sets()] == ["patches_a"]
    assert caplog.records == []


def test_a_folder_in_the_place_of_the_file_and_dangling_links_do_no_harm(install, site):
    (site / "odd-1.0.dist-info" / "entry_points.txt").mkdir(parents=True)
    (site / "gone-1.0.dist-info").symlink_to(site / "nowhere")
    (site / "linked.egg-link").write_text("/nowhere")
    install("patches-a", entries=ENTRIES)
    assert [found.module for found in patch_sets()] == ["patches_a"]


def test_an_egg_info_folder_beside_a_source_counts(site):
    (site / "patches_a.egg-info").mkdir()
    (site / "patches_a.egg-info" / "PKG-INFO").write_text("Name: patches-a\nVersion: 0.5\n")
    (site / "patches_a.egg-info" / "entry_points.txt").write_text(textwrap.dedent(ENTRIES))
    (found,) = patch_sets()
    assert (found.distribution.name, found.distribution.version) == ("patches-a", "0.5")


def test_an_editable_install_is_discovered(install, site, tmp_path):
    """Its metadata is in the site folder, its source is reached through a .pth file."""
    source = tmp_path / "project" / "src"
    source.mkdir(parents=True)
    (source / "patches_a.py").write_text(PATCHES)
    install("patches-a", entries=ENTRIES)
    (site / "_patches_a.pth").write_text(f"{source}\n")
    code = f"""
    import site
    site.addsitedir({str(site)!r})
    from patcher_core.discovery import patch_sets
    (found,) = [found for found in patch_sets() if found.module == "patches_a"]
    print(found.load().catalog[0].__name__)
    """
    assert run(code) == "One"


def test_discovering_loads_nothing_heavy(install, site):
    install("patches-a", entries=ENTRIES, patches_a=PATCHES)
    code = f"""
    import sys
    sys.path.insert(0, {str(site)!r})
    before = set(sys.modules)
    from patcher_core.discovery import entry_points, patch_sets
    assert [found.module for found in patch_sets()].count("patches_a") == 1
    heavy = {{"packaging", "importlib.metadata", "configparser", "email", "inspect", "patches_a"}}
    print(sorted(heavy & (set(sys.modules) - before)))
    """
    assert run(code) == "[]"


def run(code):
    """What a fresh interpreter prints."""
    path = os.pathsep.join(folder for folder in INITIAL_PATH if folder)
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    ).stdout.strip()
