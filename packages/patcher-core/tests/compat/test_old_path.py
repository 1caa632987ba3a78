"""``mx_driving.patcher``: every old module and name resolves, whatever is installed."""

from __future__ import annotations

from textwrap import dedent

import pytest

from patcher_core.compat.old_names import MODULES
from patcher_core.distributions import find_distribution

from .conftest import patch_set

CORE_NAMES = {
    "patcher_core": """
        Patcher Patch BasePatch AtomicPatch RegistryPatch LegacyPatch PatchStatus PatchResult PatchError PatcherLogger
        PatcherBuilder LogAction replace_with patcher_logger configure_patcher_logging set_patcher_log_level
        get_version check_version default_patcher default_patcher_builder
        """,
    "patcher_core.legacy": "LegacyPatchWrapper",
}

#: COMPAT's table: what each module has without any patch set
OLD_MODULES = {
    "patch": "BasePatch Patch AtomicPatch RegistryPatch LegacyPatch with_imports get_version check_version PatchResult"
    " PatchStatus",
    "patcher": "Patcher replace_with PatcherBuilder Patch",
    "patcher_logger": "PatcherLogger patcher_logger configure_patcher_logging set_patcher_log_level PatchError"
    " LogAction",
    "reporting": "PatchStatus PatchResult",
    "version": "get_version check_version",
    "legacy": "LegacyPatchWrapper LegacyPatcherBuilder PatcherBuilder default_patcher_builder",
}

MMDET_SET = patch_set(
    "patches-mmdet",
    "mmdet_patches",
    "somelib",
    """
    from patcher_core import AtomicPatch, Patch
    class PseudoSampler(Patch):
        legacy_name = "pseudo_sampler"
        @classmethod
        def patches(cls, options=None): return []
    class NuScenesDataset(PseudoSampler):
        legacy_name = "nuscenes_dataset"
        @classmethod
        def patches(cls, options=None): return [AtomicPatch("somelib.box", lambda: "dataset")]
    class NuScenesMetric(PseudoSampler):
        legacy_name = "nuscenes_metric"
        @classmethod
        def patches(cls, options=None): return [AtomicPatch("somelib.metric", lambda: "metric")]
    class LandedLater(PseudoSampler):
        legacy_name = "landed_later"
    def build_something(options): pass
    NuScenes = NuScenesDataset
    CATALOG = ALL = [PseudoSampler, NuScenesDataset, NuScenesMetric, LandedLater]
    DEFAULT = []
    __all__ = ["ALL", "CATALOG", "DEFAULT", "NuScenes", "PseudoSampler", "build_something"]
    """,
)


def test_the_package_has_the_names_of_this_project(run_program):
    run_program(
        f"""
        import importlib, mx_driving.patcher as old
        for home, names in {CORE_NAMES!r}.items():
            for name in names.split():
                assert getattr(old, name) is getattr(importlib.import_module(home), name), name
                assert name in dir(old) and name in old.__all__, name
        assert old.LegacyPatcherBuilder is old.PatcherBuilder
        """
    )


def test_each_module_has_its_names(run_program):
    run_program(
        f"""
        import importlib, mx_driving.patcher
        for module, names in {OLD_MODULES!r}.items():
            found = importlib.import_module("mx_driving.patcher." + module)
            assert getattr(mx_driving.patcher, module) in (found, mx_driving.patcher.patcher_logger)
            for name in names.split():
                assert getattr(found, name) is getattr(mx_driving.patcher, name), (module, name)
                assert name in found.__all__, (module, name)
        """
    )


def test_a_name_is_not_displaced_by_a_module_of_the_same_name(run_program):
    run_program(
        """
        import mx_driving.patcher.patcher_logger
        from mx_driving.patcher import patcher_logger
        from mx_driving.patcher.patcher_logger import patcher_logger as same
        assert patcher_logger is same and patcher_logger.info
        """
    )


def test_names_of_a_patch_set_come_from_its_catalog_and_its_exports(run_program):
    run_program(
        """
        import mmdet_patches
        from mx_driving.patcher import LandedLater, NuScenes, PseudoSampler, landed_later, pseudo_sampler
        from mx_driving.patcher.mmdet_patch import PseudoSampler as first, build_something, pseudo_sampler as second
        from mx_driving.patcher.mmdet import pseudo_sampler as third
        from mx_driving.patcher.mmdet3d import nuscenes_dataset, nuscenes_metric
        assert first is PseudoSampler is mmdet_patches.PseudoSampler and build_something
        assert NuScenes is mmdet_patches.NuScenesDataset
        assert second is third is pseudo_sampler and pseudo_sampler.__name__ == "pseudo_sampler"
        namespace = {}
        exec("from mx_driving.patcher.mmdet_patch import *", namespace)
        assert namespace["landed_later"] is landed_later and "Patcher" not in namespace and "CATALOG" not in namespace
        exec("from mx_driving.patcher import *", namespace)
        assert namespace["Patcher"] and namespace["LandedLater"] is LandedLater and "msda" not in namespace
        """,
        MMDET_SET,
    )


@pytest.mark.skipif(find_distribution("patches-mmdet") is not None, reason="patches-mmdet is installed here")
@pytest.mark.parametrize(
    "statement",
    [
        "from mx_driving.patcher import resnet_fp16",
        "from mx_driving.patcher import NuScenes",
        "from mx_driving.patcher.mmdet_patch import ResNetFP16",
        "from mx_driving.patcher.mmdet import whatever",
        "import mx_driving.patcher; mx_driving.patcher.ResNetFP16",
        "import mx_driving.patcher.mmdet3d; mx_driving.patcher.mmdet3d.nuscenes_metric",
    ],
)
def test_a_missing_patch_set_is_named_with_how_to_install_it(run_program, statement):
    done = run_program(
        f"""
        try:
            {statement}
        except (AttributeError, ImportError) as error:
            print(type(error).__name__, error)
        """
    )
    assert "patches-mmdet is not installed: pip install patches-mmdet" in done.stdout


def test_what_is_missing_is_missing_for_hasattr_and_getattr(run_program):
    run_program(
        """
        import mx_driving.patcher
        assert not hasattr(mx_driving.patcher, "no_such_patch") and getattr(mx_driving, "npu_x", None) is None
        assert not hasattr(mx_driving.patcher, "__wrapped__")
        """
    )


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        ("from mx_driving.patcher import AtomicPach", "did you mean AtomicPatch?"),
        ("from mx_driving.patcher.version import Patcher", "it has get_version, check_version"),
        (
            "from mx_driving.patcher.never_was import x",
            "cannot import name 'never_was' from 'mx_driving.patcher'",
        ),
        ("from mx_driving import npu_add_relu", "mx_driving is not installed"),
        ("import mx_driving._C", "mx_driving is not installed"),
        ("import mx_driving.ops.scatter", "mx_driving is not installed"),
        ("import mx_driving; mx_driving.npu_add_relu", "mx_driving is not installed"),
    ],
)
def test_the_reason_for_any_other_missing_name_is_given(run_program, statement, text):
    done = run_program(statement, check=False)
    assert done.returncode == 1 and text in done.stderr.splitlines()[-1]


def test_a_patch_set_that_does_not_load_is_named_and_the_others_are_there(run_program):
    done = run_program(
        """
        from mx_driving.patcher import pseudo_sampler
        from mx_driving.patcher import *
        assert Patcher
        try:
            from mx_driving.patcher import msda
        except ImportError as error:
            assert "patches-mmcv does not load: ZeroDivisionError" in str(error), error
        else:
            raise AssertionError
        """,
        {**MMDET_SET, **patch_set("patches-mmcv", "mmcv_patches", "mmcv", "1 / 0\n")},
    )
    assert done.returncode == 0


@pytest.mark.parametrize("module", sorted(MODULES))
def test_old_modules_import_on_a_bare_machine(run_program, module):
    run_program(f"import mx_driving.patcher.{module}\nfrom mx_driving.patcher.{module} import *")


def test_a_program_without_the_operator_library_starts_without_any_patch_set(run_program):
    run_program(
        """
        from mx_driving import default_patcher_builder, patch_mmcv_version
        import mx_driving
        assert sorted(mx_driving.__all__) == ["default_patcher_builder", "patch_mmcv_version"]
        assert mx_driving.patcher.Patcher
        with default_patcher_builder.build():
            pass
        """
    )


def test_the_alias_costs_nothing_until_the_old_path_is_imported(run_python):
    run_python(
        """
        import sys, patcher_core.compat.mx_driving, patcher_core
        assert "mx_driving" not in sys.modules and "patcher_core.legacy" in sys.modules
        assert patcher_core.patcher_logger.logger.name == "patcher_core"
        import importlib.util
        assert "numpy" not in sys.modules and "torch" not in sys.modules and "packaging" not in sys.modules
        """
    )


def test_activating_twice_does_no_harm(run_program):
    run_program(
        """
        from patcher_core.compat.mx_driving import activate
        import mx_driving.patcher
        package = mx_driving.patcher
        activate()
        import sys
        assert sys.modules["mx_driving.patcher"] is package
        """
    )


def test_an_alias_that_comes_late_takes_over_and_says_what_it_could_not(run_python):
    done = run_python(
        """
        import mx_driving
        from mx_driving.patcher import default_patcher_builder as old
        import mx_driving.patcher.patch
        import patcher_core.compat.mx_driving
        import patcher_core
        from mx_driving import default_patcher_builder
        from mx_driving.patcher.patch import AtomicPatch
        assert AtomicPatch is patcher_core.AtomicPatch and old == "the predecessor's"
        assert default_patcher_builder is patcher_core.default_patcher_builder and mx_driving.kernel() == "real"
        """,
        {
            "mx_driving/__init__.py": """
                from .patcher import default_patcher_builder
                def kernel(): return "real"
                """,
            "mx_driving/patcher/__init__.py": 'default_patcher_builder = "the predecessor\'s"\n',
            "mx_driving/patcher/patch.py": "AtomicPatch = None\n",
        },
    )
    assert "mx_driving.patcher was imported before its alias" in done.stderr
    assert "Import patcher_core.compat.mx_driving above" in done.stderr


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_patcher_run_makes_the_old_path_work_without_a_change(run_python, tmp_path, version):
    programs = {
        "2.0": """
            from mx_driving.patcher import AtomicPatch, Patcher
            Patcher().add(AtomicPatch("textwrap.dedent", str.upper)).apply()
            """,
        "1.0": """
            from mx_driving import default_patcher_builder
            from mx_driving.patcher import Patch
            def dedent(textwrap, options):
                textwrap.dedent = str.upper
            default_patcher_builder.add_module_patch("textwrap", Patch(dedent)).build().apply()
            """,
    }
    train = tmp_path / "train.py"
    train.write_text(dedent(programs[version]) + "import textwrap\nprint(textwrap.dedent('patched'))\n")
    done = run_python(
        f"""
        import subprocess, sys
        sys.exit(subprocess.call([sys.executable, "-m", "patcher_core", "run", "--", {str(train)!r}]))
        """
    )
    assert done.stdout == "PATCHED\n"
