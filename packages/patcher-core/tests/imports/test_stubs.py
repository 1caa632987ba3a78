"""What code may do with a name that it imported from a skipped module."""

from __future__ import annotations

import sys

import pytest


def test_a_skipped_module_and_all_its_children_import(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext.ops.cuda as cuda
        from ext.nn import Linear
        from ext.deep.er import something, other
        from ext import *
        from ext.ops import *
        import ext
        assert ext.ops.cuda is cuda is sys.modules["ext.ops.cuda"]
    """)


def test_reading_attributes_registers_nothing(run_controlled):
    run_controlled("""
        control.skip("ext")
        assert "ext" not in sys.modules
        import ext
        before = set(sys.modules)
        assert ext.a.b.C is ext.a.b.C and getattr(ext, "d") is ext.d
        assert set(sys.modules) == before
    """)


def test_a_stub_is_falsy_and_has_a_version(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext.sub
        for stub in (ext, ext.sub, ext.f, ext.sub.C.D):
            assert not stub and isinstance(stub.__version__, str)
            assert tuple(int(part) for part in stub.__version__.split(".")) < (0, 1)
    """)


def test_other_dunders_raise_attribute_error(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        for stub in (ext, ext.f, ext.C.method):
            for name in ("__wrapped__", "__len__", "__file__", "__array__", "__torch_function__"):
                assert not hasattr(stub, name), name
                with raises(AttributeError, name):
                    getattr(stub, name)
    """)


def test_isinstance_and_issubclass_are_false(run_controlled):
    run_controlled(
        """
        control.skip("ext", "real_pkg.Kernel")
        import ext.sub, real_pkg
        from real_pkg import Kernel
        from ext.runtime import JITFunction
        for stub in (ext, ext.sub, JITFunction, ext.a.b.C, Kernel):
            assert isinstance(3, stub) is False and isinstance(None, (str, stub)) is False
            assert isinstance(3, (stub, int)) is True
            assert issubclass(int, stub) is False and issubclass(int, (stub, object)) is True
    """,
        {"real_pkg/__init__.py": ""},
    )


@pytest.mark.parametrize("base", ["ext.Base", "ext.sub", "Kernel", "ext.Base[int]", "ext.a.b.c"])
def test_a_stub_base_drops_out_of_a_class(run_controlled, base):
    run_controlled(f"""
        import abc
        control.skip("ext", "ghost.mod.Kernel")
        import ext.sub
        from ghost.mod import Kernel
        Q = typing.TypeVar("Q")
        class Alone({base}):
            depth = 3
            def __init__(self, n):
                super().__init__()
                self.n = n
        class Sub(Alone): pass
        assert (Sub(4).n, Sub.depth, Alone.__name__, Alone.__module__) == (4, 3, "Alone", "__main__")
        assert Alone.__mro__ == (Alone, object) and type(Alone) is type and issubclass(Sub, Alone)
        class Abstract({base}, abc.ABC):
            @abc.abstractmethod
            def f(self): ...
        with raises(TypeError, "abstract"):
            Abstract()
        class OnlyStubs({base}, ext.Other): pass
        assert OnlyStubs.__bases__ == (object,)
        class First({base}, dict): pass
        class Last(dict, {base}): pass
        class Generic({base}, typing.Generic[Q]): pass
        assert First(a=1) == Last(a=1) == dict(a=1) and Generic[int]() is not None
        class Registering:
            seen = []
            def __init_subclass__(cls, **keywords): cls.seen.append(keywords)
        class Registered({base}, Registering, key=1): pass
        assert Registering.seen == [dict(key=1)]
        assert pickle.loads(pickle.dumps(Sub(5))).n == 5
    """)


def test_class_keywords_meant_for_a_stub_base_are_dropped_with_it(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        class Kernel(ext.Base, register=True, name="k"): pass
        assert Kernel.__bases__ == (object,)
    """)


def test_a_class_made_from_a_stub_without_a_class_statement(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        made = type("Made", (ext.Base, dict), {"x": 1})
        assert made.x == 1 and made.__mro__ == (made, dict, object)
        assert types.new_class("New", (ext.Base,)).__bases__ == (object,)
    """)


def test_a_subclass_of_a_stubs_error_can_be_raised_and_caught(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        class Mine(ext.CompileError): pass
        with raises(Mine, "why"):
            raise Mine("why")
    """)


def test_an_except_clause_with_a_stub_matches_nothing(run_controlled):
    run_controlled("""
        control.skip("ext", "ghost.errors.Late")
        import ext
        from ghost.errors import Late
        for kind in (ValueError, OSError, KeyboardInterrupt):
            try:
                try:
                    raise kind("real")
                except ext.Error:
                    raise SystemExit("caught by a stub")
                except (ext.sub.Other, Late, ext.not_capitalised):
                    raise SystemExit("caught by a stub in a tuple")
            except kind:
                pass
        with raises(ValueError):
            with contextlib.suppress(ext.Error):
                raise ValueError
    """)


def test_annotations(run_controlled):
    run_controlled("""
        import dataclasses
        control.skip("ext")
        import ext.sub
        from ext.types import T
        def f(a: T | None, b: None | T, c: int | T, d: T | ext.O, e: ext.A[int, 3], f: typing.Optional[T],
              g: typing.List[T], h: typing.Dict[str, ext.Y], i: "typing.Optional[ext.X]", j: ext.sub | None,
              k: T | "Forward", l: typing.Callable[[T], ext.Z]) -> T: ...
        class Forward: pass
        hints = typing.get_type_hints(f)
        assert hints["a"] == typing.Optional[T] and hints["i"] == typing.Optional[ext.X]
        assert hints["return"] is T
        @dataclasses.dataclass
        class Box(typing.Generic[typing.TypeVar("Q")]):
            value: T | None = None
        assert Box().value is None and Box[T]().value is None
        assert isinstance(3, int if T else (int, T))
    """)


def test_a_stub_can_be_copied_and_pickled_by_reference(run_controlled):
    run_controlled("""
        control.skip("ext", "ghost.mod.Kernel")
        import ext.sub, ghost.mod
        from ghost.mod import Kernel
        for stub in (ext, ext.sub, ext.f, ext.sub.C.D, ext.not_imported.C, Kernel, ghost.mod.Kernel):
            assert copy.copy(stub) is stub and copy.deepcopy([stub])[0] is stub
            for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
                text = pickle.dumps({"stub": stub}, protocol)
                assert pickle.loads(text)["stub"] is stub
    """)


def test_a_pickle_made_with_a_stub_finds_the_real_object(run_controlled):
    run_controlled(
        """
        control.skip("real")
        import real
        text = pickle.dumps(real.f)
        control.restore()
        assert pickle.loads(text)() == "real"
    """,
        {"real.py": "def f(): return 'real'"},
    )


def test_inspect_looks_at_a_stub_without_harm(run_controlled):
    run_controlled("""
        import inspect, pydoc
        control.skip("ext")
        import ext
        for stub in (ext, ext.f, ext.C):
            inspect.signature(stub), inspect.getdoc(stub), inspect.unwrap(stub), inspect.getmembers(stub)
            assert repr(stub).count("ext") and "skipped" in repr(stub) and isinstance(dir(stub), list)
            with raises((TypeError, OSError)):
                inspect.getsource(stub)
            assert inspect.getmodule(stub) is ext and inspect.isabstract(stub) is False
            assert hash(stub) == hash(stub) and stub == stub and stub != ext.other
    """)


def test_a_stub_cannot_be_iterated_for_ever(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext.sub
        for stub in (ext, ext.sub, ext.LIST):
            for use in (iter, list, len, lambda each: 1 in each):
                with raises(TypeError):
                    use(stub)
    """)


def test_names_that_classes_and_exceptions_have_are_stubs_too(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        @ext.Registry.register
        def f(): ...
        assert f.__name__ == "f"
        for name in ("mro", "register", "args", "with_traceback", "add_note", "_private"):
            assert "stub" in repr(getattr(ext.C, name)), name
    """)


DECORATED = """
    @ext.jit
    def bare(x, BLOCK: tl.constexpr): ...
    @ext.autotune(configs=[ext.Config({"B": n}, num_warps=4) for n in (1, 2)], key=["B"])
    @ext.heuristics({"x": lambda args: 1})
    @ext.jit
    def stacked(x): ...
    @ext.autotune(
        configs=[
            1,
        ],
    )
    @ext.jit(
        do_not_specialize=["x"],
    )
    def on_several_lines(x): ...
    @ext.register
    class Registered:
        @ext.jit
        def method(self): ...
        @ext.jit(1)
        @staticmethod
        def static(): return "static"
        @ext.cached
        @property
        def prop(self): return "prop"
    @ext.module("name")
    @functools.lru_cache(maxsize=None)
    def cached(): return "cached"
    @ext.jit
    async def coroutine(): ...
"""

CHECKED = """
    for function, name in ((bare, "bare"), (stacked, "stacked"), (on_several_lines, "on_several_lines"),
                           (Registered, "Registered"), (Registered.method, "method"),
                           (coroutine, "coroutine")):
        assert function.__name__ == name, function
    assert cached() == "cached" and Registered.static() == "static" and Registered().prop == "prop"
    """

IMPORTED = """
    import functools
    import ext
    import ext.language as tl
"""


def test_a_decorator_in_a_module_or_class_body_returns_what_it_decorates(run_controlled):
    run_controlled(
        'control.skip("ext")\nimport kernels\nassert records.warnings() == []',
        {
            "kernels.py": IMPORTED + DECORATED + CHECKED,
        },
    )


def test_a_decorator_inside_a_function_returns_what_it_decorates(run_controlled):
    body = "".join(f"    {line}\n" for line in (DECORATED + CHECKED).splitlines())
    run_controlled(
        'control.skip("ext")\nimport kernels\nassert records.warnings() == []',
        {
            "kernels.py": IMPORTED + "    def make():\n" + body + "    make()\n",
        },
    )


def test_a_decorator_applied_by_a_call_inside_a_function_returns_its_argument_and_says_so(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        def work(): ...
        def main():
            return ext.launch(work), ext.launch(work)
        assert main() == (work, work)
        assert len(records.warnings()) == 1 and "ext.launch" in records.warnings()[0], records.lines
    """)


def test_a_call_in_a_module_or_class_body_returns_a_stub(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        X = ext.Config(1, key="B")
        class Model:
            Y = ext.constant(4)
            several = [ext.f(i) for i in range(2)] + list(ext.g(i) for i in range(2))
            by_name = {i: ext.h(i) for i in range(2)}
        for value in (X, X.attribute, Model.Y, *Model.several, *Model.by_name.values()):
            assert value is not None and not value and "stub" in repr(value)
        exec("Z = ext.late(1)")
        assert "stub" in repr(Z) and records.warnings() == []
    """)


def test_a_call_inside_a_function_returns_none_and_is_reported_once_for_each_name(run_controlled):
    run_controlled(
        """
        control.skip("ext.gpu", "ghost.run")
        import ext, ext.gpu.sub
        from ghost import run
        def forward():
            return [ext.gpu.flash(1, causal=True), ext.gpu.sub.norm(), ext.gpu.C.apply(2), run(),
                    (lambda: ext.gpu.sub(3))()]
        assert forward() == forward() == [None] * 5
        warned = records.warnings()
        assert len(warned) == 5, warned
        names = ["ext.gpu.flash", "ext.gpu.sub.norm", "ext.gpu.C.apply", "ghost.run", "ext.gpu.sub"]
        for line, name in zip(warned, names):
            skipped = "ghost.run" if name == "ghost.run" else "ext.gpu"
            assert f"{name}()" in line and f"{skipped} is skipped" in line and "__main__" in line, line
    """,
        {"ext/__init__.py": ""},
    )


def test_on_call_raise(run_controlled):
    run_controlled("""
        control.skip("ext", on_call="raise")
        import ext.sub
        def forward(stub): return stub(1)
        for stub in (ext.flash, ext.sub, ext.sub.deep.er):
            with raises(SkippedModuleError, "ext", "forward", "replace_import"):
                forward(stub)
        @ext.jit(1)
        def kernel(): ...
        assert kernel.__name__ == "kernel" and "stub" in repr(ext.Config(1))
    """)


def test_a_stub_beside_a_metaclass_of_its_own_is_the_documented_limit(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        class Meta(type): pass
        class Real(metaclass=Meta): pass
        with raises(TypeError, "metaclass"):
            class Both(ext.Base, Real): pass
    """)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="except* is syntax of CPython 3.11")
def test_except_star_with_a_stub_matches_nothing(run_controlled):
    run_controlled("""
        control.skip("ext")
        import ext
        try:
            try:
                raise ExceptionGroup("all", [ValueError(1)])
            except* ext.Error:
                raise SystemExit("caught by a stub")
        except ExceptionGroup:
            pass
    """)


def test_decorators_in_functions_without_source(run_controlled):
    run_controlled(
        """
        control.skip("ext")
        import ext
        code = '''if True:
            def make():
                @ext.autotune(configs=[ext.Config(n) for n in (1, 2)], key=["n"])
                @ext.jit
                @ext.heuristics(ext.compute(1))
                def kernel(x, y=3, *, z: int = 4): return make
                @ext.register("name")
                class Layer: pass
                return kernel, Layer
            def call():
                value = ext.f(1)
                ext.g(2)
                return value, ext.h(3)
        '''
        namespace = {"ext": ext, "__name__": "made"}
        exec(compile(code, "no such file", "exec"), namespace)
        kernel, layer = namespace["make"]()
        assert kernel.__name__ == "kernel" and layer.__name__ == "Layer"
        assert namespace["call"]() == (None, None)
        """
    )


def test_a_call_from_no_python_code(run_controlled):
    done = run_controlled(
        """
        import atexit, _thread, time
        control.skip("ext")
        import ext
        atexit.register(lambda: print(records.warnings()))
        atexit.register(ext.shutdown)
        _thread.start_new_thread(ext.work, ())
        while not records.warnings():
            time.sleep(0.01)
        assert "ext.work()" in records.warnings()[0]
        """
    )
    assert "ext.shutdown()" in done.stdout and done.stderr == ""


def test_a_replaced_module_inside_a_skipped_one_is_what_from_imports_get(run_controlled):
    run_controlled(
        """
        control.skip("ext")
        control.replace("ext.solid", Thing=int)
        control.replace("ext.deep.solid", Thing=str)
        from ext import solid, hollow
        from ext.deep import solid as deep
        from ext import deep as parent
        assert solid.Thing is int and deep.Thing is parent.solid.Thing is str and "stub" in repr(hollow)
        """
    )
