"""Public bug reports about runtime patching, as minimal cases (standard library only). The id names the report in each
docstring. Each case runs in a fresh interpreter. Run: pytest test_given_core.py
"""

import os
import subprocess
import sys
import textwrap

import pytest

import patcher_core  # noqa: F401

PRELUDE = textwrap.dedent('''
    import contextlib, importlib, importlib.util, io, logging, sys, types, warnings
    import patcher_core
    from patcher_core import (AtomicPatch, LegacyPatch, Patch, PatchError, Patcher,
                              RegistryPatch, configure_patcher_logging,
                              patcher_logger, replace_with, with_imports)

    def said(fn):
        """Run fn; give back everything it reported: an exception (with its causes),
        warnings, log records of WARNING and above, and stdout/stderr lines that look
        like a complaint."""
        got, old = [], logging.Logger.callHandlers
        def tap(self, rec):
            if rec.levelno >= logging.WARNING:
                got.append(rec.getMessage())
            return old(self, rec)
        out = io.StringIO()
        logging.Logger.callHandlers = tap
        try:
            with warnings.catch_warnings(record=True) as ws, \\
                    contextlib.redirect_stderr(out), contextlib.redirect_stdout(out):
                warnings.simplefilter("always")
                try:
                    fn()
                except Exception as e:
                    while e is not None:
                        got.append(f"{type(e).__name__}: {e}")
                        e = e.__cause__ or e.__context__
            got += [str(w.message) for w in ws]
        finally:
            logging.Logger.callHandlers = old
        got += [ln for ln in out.getvalue().splitlines()
                if any(k in ln.lower() for k in ("warn", "fail", "error"))]
        return "\\n".join(got)

    def quiet_apply(p):
        """apply() whose own complaint, raised or logged, is not the point of the test."""
        try:
            p.apply()
        except PatchError:
            pass
        return p
''')


def case(tmp_path, code, files=None, env=None, timeout=90, name="main.py"):
    """Write the fake packages and the script, run it in a fresh interpreter."""
    src = tmp_path / "src"
    for rel, text in (files or {}).items():
        f = src / rel
        f.parent.mkdir(parents=True, exist_ok=True)
        f.write_text(textwrap.dedent(text), encoding="utf-8")
    src.mkdir(exist_ok=True)
    script = tmp_path / name
    script.write_text(PRELUDE + textwrap.dedent(code), encoding="utf-8")
    e = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "SLURM_PROCID")}
    e["PYTHONPATH"] = os.pathsep.join([str(src)] + [p for p in sys.path if p])
    e.update(env or {})
    r = subprocess.run(
        [sys.executable, str(script)],
        env=e,
        cwd=str(tmp_path),
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert r.returncode == 0, f"rc={r.returncode}\n--- out\n{r.stdout}\n--- err\n{r.stderr}"
    return r


# ---------------------------------------------------------------- A: stub modules


def test_A02_stub_decorators(tmp_path):
    """vllm-project/vllm#15099, #19838, triton-lang/triton#6150."""
    case(
        tmp_path,
        """
        Patcher().skip_import("a02_triton")
        import a02_triton
        import a02_triton.language as tl
        @a02_triton.jit
        def k1(x, BLOCK: tl.constexpr): ...
        @a02_triton.autotune(configs=[a02_triton.Config({"B": 512}, num_warps=4)], key=["B"])
        @a02_triton.jit
        def k2(x): ...
        @a02_triton.jit(do_not_specialize=["x"])
        def k3(x): ...
        class C:
            @a02_triton.jit
            def k4(self): ...
        for k, n in ((k1, "k1"), (k2, "k2"), (k3, "k3"), (C.k4, "k4")):
            assert k is not None and k.__name__ == n, k
    """,
    )


def test_A04_stub_as_a_base_class(tmp_path):
    """sphinx-doc/sphinx#4956."""
    case(
        tmp_path,
        """
        Patcher().skip_import("a04_spconv")
        from a04_spconv.pytorch import SparseModule
        class Enc(SparseModule):
            depth = 3
            def __init__(self, n):
                super().__init__()
                self.n = n
        class Deep(Enc):
            pass
        assert isinstance(Enc, type) and Enc(2).n == 2 and Deep(4).n == 4 and Deep.depth == 3
        assert issubclass(Deep, Enc) and Enc.__name__ == "Enc" and Enc.__module__ == "__main__"
    """,
    )


def test_A06_stub_in_isinstance(tmp_path):
    """unslothai/unsloth-zoo#1002."""
    case(
        tmp_path,
        """
        Patcher().skip_import("a06_triton")
        from a06_triton.runtime.jit import JITFunction
        import a06_triton
        assert isinstance(3, JITFunction) is False
        assert isinstance(3, (JITFunction, int)) is True
        assert isinstance(None, a06_triton.Tensor) is False
        assert issubclass(int, JITFunction) is False
        assert isinstance("x", a06_triton.a.b.C) is False
    """,
    )


def test_A07_stub_in_annotations(tmp_path):
    """sphinx-doc/sphinx#11211, sgl-project/sglang#35167."""
    case(
        tmp_path,
        """
        import dataclasses, typing
        Patcher().skip_import("a07_ext")
        import a07_ext
        from a07_ext.types import T
        def f(a: a07_ext.Tensor | None, b: "typing.Optional[a07_ext.X]", c: typing.List[T],
              d: typing.Dict[str, a07_ext.Y], e: None | a07_ext.Z, g: int | T) -> T: ...
        typing.get_type_hints(f)
        class Box(typing.Generic[typing.TypeVar("Q")]): ...
        x: Box[T] = Box()
        y = a07_ext.Array[int, 3]
        @dataclasses.dataclass
        class D:
            t: a07_ext.Tensor | None = None
        assert D().t is None
    """,
    )


def test_A11_submodules_star_import_and_child_of_a_real_package(tmp_path):
    """Ascend/DrivingSDK PanoOcc SKIP_MODULES: mmdet3d.ops.scatter_v2, ipdb.set_trace."""
    case(
        tmp_path,
        """
        p = Patcher()
        p.skip_import("a11_ext", "a11_ext.pytorch", "a11_ext.pytorch.SparseConvTensor",
                      "a11_real.ops.scatter_v2", "a11_ipdb.set_trace")
        import a11_ext.pytorch as sp
        from a11_ext.pytorch import SparseConvTensor
        from a11_ext.a.b.c import d, e
        from a11_ext import *
        import a11_real
        from a11_real import ops
        assert a11_real.CONST == 1 and ops.good.X == 2, "the real package lost its code"
        from a11_real.ops.scatter_v2 import DynamicScatter
        import a11_real.ops.good
        from a11_ipdb import set_trace
        assert set_trace is not None and importlib.reload(a11_real).CONST == 1
    """,
        {
            "a11_real/__init__.py": "CONST = 1\n",
            "a11_real/ops/__init__.py": "from . import good\nfrom .scatter_v2 import DynamicScatter\n",
            "a11_real/ops/good.py": "X = 2\n",
            "a11_real/ops/scatter_v2.py": "raise ImportError('cuda')\n",
        },
    )


# ---------------------------------------------------------------- B: not taking effect


def test_B01_stale_from_import_copy(tmp_path):
    """vllm-project/vllm-ascend#4354, christophercrouzet/gorilla#2: rebind it, or name it aloud."""
    case(
        tmp_path,
        """
        import b01_user
        p = Patcher().add(AtomicPatch("b01_lib.f", lambda: "new"))
        text = said(p.apply)
        import b01_lib
        assert b01_lib.f() == "new"
        assert b01_user.call() == "new" or "b01_user" in text, text
    """,
        {
            "b01_lib.py": "def f():\n    return 'old'\n",
            "b01_user.py": "from b01_lib import f\ndef call():\n    return f()\n",
        },
    )


def test_B04_registry_patch(tmp_path):
    """Ascend/DrivingSDK 7722471c: patching the attribute leaves the registry with the old class."""
    case(
        tmp_path,
        """
        import b04_lib
        class Npu: pass
        p = Patcher().add(RegistryPatch("b04_lib.MODELS", Npu, name="Conv"))
        p.apply()
        assert b04_lib.MODELS.build("Conv").__class__ is Npu
    """,
        {
            "b04_lib.py": """
        class Registry:
            def __init__(self): self._module_dict = {}
            def register_module(self, name=None, force=False, module=None):
                if name in self._module_dict and not force:
                    raise KeyError(name)
                self._module_dict[name] = module
            def build(self, key): return self._module_dict[key]()
        MODELS = Registry()
        class Conv: pass
        MODELS.register_module("Conv", module=Conv)
    """
        },
    )


# ---------------------------------------------------------------- C: descriptors and classes


def test_C01_static_and_class_methods_keep_their_kind(tmp_path):
    """GrahamDumpleton/wrapt#153, DataDog/dd-trace-py#1246."""
    case(
        tmp_path,
        """
        import c01_lib as lib
        def stat(x): return ("new", x)
        def make(cls, x): return (cls.__name__, "new", x)
        Patcher().add(AtomicPatch("c01_lib.C.stat", stat), AtomicPatch("c01_lib.C.make", make)).apply()
        assert lib.C.stat(1) == lib.C().stat(1) == lib.Sub().stat(1) == ("new", 1)
        assert lib.C.make(1) == ("C", "new", 1) and lib.Sub().make(1) == ("Sub", "new", 1)
    """,
        {
            "c01_lib.py": """
        class C:
            @staticmethod
            def stat(x): return ("old", x)
            @classmethod
            def make(cls, x): return (cls.__name__, "old", x)
        class Sub(C): pass
    """
        },
    )


def test_C03_descriptors_come_back_identical(tmp_path):
    """property, slot member, cached_property, staticmethod: compare __dict__ entries."""
    case(
        tmp_path,
        """
        import c03_lib as lib
        names = ("prop", "slot", "stat", "klass", "desc")
        before = {n: lib.C.__dict__[n] for n in names}
        p = Patcher().add(AtomicPatch("c03_lib.C.prop", property(lambda self: "new")),
                          AtomicPatch("c03_lib.C.slot", 7),
                          AtomicPatch("c03_lib.C.stat", staticmethod(lambda: "new")),
                          AtomicPatch("c03_lib.C.klass", classmethod(lambda cls: "new")),
                          AtomicPatch("c03_lib.C.desc", "c03_lib.other"))
        with p:
            c = lib.C()
            assert (c.prop, c.slot, c.stat(), lib.C.klass(), c.desc()) == ("new", 7, "new", "new", "other")
        assert {n: lib.C.__dict__[n] for n in names} == before
        c = lib.C()
        c.slot = 3
        assert (c.prop, c.slot) == ("old", 3)
    """,
        {
            "c03_lib.py": """
        import functools
        class Desc:
            def __get__(self, obj, owner=None):
                if obj is None:
                    raise RuntimeError("do not bind me to look at me")
            def __set_name__(self, owner, name): ...
        def other(self): return "other"
        class C:
            __slots__ = ("slot",)
            prop = property(lambda self: "old")
            @staticmethod
            def stat(): return "old"
            @classmethod
            def klass(cls): return "old"
            desc = Desc()
    """
        },
    )


def test_C05_unpatchable_targets(tmp_path):
    """Immutable C types (torch._C.TensorBase), Enum members, read-only module attributes: said,
    nothing half done, the rest applied."""
    case(
        tmp_path,
        """
        import c05_lib as lib
        p = Patcher().add(AtomicPatch("builtins.dict.get", lambda *a: None),
                          AtomicPatch("c05_lib.Color.RED", 5),
                          AtomicPatch("c05_lib.f", lambda: "new"))
        text = said(p.apply)
        assert "builtins.dict.get" in text and "c05_lib.Color.RED" in text or "PatchError" in text, text
        assert {1: 2}.get(1) == 2 and lib.Color.RED.value == 1
        if "PatchError" not in text:
            assert lib.f() == "new"
        said(p.restore)
        assert lib.f() == "old" and lib.Color.RED.value == 1
    """,
        {
            "c05_lib.py": """
        import enum
        class Color(enum.Enum):
            RED = 1
        def f(): return "old"
    """
        },
    )


def test_C06_runtime_check_dispatch(tmp_path):
    """Ascend/DrivingSDK 6b2d10dd, 974d6167: an error in the replacement is the caller's to see;
    a check that cannot judge its arguments means the original."""
    case(
        tmp_path,
        """
        import c06_lib as lib
        calls = []
        def new(a, b):
            calls.append("new")
            raise ValueError("npu op failed")
        p = Patcher().add(AtomicPatch("c06_lib.T.__matmul__", new, runtime_check=lambda a, b: b.dim() == 2),
                          AtomicPatch("c06_lib.matmul", new, runtime_check=lambda a, b: a > 5))
        p.apply()
        t = lib.T()
        assert t @ [1, 2] == "old"                            # no .dim(): not ours
        assert lib.matmul(input=9, other=1) == "old"          # other keyword names: not ours
        try:
            t @ t
        except ValueError as e:
            assert "npu op failed" in str(e)
        else:
            raise SystemExit("error of the replacement was swallowed")
        assert calls == ["new"] and lib.LOG == ["old", "old"], (calls, lib.LOG)
    """,
        {
            "c06_lib.py": """
        LOG = []
        class T:
            def dim(self): return 2
            def __matmul__(self, other):
                LOG.append("old")
                return "old"
        def matmul(input, other):
            LOG.append("old")
            return "old"
    """
        },
    )


def test_C08_signature_and_names_survive(tmp_path):
    """huggingface/transformers#25054, #43598: Trainer drops dataset columns that
    inspect.signature(model.forward) does not name."""
    case(
        tmp_path,
        """
        import inspect
        import c08_lib as lib
        def wrap(original):
            def inner(*args, **kwargs): return original(*args, **kwargs)
            return inner
        def fast(self, *args, **kwargs): return "new"
        Patcher().add(AtomicPatch("c08_lib.M.forward", target_wrapper=wrap),
                      AtomicPatch("c08_lib.M.loss", fast, runtime_check=lambda *a, **k: False)).apply()
        for n in ("forward", "loss"):
            f = getattr(lib.M, n)
            assert list(inspect.signature(f).parameters)[:3] == ["self", "input_ids", "labels"], n
            assert f.__name__ == n and f.__qualname__ == f"M.{n}" and f.__module__ == "c08_lib", n
        assert lib.M().forward(1, labels=2) == (1, 2) and lib.M().loss(1) == (1, None)
    """,
        {
            "c08_lib.py": """
        class M:
            def forward(self, input_ids, labels=None): return (input_ids, labels)
            def loss(self, input_ids, labels=None): return (input_ids, labels)
    """
        },
    )


def test_C10_with_imports_when_the_import_fails_first(tmp_path):
    """The missing module is named in an ImportError, not as a NameError later; a failure is not
    remembered."""
    case(
        tmp_path,
        """
        import pathlib
        @with_imports("c10_late", ("c10_late", "V"))
        def f(): return c10_late.V + V
        try:
            f()
        except ImportError as e:
            assert "c10_late" in str(e)
        else:
            raise SystemExit("no error")
        d = pathlib.Path("late"); d.mkdir(); (d / "c10_late.py").write_text("V = 2")
        sys.path.insert(0, str(d)); importlib.invalidate_caches()
        assert f() == 4 and f.__name__ == "f"
        @with_imports("os.path", ("math", "no_such_name"))
        def g(): return no_such_name
        try:
            g()
        except (ImportError, NameError) as e:
            assert "no_such_name" in str(e)
    """,
    )


# ---------------------------------------------------------------- D: processes


def test_D03_spawned_workers(tmp_path):
    """xorbitsai/inference#4879: a spawned child starts unpatched; applying at the top of the main
    module must reach it, and must not recurse or print a summary per worker on stdout."""
    r = case(
        tmp_path,
        """
        import multiprocessing as mp
        p = Patcher().skip_import("d03_ext")
        p.add(AtomicPatch("d03_lib.f", lambda x: ("new", x)))
        p.apply()
        import d03_lib, d03_work
        if __name__ == "__main__":
            with mp.get_context("spawn").Pool(2) as pool:
                got = pool.map(d03_work.work, [1, 2])
            assert got == [("new", 1), ("new", 2)], got
            print("done")
    """,
        {
            "d03_lib.py": "def f(x):\n    return ('old', x)\n",
            "d03_work.py": "from d03_ext import op\nimport d03_lib\ndef work(x):\n    return d03_lib.f(x)\n",
        },
    )
    assert r.stdout.strip().splitlines()[-1] == "done"


# ---------------------------------------------------------------- F: drift


def test_F01_signature_that_no_longer_fits(tmp_path):
    """unslothai/unsloth-zoo#269/#281, intel/intel-npu-acceleration-library#105,
    2U1/Qwen-VL-Series-Finetune#45: say at apply time that the library's callers will not fit."""
    case(
        tmp_path,
        """
        import f01_lib as lib
        def rope(q, k, cos, sin, position_ids): return "new"          # required, gone upstream
        def attn(self, hidden, past_key_value=None): return "new"     # renamed upstream
        def fine(self, x, *args, **kwargs): return "new"
        p = Patcher().add(AtomicPatch("f01_lib.rope", rope), AtomicPatch("f01_lib.A.forward", attn),
                          AtomicPatch("f01_lib.A.fine", fine))
        text = said(p.apply)
        assert "f01_lib.rope" in text and "f01_lib.A.forward" in text, text
        assert "f01_lib.A.fine" not in text, text
    """,
        {
            "f01_lib.py": """
        def rope(q, k, cos, sin, unsqueeze_dim=1): return "old"
        class A:
            def forward(self, hidden, position_embeddings, past_key_values=None): return "old"
            def fine(self, x, y=None): return "old"
    """
        },
    )


def test_F03_the_real_cause_of_a_failed_import(tmp_path):
    """NVIDIA/cuda-python#1733/#2545, rapidsai/rmm#1022, huggingface/transformers#14124: "not
    found" is not "broken"; the other patches go on."""
    case(
        tmp_path,
        """
        import f03_good
        p = Patcher().add(AtomicPatch("f03_oserr.f", lambda: 1), AtomicPatch("f03_nested.sub.f", lambda: 1),
                          AtomicPatch("f03_rt.f", lambda: 1), AtomicPatch("f03_absent.f", lambda: 1),
                          AtomicPatch("f03_good.f", lambda: "new"))
        text = said(p.apply)
        causes = ("libcudart.so.11.0", "flash_attn_2_cuda", "driver too old")
        for cause in causes[:1] if "PatchError" in text else causes:   # fail-fast stops at the first
            assert cause in text, (cause, text)
        assert f03_good.f() == ("old" if "PatchError" in text else "new")
    """,
        {
            "f03_oserr.py": "raise OSError('libcudart.so.11.0: cannot open shared object file')\n",
            "f03_nested/__init__.py": "",
            "f03_nested/sub.py": "import flash_attn_2_cuda\n",
            "f03_rt.py": "raise RuntimeError('driver too old')\n",
            "f03_good.py": "def f():\n    return 'old'\n",
        },
    )


# ---------------------------------------------------------------- H: undo


def test_H01_with_block_restores_also_on_an_error(tmp_path):
    """linkedin/Liger-Kernel#176/#232, huggingface/trl#3680."""
    case(
        tmp_path,
        """
        import h01_lib as lib
        f, g = lib.f, lib.C.__dict__["g"]
        p = Patcher().add(AtomicPatch("h01_lib.f", lambda: "new"), AtomicPatch("h01_lib.C.g", lambda self: "new"))
        try:
            with p:
                assert lib.f() == lib.C().g() == "new"
                raise KeyError("inside")
        except KeyError:
            pass
        assert lib.f is f and lib.C.__dict__["g"] is g
        p.restore()                                           # twice does no harm
        assert lib.f is f
    """,
        {"h01_lib.py": "def f(): return 'old'\nclass C:\n    def g(self): return 'old'\n"},
    )


def test_H02_apply_twice_and_again_after_restore(tmp_path):
    """aws/aws-xray-sdk-python#99, tenstorrent/tt-xla#1159, vllm-project/vllm-ascend#11615."""
    case(
        tmp_path,
        """
        import h02_lib as lib
        def wrap(original):
            def inner(): return "+" + original()
            return inner
        atom = AtomicPatch("h02_lib.f", target_wrapper=wrap)
        p = Patcher().add(atom)
        for _ in range(3):
            p.apply(); p.apply()
            Patcher().add(atom).apply()                       # the very same patch object
            assert lib.f() == "+.", lib.f()
            p.restore()
            assert lib.f() == "."
    """,
        {"h02_lib.py": "def f():\n    return '.'\n"},
    )


def test_H05_replace_import_is_undone(tmp_path):
    case(
        tmp_path,
        """
        import h05_pkg
        p = Patcher()
        p.replace_import("h05_pkg.fast", Thing=int)
        p.replace_import("h05_ghost.deep.leaf", Thing=int)
        p.apply()
        from h05_pkg.fast import Thing
        from h05_ghost.deep.leaf import Thing as T2
        assert Thing is T2 is int
        p.restore()
        assert not [m for m in sys.modules if m.startswith("h05_ghost")]
        assert "fast" not in vars(h05_pkg) and "h05_pkg.fast" not in sys.modules
        from h05_pkg.fast import Thing
        assert Thing == "real"
    """,
        {"h05_pkg/__init__.py": "", "h05_pkg/fast.py": "Thing = 'real'\n"},
    )


# ---------------------------------------------------------------- I: import control


def test_I01_namespace_package_parents(tmp_path):
    """Ascend/DrivingSDK 51db50af: "projects/" without __init__.py."""
    case(
        tmp_path,
        """
        p = Patcher()
        p.replace_import("i01_projects.plugin.ops.agg", exports={"Fn": int})
        p.skip_import("i01_projects.plugin.cuda")
        p.add(AtomicPatch("i01_projects.plugin.models.f", lambda: "new"))
        p.apply()
        import i01_projects.plugin.models as m
        from i01_projects.plugin.ops.agg import Fn
        from i01_projects.plugin.cuda import anything
        import i01_projects.plugin.ops.other
        assert m.f() == "new" and Fn is int and i01_projects.plugin.ops.other.X == 1
    """,
        {
            "i01_projects/plugin/models.py": "def f():\n    return 'old'\n",
            "i01_projects/plugin/ops/agg.py": "raise ImportError('cuda')\n",
            "i01_projects/plugin/ops/other.py": "X = 1\n",
        },
    )


def test_I04_inject_import_that_cannot_work_is_said(tmp_path):
    """Swallowed at debug level, it comes back as "V1SparseDrive is not in the models registry"."""
    case(
        tmp_path,
        """
        def go(src, name, dst):
            def run():
                Patcher().inject_import(src, name, dst).apply()
            return said(run)
        assert "Head" in go("i04_pkg.a", "Head", "i04_pkg")               # no such name
        t = go("i04_pkg.broken", "Head", "i04_pkg")
        assert "missing_dep" in t, t                                       # the cause, too
        assert "i04_nowhere" in go("i04_nowhere.x", "Head", "i04_pkg")
    """,
        {"i04_pkg/__init__.py": "", "i04_pkg/a.py": "", "i04_pkg/broken.py": "import missing_dep\n"},
    )


# ---------------------------------------------------------------- J, K


@pytest.mark.parametrize("rank", ["0", "3"])
def test_J01_ranks(tmp_path, rank):
    """TorchDR/TorchDR#317, huggingface/diffusers#12806, NVIDIA/Megatron-LM#7361: information from
    rank 0 only; failures from every rank."""
    r = case(
        tmp_path,
        """
        import j01_lib
        def bad(): raise ValueError("precheck blew up")
        quiet_apply(Patcher().add(*[AtomicPatch(f"j01_lib.f{i}", lambda: 1) for i in range(5)]))
        print("--- failing", flush=True); print("--- failing", file=sys.stderr, flush=True)
        try:
            Patcher().add(AtomicPatch("j01_lib.bad", lambda: 1, precheck=bad)).apply()
        except PatchError as e:
            print(e)
    """,
        {"j01_lib.py": "".join(f"def f{i}(): return 0\n" for i in range(5)) + "def bad(): return 0\n"},
        env={"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "8"},
    )
    calm = r.stdout.split("--- failing")[0] + r.stderr.split("--- failing")[0]
    bad = r.stdout.split("--- failing")[1] + r.stderr.split("--- failing")[1]
    assert "precheck blew up" in bad
    if rank != "0":
        assert calm.strip() == "", calm


def test_J02_root_logger_is_left_alone(tmp_path):
    """pytorch/ao#2539, janbjorge/pgqueuer#305."""
    r = case(
        tmp_path,
        """
        import j02_lib
        root = logging.getLogger()
        assert root.handlers == [] and root.level == logging.WARNING
        quiet_apply(Patcher().add(AtomicPatch("j02_lib.f", lambda: 1)))
        assert root.handlers == []
        logging.basicConfig(level=logging.INFO, format="USER %(message)s", force=True)
        def bad(): raise ValueError("only-once")
        try:
            Patcher().add(AtomicPatch("j02_lib.f", lambda: 1, precheck=bad)).apply()
        except PatchError as e:
            print(e)
        logging.getLogger("app").info("hello")
    """,
        {"j02_lib.py": "def f():\n    return 0\n"},
    )
    both = r.stdout + r.stderr
    assert both.count("USER hello") == 1
    assert 1 <= len([ln for ln in both.splitlines() if "only-once" in ln]) <= 2, both


def test_K02_attribute_error_inside_a_legacy_patch(tmp_path):
    """Ascend/DrivingSDK 6b2d10dd: "nothing to do here" and "my own bug" both arrive as
    AttributeError; the second must not pass as a quiet skip."""
    case(
        tmp_path,
        """
        import k02_lib
        def buggy(module, options):
            x = None
            x.shape
        text = said(lambda: Patcher().add(LegacyPatch(buggy, target_module="k02_lib")).apply())
        assert "NoneType" in text and "shape" in text, text
    """,
        {"k02_lib.py": ""},
    )


def test_K03_disable_and_a_group_that_cannot_be_listed(tmp_path):
    """A disabled group is not even asked for its patches (they may import CUDA code); one group
    that fails to list its patches does not take the others with it silently."""
    case(
        tmp_path,
        """
        import k03_lib as lib
        class Off(Patch):
            name = "off"
            @classmethod
            def patches(cls, options=None):
                raise SystemExit("asked a disabled group")
        class Broken(Patch):
            name = "broken"
            @classmethod
            def patches(cls, options=None):
                import k03_no_such_module
        class Good(Patch):
            name = "good"
            @classmethod
            def patches(cls, options=None):
                return [AtomicPatch("k03_lib.f", lambda: options["v"]), AtomicPatch("k03_lib.g", lambda: "new")]
        p = Patcher().add(Off).add(Broken).add(Good, options={"v": 5}).disable(Off).disable("k03_lib.g")
        text = said(p.apply)
        assert "k03_no_such_module" in text, text
        assert lib.g() == "old"
        assert lib.f() == ("old" if "PatchError" in text else 5), (lib.f(), text)
    """,
        {"k03_lib.py": "def f():\n    return 'old'\ndef g():\n    return 'old'\n"},
    )
