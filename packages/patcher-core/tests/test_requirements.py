"""Version pins, and which version of a library is here."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap
import types

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import Requirement
from packaging.version import Version

from patcher_core.distributions import find_distribution, hide_library, normalized, show_library
from patcher_core.library_version import LibraryVersion, check_version, get_version
from patcher_core.requirements import RequirementStatus, check_requirements, read_pins

MMCV = ("mmcv>=2.0,<2.3", "mmcv-full>=1.4,<1.8", "mmcv-lite>=2.0,<2.3")


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A folder on sys.path, into which files are written by keyword or path."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


@pytest.fixture
def write(site):
    def write_files(**files):
        for path, text in files.items():
            file = site / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text), encoding="utf-8")

    return write_files


@pytest.fixture
def install(write):
    """Install a distribution as pip leaves it: a metadata folder beside the code."""

    def install_distribution(name, version, metadata="", **files):
        folder = f"{name.replace('-', '_')}-{version}.dist-info"
        header = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}\nText\n"
        write(**{f"{folder}/METADATA": header})
        write(**{f"{folder}/{file}": text for file, text in files.items()})

    return install_distribution


@pytest.fixture
def hidden():
    """Hide libraries as import control does, and show them again after the test."""
    roots = []

    def hide(root):
        hide_library(root)
        roots.append(root)

    yield hide
    for root in roots:
        show_library(root)


# -------------------------------------------------------------------------------------------- distributions


def test_every_installed_distribution_is_found_as_importlib_metadata_finds_it():
    expected = {}
    for distribution in importlib.metadata.distributions():
        name = distribution.metadata["Name"]
        if name:
            expected.setdefault(normalized(name), distribution.version)
    assert expected
    found = {name: find_distribution(name) for name in expected}
    assert {name: there and there.version for name, there in found.items()} == expected


def test_distributions_of_older_installers_are_found(write):
    write(
        **{
            "old_one-1.7.2-py3.8.egg-info/PKG-INFO": "Name: old-one\nVersion: 1.7.2\n",
            "distutils_file-0.3-py3.8.egg-info": "Name: distutils-file\nVersion: 0.3\n",
            "develop.egg-info/PKG-INFO": "Name: develop\nVersion: 0.17.3\n\nVersion: 9\n",
            "broken.egg-info/other": "",
            "noversion.dist-info/METADATA": "Name: noversion\n",
            "link.egg-link": "/nowhere\n",
        }
    )
    names = ("old-one", "distutils_file", "develop", "broken", "noversion", "link")
    assert [get_version(name) for name in names] == ["1.7.2", "0.3", "0.17.3", None, None, None]


def test_names_are_compared_as_pip_compares_them(install):
    install("Some.Odd_Name", "1.0")
    assert get_version("some-odd-name") == get_version("SOME_odd.name") == "1.0"


def test_the_first_on_the_path_counts(install, tmp_path, monkeypatch):
    install("thing", "1.0")
    (tmp_path / "first" / "thing-2.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "first"))
    assert get_version("thing") == "2.0"


def test_what_is_installed_later_is_found(install, site):
    assert get_version("thing") is None
    install("thing", "1.0")
    os.utime(str(site), ns=(1, 1))  # the clock of a file system may be slower than this test
    assert get_version("thing") == "1.0"


def test_entries_of_the_path_that_are_no_folders_do_no_harm(install, site, monkeypatch):
    install("thing", "1.0")
    (site / "archive.zip").write_bytes(b"no zip at all")
    monkeypatch.setattr(
        sys, "path", [3, "", str(site / "nowhere"), str(site / "archive.zip"), "\0", *sys.path]
    )
    assert get_version("thing") == "1.0"


# --------------------------------------------------------------------------------------------- requirements


@pytest.mark.parametrize(
    ("requires", "status", "reason"),
    [
        (("thing>=2.0,<2.3",), "satisfied", "found 2.1.0"),
        ("thing", "satisfied", "found 2.1.0"),
        ((), "satisfied", "nothing is required"),
        (("thing<2",), "mismatch", "found 2.1.0, verified for <2"),
        (("thing <2.1, >=2.0",), "mismatch", "found 2.1.0, verified for >=2.0,<2.1"),
        (("thing[extra]<2.1,>=2.0",), "mismatch", "found 2.1.0, verified for >=2.0,<2.1"),
        (("thing<1", "thing>=1.4,<2"), "mismatch", "found 2.1.0, verified for <1 or >=1.4,<2"),
        (("thing<1", "thing>=2"), "satisfied", "found 2.1.0"),
        (("absent-thing>=1",), "absent", "absent-thing is not installed"),
        (("absent-thing>=1", "absent-other"), "absent", "absent-thing or absent-other is not installed"),
        (("absent-thing>=1", "thing>=2"), "satisfied", "found 2.1.0"),
        (("absent-thing>=1", "thing<2"), "mismatch", "found 2.1.0, verified for <2"),
        (("thing~=2.0",), "satisfied", "found 2.1.0"),
        (("thing==2.1.*",), "satisfied", "found 2.1.0"),
        (("thing!=2.1.*",), "mismatch", "found 2.1.0, verified for !=2.1.*"),
        (("thing>=2; python_version < '3'",), "absent", "thing is not installed"),
        (("thing<2; python_version >= '3'",), "mismatch", "found 2.1.0, verified for <2"),
    ],
)
def test_what_a_requirement_says_of_version_2_1_0(install, requires, status, reason):
    install("thing", "2.1.0")
    check = check_requirements(requires)
    assert (check.status.value, check.reason) == (status, reason)
    assert check.is_satisfied == (status == "satisfied")
    assert check.is_visible == (status == "mismatch")
    found = status != "absent" and requires != ()
    assert (check.distribution, check.version) == (("thing", "2.1.0") if found else (None, None))


@pytest.mark.parametrize(
    ("name", "version", "satisfied"),
    [
        ("mmcv", "2.1.0", True),
        ("mmcv", "2.2.0rc1", True),
        ("mmcv", "2.1.0+cu118", True),
        ("mmcv", "2.3.0", False),
        ("mmcv", "2.0.0rc4", False),
        ("mmcv-full", "1.7.2", True),
        ("mmcv_full", "1.8.0", False),
        ("mmcv-lite", "2.0", True),
    ],
)
def test_one_library_under_several_names(install, name, version, satisfied):
    install(name, version)
    check = check_requirements(MMCV)
    assert check.is_satisfied is satisfied
    assert (check.distribution, check.version) == (normalized(name), version)


def test_a_distribution_of_another_name_is_found_through_the_library(install, write):
    install("mmcv-full", "1.7.2")
    write(
        **{
            "mmcv/__init__.py": "from .version import *\nraise RuntimeError('imported')\n",
            "mmcv/version.py": "__version__ = '1.7.2'\n\ndef parse(): ...\n__all__ = ['__version__']\n",
        }
    )
    check = check_requirements(("mmcv>=2.0,<2.3", "mmcv-lite>=2.0,<2.3"))
    assert check.status is RequirementStatus.MISMATCH
    assert check.reason == "found 1.7.2, verified for >=2.0,<2.3"


@pytest.mark.parametrize("malformed", ["", "mmcv>>2", "mmcv>=", "mmcv 2.0", ">=2", "mmcv; nonsense", "mm cv"])
def test_a_malformed_requirement_is_a_value_error_that_names_it(malformed):
    with pytest.raises(ValueError, match="is not a requirement") as caught:
        check_requirements(("mmcv", malformed))
    assert repr(malformed) in str(caught.value)


@pytest.mark.parametrize("wrong", [3, None, {"mmcv": "2"}, ["mmcv", 3], b"mmcv"])
def test_requirements_of_a_wrong_type_are_a_type_error(wrong):
    with pytest.raises(TypeError, match="requires"):
        check_requirements(wrong)


def test_a_version_that_cannot_be_compared_is_visible(install):
    install("thing", "custom_build")
    check = check_requirements(("thing>=1,<2",))
    assert check.status is RequirementStatus.UNKNOWN
    assert check.reason == "version 'custom_build' cannot be compared, verified for >=1,<2"
    assert check.is_visible
    assert check_requirements(("thing",)).is_satisfied


RELEASES = st.lists(st.integers(0, 2), min_size=1, max_size=3).map(lambda parts: ".".join(map(str, parts)))
VERSIONS = st.builds(
    "{}{}{}".format,
    RELEASES,
    st.sampled_from(["", "", "", "a1", "rc2", ".post1", ".dev3"]),
    st.sampled_from(["", "", "+cpu", "+cu118.1"]),
)
CLAUSES = st.builds(
    "{}{}".format, st.sampled_from([">=", "<=", "==", "!=", ">", "<", "~="]), RELEASES
).filter(lambda clause: not clause.startswith("~=") or "." in clause)


@settings(max_examples=200, deadline=None)
@given(version=VERSIONS, clauses=st.lists(CLAUSES, min_size=1, max_size=3))
def test_versions_compare_as_packaging_compares_them(version, clauses):
    from patcher_core import requirements

    requirement = f"thing{','.join(clauses)}"
    expected = Requirement(requirement).specifier.contains(Version(version), prereleases=True)
    assert requirements.parse_requirement(requirement).accepts(version) is expected


# ------------------------------------------------------------------------------- libraries without metadata


@pytest.mark.parametrize(
    "files",
    [
        {"lib_x.py": "raise RuntimeError('imported')\n__version__ = '1.5'\n"},
        {"lib_x/__init__.py": "__version__: str = '1.5'\n"},
        {"lib_x/__init__.py": "__version__ = version = '1.5'\n"},
        {
            "lib_x/__init__.py": "from .version import __version__\n",
            "lib_x/version.py": "__version__ = '1.5'",
        },
        {"lib_x/__init__.py": "from lib_x.version import *\n", "lib_x/version.py": "__version__ = '1.5'"},
        {
            "lib_x/__init__.py": "from ._meta import version as __version__\n",
            "lib_x/_meta/__init__.py": "from .data import release as version\n",
            "lib_x/_meta/data.py": "release = '1.5'\n",
        },
        {"lib_x/__init__.py": "import os\n", "lib_x/version.py": "__version__ = '1.5'\n"},
        {"lib_x/__init__.py": "", "lib_x/_version.py": "version = '1.5'\n"},
        {"lib_x/__init__.py": "try:\n    __version__ = '1.5'\nexcept ImportError:\n    __version__ = '0'\n"},
        {
            "lib_x/__init__.py": "if True:\n    from .v import __version__\n",
            "lib_x/v.py": "__version__ = '1.5'\n",
        },
        {"lib_x/__init__.py": "bad = '\\d'\n__version__ = '1.5'\n"},
        {"lib_x/version.py": "__version__ = '1.5'\n"},
    ],
)
def test_a_library_without_metadata_is_asked_in_its_source(write, files):
    write(**files)
    assert get_version("lib_x") == get_version("lib-x") == "1.5"
    assert check_requirements(("lib-x>=1,<2",)).is_satisfied
    assert check_requirements(("lib-x>=2",)).reason == "found 1.5, verified for >=2"
    assert check_requirements(("other-name>=1,<2",), library="lib_x").is_satisfied
    assert "lib_x" not in sys.modules


@pytest.mark.parametrize(
    "source",
    [
        "",
        "def broken(:\n",
        "__version__ = compute()\n",
        "from .v import __version__\n",
        "__version__ = 3\n",
        "\0",
    ],
)
def test_a_library_that_does_not_tell_is_version_unknown_and_visible(write, source):
    write(**{"lib_x/__init__.py": source})
    assert get_version("lib_x") is None
    check = check_requirements(("lib_x>=1",))
    assert (check.status, check.reason) == (RequirementStatus.UNKNOWN, "version unknown, verified for >=1")
    assert check.is_visible
    assert check_requirements(("lib_x",)).is_satisfied


def test_a_module_put_into_sys_modules_is_asked_statically(monkeypatch):
    class Lazy(types.ModuleType):
        def __getattribute__(self, name):
            raise AssertionError(f"{name} was read")

    bare = Lazy("lib_x")
    monkeypatch.setitem(sys.modules, "lib_x", bare)
    assert get_version("lib_x") is None
    assert check_requirements(("lib_x>=1",)).status is RequirementStatus.UNKNOWN
    object.__getattribute__(bare, "__dict__")["__version__"] = "1.5"
    assert get_version("lib_x") == "1.5"
    assert check_requirements(("lib_x>=1",)).is_satisfied


def test_a_module_that_is_blocked_in_sys_modules_is_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "lib_x", None)
    assert check_requirements(("lib_x>=1",)).status is RequirementStatus.ABSENT


# --------------------------------------------------------------------------------- hidden by import control


@pytest.mark.parametrize(
    "files",
    [
        {"top_level.txt": "lib_x\n_lib_x_extension\n"},
        {"RECORD": "lib_x/__init__.py,sha256=x,1\nlib_x_helper.py,,\nthing-1.0.dist-info/METADATA,,\n"},
    ],
)
def test_a_hidden_library_is_absent_with_every_distribution_that_installs_it(install, hidden, files):
    install("thing", "1.5", **files)
    install("unrelated", "1.0")
    assert get_version("thing") == "1.5"
    hidden("lib_x")
    assert get_version("thing") is None
    assert check_requirements(("thing>=2",)).status is RequirementStatus.ABSENT
    assert get_version("unrelated") == "1.0"
    show_library("lib_x")
    hide_library("lib_x")
    assert get_version("thing") is None


def test_a_hidden_library_is_absent_although_its_stub_has_a_version(hidden, monkeypatch):
    stub = types.ModuleType("lib_x")
    stub.__version__ = "0.0"
    monkeypatch.setitem(sys.modules, "lib_x", stub)
    hidden("lib_x")
    assert get_version("lib_x") is None
    assert check_requirements(("lib_x",)).status is RequirementStatus.ABSENT
    assert not LibraryVersion("lib_x")


# ----------------------------------------------------------------------------------------------------- pins


PINNED = """\
Requires-Dist: patcher-core<0.2,>=0.1
Requires-Dist: pytest; extra == 'test'
Provides-Extra: upstream
Requires-Dist: mmengine<1,>=0.7; extra == 'upstream'
Requires-Dist: numpy>=1.20 ; (python_version >= "3.8") and extra == "upstream"
Requires-Dist: numpy>=9 ; python_version < "3.8" and extra == "upstream"
Provides-Extra: upstream-any
Requires-Dist: mmcv<2.3,>=2.0; extra == "upstream-any"
Requires-Dist: mmcv-lite<2.3,>=2.0 ; extra == 'upstream_any'
"""


def test_pins_are_read_from_the_extras_of_a_patch_set(install):
    install("patches-thing", "0.1.0", PINNED)
    pins = read_pins("patches-thing")
    assert pins.upstream == ("mmengine<1,>=0.7", "numpy>=1.20")
    assert pins.upstream_any == ("mmcv<2.3,>=2.0", "mmcv-lite<2.3,>=2.0")
    assert pins.alternatives() == [("mmengine<1,>=0.7",), ("numpy>=1.20",), pins.upstream_any]
    install("mmcv-lite", "2.3.0")
    assert check_requirements(pins.upstream_any).reason == "found 2.3.0, verified for >=2.0,<2.3"


def test_a_patch_set_without_pins_has_none(install):
    install("patches-thing", "0.1.0", "Requires-Dist: numpy\n")
    assert read_pins("patches-thing").alternatives() == []


def test_pins_of_what_is_not_installed_cannot_be_read():
    with pytest.raises(LookupError, match="patches-nowhere"):
        read_pins("patches-nowhere")


def test_a_malformed_pin_is_named(install):
    install("patches-thing", "0.1.0", "Requires-Dist: mmcv=>2; extra == 'upstream'\n")
    with pytest.raises(ValueError, match="mmcv=>2"):
        read_pins("patches-thing")


# ------------------------------------------------------------------------------------------ version helpers


def test_check_version_compares_the_first_numbers(install):
    install("thing", "2.10.0rc1+cpu")
    assert check_version("thing")
    assert check_version("thing", 2)
    assert check_version("thing", 2, 10)
    assert check_version("thing", minor=10)
    assert not check_version("thing", 1)
    assert not check_version("thing", 2, 1)
    assert not check_version("absent-thing")
    assert not check_version("absent-thing", 2)


def test_check_version_of_a_version_without_numbers(install):
    install("thing", "custom_build")
    assert check_version("thing")
    assert not check_version("thing", 1)


@pytest.mark.parametrize(
    ("arguments", "named"), [((3,), "package"), (("x", "2"), "major"), (("x", 2, True), "minor")]
)
def test_check_version_names_an_argument_of_a_wrong_type(arguments, named):
    with pytest.raises(TypeError, match=named):
        check_version(*arguments)


def make_mmcv_version():
    return LibraryVersion(
        "mmcv",
        "mmcv-full",
        "mmcv-lite",
        is_v1x=">=1,<2",
        is_v2x=">=2.0.0rc0,<3",
        has_mmengine=lambda: get_version("mmengine") is not None,
    )


@pytest.mark.parametrize(
    ("name", "version", "is_v1x", "is_v2x"),
    [
        ("mmcv-full", "1.7.2", True, False),
        ("mmcv-lite", "2.1.0", False, True),
        ("mmcv", "2.0.0rc4", False, True),
    ],
)
def test_a_library_version_knows_its_families(install, name, version, is_v1x, is_v2x):
    mmcv_version = make_mmcv_version()
    install(name, version)
    assert mmcv_version
    assert mmcv_version.available
    assert mmcv_version.version == str(mmcv_version) == version
    assert (mmcv_version.is_v1x, mmcv_version.is_v2x) == (is_v1x, is_v2x)
    assert mmcv_version() is mmcv_version
    assert not mmcv_version.has_mmengine
    assert version in repr(mmcv_version)


def test_a_library_version_follows_what_is_installed_and_hidden(install, site, hidden):
    mmcv_version = make_mmcv_version()
    assert not mmcv_version
    assert mmcv_version.version is None
    assert not mmcv_version.is_v1x
    install("mmcv", "2.1.0")
    install("mmengine", "0.10.7")
    os.utime(str(site), ns=(1, 1))
    assert mmcv_version.is_v2x
    assert mmcv_version.has_mmengine
    hidden("mmcv")
    assert not mmcv_version
    assert not mmcv_version.is_v2x


@pytest.mark.parametrize(
    ("arguments", "families", "error", "named"),
    [
        ((3,), {}, TypeError, "3"),
        (("mm cv",), {}, ValueError, "mm cv"),
        (("mmcv",), {"is_v1x": 3}, TypeError, "is_v1x"),
        (("mmcv",), {"is_v1x": "1.x"}, ValueError, "1.x"),
    ],
)
def test_a_wrong_library_version_is_refused_at_once(arguments, families, error, named):
    with pytest.raises(error) as caught:
        LibraryVersion(*arguments, **families)
    assert named in str(caught.value)


def test_an_unknown_family_is_an_attribute_error():
    with pytest.raises(AttributeError, match="is_v9x"):
        _ = make_mmcv_version().is_v9x


# ---------------------------------------------------------------------------------------------------- costs


def test_checking_plain_pins_loads_neither_packaging_nor_importlib_metadata(install):
    install("thing", "2.1.0+cpu")
    install("pinned", "0.1", "Requires-Dist: mmcv<2.3,>=2.0; extra == 'upstream-any'\n")
    code = """
    import sys
    from patcher_core.requirements import check_requirements, read_pins
    from patcher_core.library_version import LibraryVersion, get_version
    assert check_requirements(("absent>=1", "thing>=2.0,<2.3")).is_satisfied
    assert read_pins("pinned").upstream_any
    assert get_version("thing") == "2.1.0+cpu"
    heavy = {"packaging", "importlib.metadata", "email", "inspect", "dataclasses", "asyncio", "ast"}
    print(sorted(heavy & {name for name in sys.modules} - BEFORE))
    """
    before = "import sys\nBEFORE = set(sys.modules)\n"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    out = subprocess.run(
        [sys.executable, "-c", before + textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    ).stdout
    assert out.strip() == "[]"
