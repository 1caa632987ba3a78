"""What public migrations do with the old interface, one test per habit."""

from __future__ import annotations

from .conftest import patch_set

LIBRARY = {
    "lib/__init__.py": "from .ops import f\nfrom . import registry\n",
    "lib/ops.py": """
        LOG = []
        def f(x): return x
        def g(x): return x
        def index(x): return x
        """,
    "lib/deep/__init__.py": "",
    "lib/deep/inner.py": "def f(x): return x\n",
    "lib/registry.py": """
        class Registry:
            def __init__(self): self._module_dict = {}
            def register_module(self, name=None, force=False, module=None):
                if module is None:
                    return lambda cls: self.register_module(name, force, cls) or cls
                self._module_dict[name or module.__name__] = module
        MODELS = Registry()
        """,
    "torchlike.py": "def batch_norm(x): return x\nLOG = []\n",
}

TORCH_SET = patch_set(
    "patches-torch",
    "torch_patches",
    "lib",
    """
    from patcher_core import AtomicPatch, Patch
    class TensorIndex(Patch):
        name, legacy_name, library = "tensor_index", "index", "lib"
        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("lib.ops.index", lambda x: ("predefined", options))]
    class BatchMatmul(Patch):
        legacy_name, library = "batch_matmul", "lib"
        @classmethod
        def patches(cls, options=None):
            return [AtomicPatch("lib.ops.g", lambda x: "predefined g")]
    CATALOG = ALL = DEFAULT = [TensorIndex, BatchMatmul]
    __all__ = ["ALL", "CATALOG", "DEFAULT", "TensorIndex", "BatchMatmul"]
    """,
)


def test_patches_run_by_module_in_the_order_of_first_addition_smaller_priority_first(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import lib.ops, torchlike
        def marking(mark):
            def patch(module, options):
                lib.ops.LOG.append((module.__name__, mark))
            return patch
        builder = (
            PatcherBuilder()
            .add_module_patch("lib.ops", Patch(marking("late"), priority=7), Patch(marking("first")))
            .add_module_patch("torchlike", Patch(marking("other"), priority=-5))
            .add_module_patch("lib.ops", Patch(marking("second")))
        )
        with builder.build():
            assert lib.ops.LOG == [
                ("lib.ops", "first"), ("lib.ops", "second"), ("lib.ops", "late"), ("torchlike", "other"),
            ], lib.ops.LOG
        """,
        LIBRARY,
    )


def test_a_users_function_called_like_a_predefined_one_is_the_users(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import lib.ops
        def index(module, options):
            module.index = lambda x: "mine"
        with PatcherBuilder().add_module_patch("lib.ops", Patch(index)).build():
            assert lib.ops.index(1) == "mine"
        from mx_driving.patcher.tensor import index as predefined
        with PatcherBuilder().add_module_patch("lib", Patch(predefined, {"a": 1})).build() as patcher:
            assert lib.ops.index(1) == ("predefined", {"a": 1})
            assert [result.name for result in patcher.report] == ["lib.ops.index"]
        """,
        {**LIBRARY, **TORCH_SET},
    )


def test_disable_patches_takes_1_0_names_of_predefined_patches_too(run_program):
    run_program(
        """
        from mx_driving import default_patcher_builder
        import lib.ops
        with default_patcher_builder.disable_patches("index").build():
            assert lib.ops.index(1) == 1 and lib.ops.g(1) == "predefined g"
        """,
        {**LIBRARY, **TORCH_SET},
    )


def test_a_builder_entered_under_main_reaches_copies_that_models_took_before(run_program):
    run_program(
        """
        from lib import f
        from lib.ops import f as renamed
        import model
        from mx_driving.patcher import PatcherBuilder, Patch
        def patch(module, options):
            module.f = lambda x: "new"
        if __name__ == "__main__":
            with PatcherBuilder().add_module_patch("lib.ops", Patch(patch)).build():
                assert (f(1), renamed(1), model.run(1)) == ("new", "new", "new")
            assert (f(1), renamed(1), model.run(1)) == (1, 1, 1)
        """,
        {**LIBRARY, "model.py": "from lib.ops import f as op\ndef run(x): return op(x)\n"},
    )


def test_a_function_that_found_nothing_to_patch_is_not_called_applied(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        def patch(module, options):
            if hasattr(module, "removed_long_ago"):
                module.removed_long_ago = None
        patcher = PatcherBuilder().add_module_patch("lib.ops", Patch(patch)).build()
        patcher.apply()
        (result,) = patcher.report
        assert result.status.value == "skipped" and "ran, wrote nothing" in result.reason, result
        """,
        LIBRARY,
    )


def test_an_attribute_error_after_some_writes_undoes_them_and_is_said(run_program):
    done = run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import lib.ops
        def patch(module, options):
            module.f = None
            module.removed_long_ago.method = None
        PatcherBuilder().add_module_patch("lib.ops", Patch(patch)).build().apply()
        assert lib.ops.f(1) == 1
        """,
        LIBRARY,
    )
    assert "WARNING" in done.stderr and "removed_long_ago" in done.stderr


def test_a_function_may_write_to_what_it_imports_and_what_cannot_be_recorded_is_said(run_program):
    done = run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import lib
        def deep(module, options):
            import lib.deep.inner
            lib.deep.inner.f = lambda x: "deep"
        def known(module, options):
            from lib.ops import g
            import lib.ops
            lib.ops.g = lambda x: "known"
        builder = PatcherBuilder().add_module_patch("lib", Patch(deep), Patch(known, priority=1))
        with builder.build() as patcher:
            assert lib.deep.inner.f(1) == "deep" and lib.ops.g(1) == "known"
            assert "lib.ops.g" in [result.name for result in patcher.report]
        assert lib.ops.g(1) == 1
        """,
        LIBRARY,
    )
    assert "not recorded" in done.stderr


def test_a_function_may_write_into_a_registry(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        from lib.registry import MODELS
        def patch(module, options):
            class Conv: pass
            module.MODELS.register_module(name="Conv", force=True, module=Conv)
        with PatcherBuilder().add_module_patch("lib.registry", Patch(patch)).build():
            assert "Conv" in MODELS._module_dict
        assert MODELS._module_dict == {}
        """,
        LIBRARY,
    )


def test_module_and_options_are_passed_by_position(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import torchlike
        def batch_norm(torchlike, opts):
            torchlike.batch_norm = lambda x: opts["scale"] * x
        with PatcherBuilder().add_module_patch("torchlike", Patch(batch_norm, {"scale": 3})).build():
            assert torchlike.batch_norm(2) == 6
        """,
        LIBRARY,
    )


def test_building_and_entering_twice_applies_a_wrapping_function_once(run_program):
    run_program(
        """
        from mx_driving.patcher import PatcherBuilder, Patch
        import torchlike
        def wrap(module, options):
            inner = module.batch_norm
            module.batch_norm = lambda x: inner(x) + 1
        builder = PatcherBuilder().add_module_patch("torchlike", Patch(wrap))
        with builder.build() as first, builder.build(), first:
            assert torchlike.batch_norm(1) == 2
        assert torchlike.batch_norm(1) == 1
        """,
        LIBRARY,
    )


def test_patches_of_a_group_may_import_the_model_once_and_fail_alone(run_program):
    done = run_program(
        """
        from mx_driving.patcher import AtomicPatch, Patch, Patcher
        import lib.ops
        class Model(Patch):
            @classmethod
            def patches(cls, options=None):
                import model
                from lib.registry import MODELS
                assert "Net" not in MODELS._module_dict
                MODELS.register_module(module=model.Net)
                return [AtomicPatch("model.Net.forward", lambda self, x: "new")]
        class Broken(Patch):
            @classmethod
            def patches(cls, options=None):
                raise RuntimeError("out of luck")
        class Other(Patch):
            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("lib.ops.f", lambda x: "new")]
        patcher = Patcher().add(Broken, Model, Other)
        patcher.apply()
        patcher.apply()
        patcher.print_info()
        import model
        assert model.Net().forward(1) == "new" and lib.ops.f(1) == "new"
        """,
        {**LIBRARY, "model.py": "class Net:\n    def forward(self, x): return x\n"},
    )
    assert "Broken" in done.stderr and "out of luck" in done.stderr


def test_import_control_acts_when_declared_in_one_configure_function(run_program):
    run_program(
        """
        from mx_driving.patcher import Patcher, replace_with
        def configure(patcher):
            patcher.skip_import("absent_ops")
            patcher.replace_import("absent_lib", replace_with.module(Thing=int))
            patcher.replace_import("absent_lib.sub", base_module="lib.ops")
            patcher.inject_import("model", "Net", "zoo")
        patcher = Patcher()
        configure(patcher)
        import zoo, absent_lib.sub
        assert zoo.Net.thing is int and absent_lib.sub.g(1) == 1
        patcher.apply()
        assert zoo.Net.thing is int
        """,
        {
            **LIBRARY,
            "model.py": "import absent_ops.cuda\nfrom absent_lib import Thing\nclass Net:\n    thing = Thing\n",
            "zoo.py": "",
        },
    )


def test_replacements_use_globals_of_their_module_lent_super_and_decorators_of_the_target_library(
    run_program,
):
    run_program(
        """
        import lib
        from mx_driving.patcher import Patcher
        from migrate_to_ascend import patch
        patch.configure_patcher(Patcher())
        """,
        {
            "migrate_to_ascend/__init__.py": "",
            "migrate_to_ascend/patch.py": """
                from mx_driving.patcher import AtomicPatch, with_imports
                cache = None
                calls = 0
                @with_imports(("heads", "Base", "Head"))
                def __init__(self, size):
                    global cache, calls
                    calls += 1
                    cache = size
                    super(Head, self).__init__(size + 1)
                @staticmethod
                @with_imports(("heads", "SCALE"))
                def scaled(x):
                    return SCALE * x * calls
                @with_imports("@heads.doubling", "heads")
                def decorated(self, x):
                    return x
                def configure_patcher(patcher):
                    patcher.add(
                        AtomicPatch("heads.Head.__init__", __init__),
                        AtomicPatch("heads.Head.scaled", scaled),
                        AtomicPatch("heads.Head.decorated", decorated),
                    ).apply()
                    from heads import Head
                    head = Head(3)
                    assert (head.size, cache, calls) == (4, 3, 1)
                    assert head.scaled(5) == 50 and Head.scaled(5) == 50
                    assert head.decorated(4) == 8
                """,
            "heads.py": """
                SCALE = 10
                def doubling(function):
                    return lambda self, x: 2 * function(self, x)
                class Base:
                    def __init__(self, size): self.size = size
                class Head(Base):
                    def __init__(self, size): raise RuntimeError("needs a GPU")
                    @staticmethod
                    def scaled(x): return x
                    def decorated(self, x): return x
                """,
            **LIBRARY,
        },
    )


def test_everything_else_of_the_operator_library_stays_reachable(run_program):
    run_program(
        """
        from mx_driving.patcher import Patcher, default_patcher_builder
        import patcher_core, mx_driving, mx_driving._C
        from mx_driving import scatter_max
        from mx_driving.ops.scatter import scatter_max as same
        assert scatter_max is same and mx_driving._C.kernel() == "real" and mx_driving.__version__ == "26.2"
        assert Patcher is patcher_core.Patcher
        assert mx_driving.default_patcher_builder is default_patcher_builder
        """,
        {
            "mx_driving/__init__.py": """
                __version__ = "26.2"
                import mx_driving._C
                from .ops.scatter import scatter_max
                from .patcher import default_patcher_builder, patch_mmcv_version
                """,
            "mx_driving/_C.py": "def kernel(): return 'real'\n",
            "mx_driving/ops/__init__.py": "",
            "mx_driving/ops/scatter.py": "def scatter_max(): pass\n",
            "mx_driving/patcher/__init__.py": "raise RuntimeError('the predecessor was imported')\n",
            "mx_driving/patcher/mmcv_patch.py": "raise RuntimeError('the predecessor was imported')\n",
        },
    )
