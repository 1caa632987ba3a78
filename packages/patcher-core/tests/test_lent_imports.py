"""``with_imports``: names lent to a function at its first call."""

from __future__ import annotations

# ruff: noqa: F821 - a lent name is undefined to a linter
import asyncio
import functools
import importlib
import inspect
import logging
import math
import os.path
import pickle
import subprocess
import sys
import textwrap
import threading
import types

import pytest

from patcher_core import AtomicPatch, Patcher
from patcher_core.import_specs import parse_name_list
from patcher_core.lent_imports import lend, lend_all, lending, with_imports


@pytest.fixture
def make_module(tmp_path, monkeypatch):
    """Write source files and import the first of them, as a program would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)

    def make(*files, **modules):
        for file, source in [*files, *((f"{name}.py", source) for name, source in modules.items())]:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module(next(iter(modules), "builtins"))

    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


# ------------------------------------------------------------------------------- what a specification binds


@pytest.mark.parametrize(
    ("spec", "expression", "expected"),
    [
        ("os.path", "path.join('a', 'b')", os.path.join("a", "b")),
        ("math", "math.floor(1.5)", 1),
        (("math", "floor"), "floor(1.5)", 1),
        (("math", "floor", "down"), "down(1.5)", 1),
        (("os", "path", "p"), "p.basename('a/b')", "b"),
        ("from math import sqrt, floor as f", "(sqrt(4.0), f(1.5))", (2.0, 1)),
        ("from math import (\n    sqrt,\n    floor,\n)", "(sqrt(4.0), floor(1.5))", (2.0, 1)),
        ("import os.path as p", "p.basename('a/b')", "b"),
        ("import os.path", "os.path.basename('a/b')", "b"),
        ("import math, cmath as c", "(math.floor(1.5), c.sqrt(-1))", (1, 1j)),
        ("import math; from math import sqrt", "math.sqrt(sqrt(16))", 2.0),
        ("from importlib import abc", "abc.Loader.__name__", "Loader"),
    ],
)
def test_a_specification_binds_what_the_import_statement_would(make_module, spec, expression, expected):
    module = make_module(
        user=f"""
        from patcher_core.lent_imports import with_imports
        @with_imports({spec!r})
        def function():
            return {expression}
        """
    )
    assert module.function() == expected
    assert module.function() == expected


def test_a_relative_import_is_relative_to_the_package_of_the_function(make_module):
    source = """
    from patcher_core.lent_imports import with_imports
    @with_imports("from .sibling import VALUE", "from . import sibling as s")
    def function():
        return VALUE + s.VALUE
    """
    make_module(("pkg/__init__.py", ""), ("pkg/sibling.py", "VALUE = 7"), ("pkg/user.py", source))
    module = importlib.import_module("pkg.user")
    assert module.function() == 14


def test_the_tuple_of_the_old_interface_names_several_attributes():
    @lending(parse_name_list(("math", "floor", "sqrt")))
    def function(x):
        return floor(sqrt(x))

    assert function(17.0) == 4


@pytest.mark.parametrize(
    ("specs", "error", "named"),
    [
        ((3,), TypeError, "3"),
        ((None,), TypeError, "None"),
        ((["math", "floor"],), TypeError, "list"),
        ((("math", 3),), TypeError, "3"),
        ((("math",),), ValueError, "math"),
        ((("math", "floor", "f", "g"),), ValueError, "floor"),
        ((("math", "no-name"),), ValueError, "no-name"),
        ((("ma th", "floor"),), ValueError, "ma th"),
        (("",), ValueError, "''"),
        (("flash-attn",), ValueError, "flash-attn"),
        (("os..path",), ValueError, "os..path"),
        (("os.class",), ValueError, "os.class"),
        (("from math import *",), ValueError, "star"),
        (("from math import",), ValueError, "from math import"),
        (("print('hello')",), ValueError, "print"),
        (("# nothing",), ValueError, "nothing"),
        (("@",), ValueError, "@"),
        (("@functools.wraps(",), ValueError, "functools.wraps("),
        (("@import x",), ValueError, "import x"),
        ((("math", "sqrt"), ("cmath", "sqrt")), ValueError, "cmath.sqrt"),
    ],
)
def test_a_wrong_specification_is_refused_at_once_and_named(specs, error, named):
    with pytest.raises(error, match="with_imports") as caught:
        with_imports(*specs)
    assert named in str(caught.value)


@pytest.mark.parametrize(
    ("decorators", "error", "named"),
    [
        ("functools.wraps", TypeError, "functools.wraps"),
        ([3], TypeError, "3"),
        ([("functools.lru_cache", 3)], TypeError, "lru_cache"),
        ([("functools.lru_cache", {3: 4})], TypeError, "lru_cache"),
        ([("functools lru_cache", {})], ValueError, "functools lru_cache"),
    ],
)
def test_wrong_apply_decorators_are_refused_at_once_and_named(decorators, error, named):
    with pytest.raises(error, match="apply_decorators") as caught:
        with_imports("math", apply_decorators=decorators)
    assert named in str(caught.value)


@pytest.mark.parametrize("decorated", [3, len, int, property(lambda self: 1), "text", None])
def test_only_functions_can_be_decorated(decorated):
    with pytest.raises(TypeError, match="with_imports decorates functions"):
        with_imports("math")(decorated)


def test_the_same_name_twice_for_the_same_thing_is_no_conflict():
    @with_imports(("math", "floor"), "from math import floor", "import os.path", "import os")
    def function():
        return floor(1.5), os.sep

    assert function() == (1, os.sep)


# ---------------------------------------------------------------------------- the function stays what it is


def test_the_function_stays_the_same_object_with_name_doc_and_signature():
    def function(a, b=2, *args, c, d: int = 4, **kwargs) -> float:
        """The doc."""
        return floor(a), b, args, c, d, kwargs

    before = (inspect.signature(function), inspect.getsource(function), function.__qualname__)
    decorated = with_imports(("math", "floor"))(function)
    for _ in range(2):
        assert decorated is function
        assert (inspect.signature(function), inspect.getsource(function), function.__qualname__) == before
        assert function.__name__ == "function"
        assert function.__doc__ == "The doc."
        assert function.__module__ == __name__
        assert function(1.5, 3, 4, c=5, e=6) == (1, 3, (4,), 5, 4, {"e": 6})


@with_imports("math")
def pickled():
    return math.pi


def test_it_pickles_by_reference_before_and_after_the_first_call():
    assert pickle.loads(pickle.dumps(pickled)) is pickled
    pickled()
    assert pickle.loads(pickle.dumps(pickled)) is pickled


POSITIONAL_ONLY = """
from patcher_core.lent_imports import with_imports
@with_imports(("math", "floor"))
def function(a, b=2.5, /, c=3, *, d=4):
    return floor(a), floor(b), c, d
"""


def test_positional_only_parameters_and_defaults_are_kept(make_module):
    function = make_module(user=POSITIONAL_ONLY).function
    with pytest.raises(TypeError, match="positional-only"):
        function(1.5, b=2)
    assert function(1.5) == (1, 2, 3, 4)
    assert function(1.5, 3.5, c=5, d=6) == (1, 3, 5, 6)


def test_a_wrong_call_is_the_callers_type_error():
    @with_imports("math")
    def function(a):
        return math.floor(a)

    with pytest.raises(TypeError, match="function"):
        function()
    with pytest.raises(TypeError, match="function"):
        function(1, 2)
    assert function(1.5) == 1


def test_module_globals_stay_live(make_module):
    module = make_module(
        user="""
        from patcher_core.lent_imports import with_imports
        SCALE = 2
        calls = 0
        @with_imports(("math", "floor"))
        def function(x):
            global calls
            calls += 1
            return floor(x) * SCALE
        """
    )
    assert module.function(1.5) == 2
    module.SCALE = 10
    assert module.function(1.5) == 10
    assert module.calls == 2
    del module.SCALE
    with pytest.raises(NameError, match="SCALE"):
        module.function(1.5)


def test_lent_names_are_private_to_the_function(make_module):
    module = make_module(
        user="""
        from patcher_core.lent_imports import with_imports
        floor = "the module's own"
        @with_imports(("math", "floor"), "os.path", ("math", "sqrt"))
        def function(x):
            return floor(sqrt(x)), path
        @with_imports(("decimal", "Decimal", "sqrt"))
        def other(x):
            return sqrt(x)
        def bystander():
            return floor, sqrt
        """
    )
    import decimal

    assert module.function(17.0) == (4, os.path)
    assert module.other(1) == decimal.Decimal(1)
    assert module.floor == "the module's own"
    assert not hasattr(module, "path")
    with pytest.raises(NameError, match="sqrt"):
        module.bystander()
    namespace = {}
    exec("from user import *", namespace)
    assert not [name for name in namespace if "lent" in name]


def test_closure_defaults_and_nonlocal_survive():
    total = 0
    extra = 100

    @with_imports(("math", "floor"))
    def function(x, start=[5], *, step=1):  # noqa: B006
        nonlocal total
        total += floor(x) + start[0] + step
        return total + extra

    assert function(1.5) == 107
    extra = 200
    assert function(1.5) == 214
    assert total == 14


def test_super_works_with_and_without_arguments():
    class Base:
        def __init__(self, x):
            self.base = x

    class Child(Base):
        @with_imports(("math", "floor"))
        def __init__(self, x):
            super().__init__(floor(x))

    assert [Child(1.5).base, Child(2.5).base] == [1, 2]


def test_super_of_a_lent_class_skips_that_class(make_module):
    make_module(
        lib="""
        class Base:
            def __init__(self):
                self.seen = ["Base"]
        class Middle(Base):
            def __init__(self):
                super().__init__()
                self.seen.append("Middle")
        """
    )
    module = make_module(
        user="""
        import lib
        from patcher_core.lent_imports import with_imports
        class Leaf(lib.Middle):
            @with_imports(("lib", "Middle"))
            def __init__(self):
                super(Middle, self).__init__()
        """
    )
    assert module.Leaf().seen == module.Leaf().seen == ["Base"]


def test_recursion_nested_functions_lambdas_comprehensions_and_classes_see_lent_names():
    @with_imports(("math", "floor"), "os.path", ("collections", "OrderedDict", "Ordered"))
    def function(x, depth=1):
        def inner(y):
            return [floor(z) for z in y]

        class Local(Ordered):
            kind = floor(9.5)

            def size(self):
                return floor(len(self)), {floor(n): path.basename(n * "a/b") for n in (1,)}

        local = Local(a=1)
        deeper = function(x, depth - 1) if depth else None
        key = lambda n: -floor(n)  # noqa: E731
        return (
            inner([x]),
            sorted([1.5, 2.5], key=key),
            local.kind,
            local.size(),
            {floor(y) for y in [x]},
            deeper,
        )

    flat = ([1], [2.5, 1.5], 9, (1, {1: "b"}), {1}, None)
    assert function(1.5) == (*flat[:-1], flat)
    assert function(1.5) == (*flat[:-1], flat)


def test_an_attribute_of_the_same_name_is_another_thing():
    class Holder:
        floor = 3
        path = "attribute"

    @with_imports(("math", "floor"), "os.path")
    def function(holder):
        holder.floor += floor(2.5)
        return holder.floor, floor(1.5), holder.path, path.basename("a/b")

    assert function(Holder()) == (5, 1, "attribute", "b")
    assert function(Holder()) == (5, 1, "attribute", "b")


def test_many_names_beyond_one_byte_of_index(make_module):
    """The index of a name then takes more than one byte in the bytecode."""
    others = "\n".join(f"    total += holder.a{i}" for i in range(300))
    module = make_module(
        user=f"""
from patcher_core.lent_imports import with_imports
@with_imports(("math", "floor"), ("math", "ceil"))
def function(holder):
    total = 0
{others}
    total += holder.floor
    return total + floor(1.5) + ceil(0.5)
"""
    )
    holder = types.SimpleNamespace(floor=1000, **{f"a{i}": 1 for i in range(300)})
    assert module.function(holder) == module.function(holder) == 300 + 1000 + 1 + 1


def test_a_name_that_cannot_be_told_apart_is_refused_with_the_way_out(make_module):
    others = "\n".join(f"    total += holder.a{i}" for i in range(300))
    with pytest.raises(ValueError, match=r"'floor' both as a global and as an attribute.*alias"):
        make_module(
            user=f"""
from patcher_core.lent_imports import with_imports
@with_imports(("math", "floor"))
def function(holder):
    total = holder.floor + floor(1.5)
{others}
    return total
"""
        )


def test_a_parameter_or_local_of_the_same_name_wins_as_it_does_over_an_import():
    @with_imports(("math", "floor"), "os.path")
    def function(floor):
        path = floor * 2
        return path + 1

    assert function(2) == 5


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("global floor\n        floor = 3", "assigns 'floor' as a global"),
        ("def inner():\n            global floor\n            del floor", "assigns 'floor' as a global"),
        ("class Local:\n            floor = floor", "both assigns and reads 'floor'"),
    ],
)
def test_a_lent_name_that_the_function_assigns_itself_is_refused(make_module, body, named):
    with pytest.raises(ValueError, match=named):
        make_module(
            user=f"""
        from patcher_core.lent_imports import with_imports
        @with_imports(("math", "floor"))
        def function():
            {body.replace(chr(10), chr(10) + "    ")}
        """
        )


# --------------------------------------------------------------------------------------- kinds of functions


@pytest.mark.parametrize("order", ["below", "above"])
@pytest.mark.parametrize("kind", [staticmethod, classmethod])
def test_below_and_above_staticmethod_and_classmethod(order, kind):
    def function(*args):
        return floor(args[-1]), len(args)

    lent = with_imports(("math", "floor"))
    holder = type("Holder", (), {"f": kind(lent(function)) if order == "below" else lent(kind(function))})
    assert type(vars(holder)["f"]) is kind
    length = 1 if kind is staticmethod else 2
    assert holder.f(1.5) == holder().f(1.5) == (1, length)


def test_generators_are_generators_before_and_after_the_first_call():
    @with_imports(("math", "floor"))
    def function(x):
        received = yield floor(x)
        try:
            yield received
        except KeyError:
            yield "caught"
        return "returned"

    for _ in range(2):
        assert inspect.isgeneratorfunction(function)
        generator = function(1.5)
        assert next(generator) == 1
        assert generator.send("sent") == "sent"
        assert generator.throw(KeyError("k")) == "caught"
        with pytest.raises(StopIteration, match="returned"):
            next(generator)


def test_an_awaitable_generator_can_be_awaited_at_its_first_call():
    @with_imports(("math", "floor"))
    @types.coroutine
    def function(x):
        yield
        return floor(x)

    async def main():
        return await function(1.5), await function(2.5)

    assert asyncio.run(main()) == (1, 2)


def test_coroutines_are_coroutines_before_and_after_the_first_call():
    @with_imports("asyncio", ("math", "floor"))
    async def function(x, *, y):
        await asyncio.sleep(0)
        return floor(x) + y

    for _ in range(2):
        assert inspect.iscoroutinefunction(function)
        assert asyncio.run(function(1.5, y=1)) == 2


def test_asynchronous_generators_receive_what_is_sent_and_thrown_from_the_first_call_on():
    closed = []

    @with_imports(("math", "floor"))
    async def function(x):
        try:
            received = yield floor(x)
            try:
                yield received
            except KeyError:
                yield "caught"
        finally:
            closed.append(x)

    async def use():
        stream = function(1.5)
        got = [await stream.asend(None), await stream.asend("sent"), await stream.athrow(KeyError("k"))]
        await stream.aclose()
        return got, [item async for item in function(2.5)]

    for _ in range(2):
        assert inspect.isasyncgenfunction(function)
        assert asyncio.run(use()) == ([1, "sent", "caught"], [2, None])
    assert closed == [1.5, 2.5, 1.5, 2.5]


def test_between_it_and_the_function_another_decorator_may_stand():
    def twice(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args) * 2

        return wrapper

    @with_imports(("math", "floor"))
    @twice
    def function(x):
        return floor(x)

    @with_imports(("math", "floor"))
    @functools.lru_cache(maxsize=None)
    def cached(x):
        return floor(x)

    assert function(1.5) == function(1.5) == 2
    assert cached(1.5) == cached(1.5) == 1
    assert cached.cache_info().hits == 1


def test_a_replacement_that_carries_the_names_of_upstream_lends_to_itself_not_to_upstream(make_module):
    upstream = make_module(lib="from math import floor\ndef f(x):\n    return floor(x)")
    code = upstream.f.__code__

    @with_imports(("math", "ceil", "floor"))
    @functools.wraps(upstream.f)
    def function(x):
        return floor(x)

    assert function(1.5) == 2
    assert upstream.f(1.5) == 1
    assert upstream.f.__code__ is code


# ----------------------------------------------------------------------------------------------- decorators


def test_decorator_expressions_see_lent_names_and_module_globals_and_apply_top_down(make_module):
    module = make_module(
        user="""
        from patcher_core.lent_imports import with_imports
        ORDER = []
        def mark(name):
            def decorate(function):
                ORDER.append(name)
                def wrapper(*args, **kwargs):
                    return name, function(*args, **kwargs)
                return wrapper
            return decorate
        @with_imports(
            "functools", ("math", "floor"), "@mark('outer')", "@mark('inner')", "@functools.lru_cache(None)"
        )
        def function(x, *, y=2):
            "doc"
            return floor(x), y
        """
    )
    before = module.function
    assert list(inspect.signature(module.function).parameters) == ["x", "y"]
    assert module.ORDER == []
    for _ in range(3):
        assert module.function(1.5, y=3) == ("outer", ("inner", (1, 3)))
    assert module.ORDER == ["inner", "outer"]
    assert module.function is before
    assert list(inspect.signature(module.function).parameters) == ["x", "y"]
    assert pickle.loads(pickle.dumps(module.function)) is module.function


def test_a_decorator_that_changes_the_kind_works():
    @with_imports("contextlib", "@contextlib.contextmanager")
    def function(x):
        yield x

    for _ in range(2):
        with function(3) as got:
            assert got == 3


def test_apply_decorators_are_called_with_their_arguments(make_module):
    make_module(
        lib="""
        def scaled(by=10):
            def decorate(function):
                return lambda *args: function(*args) * by
            return decorate
        def negated(function):
            return lambda *args: -function(*args)
        """
    )

    @with_imports(
        ("math", "floor"),
        "lib",
        apply_decorators=["lib.negated", ("lib.scaled", {"by": 3}), ("lib.scaled", {})],
    )
    def function(x):
        return floor(x)

    assert function(2.5) == function(2.5) == -60


@pytest.mark.parametrize("order", ["below", "above"])
def test_a_decorated_staticmethod(order):
    def function(x):
        return floor(x)

    lent = with_imports(("math", "floor"), "functools", "@functools.lru_cache(None)")
    f = staticmethod(lent(function)) if order == "below" else lent(staticmethod(function))
    holder = type("Holder", (), {"f": f})
    assert holder.f(1.5) == holder().f(1.5) == 1


@pytest.mark.parametrize("expression", ["@3", "@print", "@property"])
def test_a_decorator_that_gives_nothing_callable_is_named(expression):
    @with_imports("math", expression)
    def function():
        return 1

    for _ in range(2):
        with pytest.raises(TypeError, match=expression[1:]):
            function()


def test_decorators_apply_around_decorators_that_stand_below():
    def twice(function):
        @functools.wraps(function)
        def wrapper(x):
            return function(x) * 2

        return wrapper

    @with_imports(("math", "floor"), "@(lambda f: lambda x: ('outer', f(x)))")
    @twice
    def function(x):
        return floor(x)

    assert function(1.5) == function(1.5) == ("outer", 2)


# ------------------------------------------------------------------------------------------ failing imports


def test_a_failing_import_names_module_and_name_and_is_tried_again(make_module, tmp_path):
    @with_imports("math", "late_library", ("late_library", "VALUE", "lent_value"))
    def function():
        return late_library.VALUE + lent_value + math.floor(1.5)

    state = dict(globals())
    for _ in range(2):
        with pytest.raises(ImportError, match="late_library") as caught:
            function()
        assert caught.value.name == "late_library"
        assert "function()" in str(caught.value)
        assert globals().keys() == state.keys()
    (tmp_path / "late_library.py").write_text("OTHER = 2")
    importlib.invalidate_caches()
    with pytest.raises(ImportError, match=r"'VALUE' from 'late_library'"):
        function()
    assert globals().keys() == state.keys()
    (tmp_path / "late_library.py").write_text("VALUE = 20")
    del sys.modules["late_library"]
    assert function() == 41


@pytest.mark.parametrize(
    ("source", "cause"),
    [
        ("raise OSError('libcudart.so.11.0: cannot open')", "libcudart.so.11.0"),
        ("raise RuntimeError('driver too old')", "driver too old"),
        ("import missing_dependency", "missing_dependency"),
    ],
)
def test_a_broken_library_is_an_import_error_with_its_cause(make_module, tmp_path, source, cause):
    (tmp_path / "broken_library.py").write_text(source)
    make_module()

    @with_imports(("broken_library", "name"))
    def function():
        return name

    with pytest.raises(ImportError, match=cause) as caught:
        function()
    assert "'name' from 'broken_library'" in str(caught.value)
    assert cause in str(caught.value.__cause__)


# ------------------------------------------------------------------------------------------------- stacking


def test_stacking_works_and_is_reported(caplog):
    with caplog.at_level(logging.WARNING):

        @with_imports(("math", "floor"))
        @with_imports(("math", "ceil"))
        def function(x):
            return floor(x), ceil(x)

    assert any(
        "stacked" in record.getMessage() and "function" in record.getMessage() for record in caplog.records
    )
    assert function(1.5) == function(1.5) == (1, 2)


def test_stacking_decorators_applies_each_once_outermost_last(caplog):
    @with_imports("builtins", "@(lambda f: lambda x: ('outer', f(x)))")
    @with_imports(("math", "floor"), "@(lambda f: lambda x: ('inner', f(x)))")
    def function(x):
        return floor(x)

    assert function(1.5) == function(1.5) == ("outer", ("inner", 1))


def test_more_can_be_lent_to_a_function_that_was_called_already(caplog):
    def function(x):
        return floor(x) + (ceil(x) if x > 10 else 0)

    with_imports(("math", "floor"))(function)
    assert function(1.5) == 1
    with_imports(("math", "ceil"))(function)
    assert function(10.5) == 21


# ------------------------------------------------------------------------------------------ lending eagerly


def test_lend_imports_now_and_the_code_changes_no_more():
    @with_imports(("math", "floor"))
    def function(x):
        return floor(x)

    assert lend(function) is True
    code = function.__code__
    assert function(1.5) == 1
    assert function.__code__ is code
    assert lend(function) is True


def _lent_function():
    @with_imports(("math", "floor"))
    def function(*args):
        return floor(args[-1])

    return function


@pytest.mark.parametrize(
    "wrap",
    [
        staticmethod,
        classmethod,
        property,
        functools.partial,
        functools.lru_cache(None),
        lambda f: types.MethodType(f, 3),
        lambda f: functools.wraps(f)(lambda *args: f(*args)),
        lambda f: type("Holder", (), {"f": staticmethod(f), "other": 3}),
    ],
)
def test_lend_finds_the_function_inside(wrap):
    function = _lent_function()
    before = function.__code__
    assert lend(wrap(function)) is True
    assert function.__code__ is not before


@pytest.mark.parametrize("candidate", [3, None, len, int, "text", math, staticmethod(len), lambda: 1])
def test_lend_leaves_everything_else_alone(candidate):
    assert lend(candidate) is False


def test_lend_all_reports_failures_and_goes_on():
    good = _lent_function()

    @with_imports("no_such_library_anywhere")
    def bad():
        return 1

    before = good.__code__
    failures = lend_all([bad, 3, good])
    assert [failed for failed, _ in failures] == [bad]
    assert "no_such_library_anywhere" in str(failures[0][1])
    assert good.__code__ is not before


def test_apply_lends_to_replacements_and_checks_before_the_first_call(make_module):
    library = make_module(
        library="def f(x): return x\ndef g(x): return x\nclass C:\n    def h(self, x): return x"
    )

    def lent(*args):
        return floor(args[-1])

    plain, checked, check, method = (
        with_imports(("math", "floor"))(types.FunctionType(lent.__code__.replace(), globals(), name))
        for name in ("plain", "checked", "check", "method")
    )
    waiting = [function.__code__ for function in (plain, checked, check, method)]
    patches = [
        AtomicPatch("library.f", plain),
        AtomicPatch("library.g", checked, runtime_check=check),
        AtomicPatch("library.C.h", staticmethod(method)),
    ]
    with Patcher().add(*patches):
        lent_code = [function.__code__ for function in (plain, checked, check, method)]
        assert not set(map(id, waiting)) & set(map(id, lent_code))
        assert (library.f(1.5), library.g(1.5), library.g(0.5), library.C().h(2.5)) == (1, 1, 0.5, 2)
        assert [function.__code__ for function in (plain, checked, check, method)] == lent_code


def test_apply_says_which_replacement_cannot_have_its_imports(make_module, caplog):
    make_module(library="def f(x): return x")

    @with_imports("no_such_library_anywhere")
    def replacement(x):
        return x

    with caplog.at_level(logging.WARNING), Patcher().add(AtomicPatch("library.f", replacement)):
        assert any("no_such_library_anywhere" in record.getMessage() for record in caplog.records)


# -------------------------------------------------------------------------------------------------- threads


def test_sixteen_threads_make_the_first_call_together(make_module):
    module = make_module(
        user="""
        from patcher_core.lent_imports import with_imports
        MADE = []
        def count(function):
            MADE.append(function)
            return lambda *args: function(*args)
        @with_imports("slow_library", ("slow_library", "VALUE"))
        def plain(x):
            return slow_library.VALUE + VALUE + x
        @with_imports(("slow_library", "VALUE"), "@count")
        def decorated(x):
            return VALUE + x
        """,
        slow_library="""
        import threading
        assert threading.Event().wait(0.05) is False
        VALUE = 20
        """,
    )
    barrier = threading.Barrier(16)
    results = []

    def work():
        barrier.wait()
        results.append((module.plain(2), module.decorated(3)))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [(42, 23)] * 16


def test_threads_that_decorate_at_once_agree_on_one_result(make_module):
    module = make_module(
        user="""
        import threading
        from patcher_core.lent_imports import with_imports
        MEETING = threading.Barrier(2, timeout=20)
        MADE = []
        def number(function):
            MADE.append(function)
            mine = len(MADE)
            MEETING.wait()
            return lambda x: (mine, function(x))
        @with_imports(("math", "floor"), "@number")
        def function(x):
            return floor(x)
        """
    )
    results = []
    threads = [threading.Thread(target=lambda: results.append(module.function(1.5))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(module.MADE) == 2
    assert results[0] == results[1] == module.function(1.5)


def test_no_lock_is_held_while_importing(make_module):
    """Two functions whose libraries wait for each other's: with a common lock neither would finish."""
    module = make_module(
        user="""
        import threading
        from patcher_core.lent_imports import with_imports
        MEETING = threading.Barrier(2, timeout=20)
        @with_imports("left_library")
        def left():
            return left_library.MET
        @with_imports("right_library")
        def right():
            return right_library.MET
        """,
        left_library="import user\nuser.MEETING.wait()\nMET = True",
        right_library="import user\nuser.MEETING.wait()\nMET = True",
    )
    results = []
    threads = [threading.Thread(target=lambda f=f: results.append(f())) for f in (module.left, module.right)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == [True, True]


# ---------------------------------------------------------------------------------------------------- costs


def test_after_the_first_call_nothing_stands_between(make_module):
    module = make_module(
        user="""
        import sys
        from patcher_core.lent_imports import with_imports
        @with_imports(("sys", "_getframe"))
        def depth():
            frame, n = _getframe(), 0
            while frame is not None:
                frame, n = frame.f_back, n + 1
            return n
        def plain():
            frame, n = sys._getframe(), 0
            while frame is not None:
                frame, n = frame.f_back, n + 1
            return n
        """
    )
    module.depth()
    assert module.depth() == module.plain()


def test_importing_the_module_loads_nothing_heavy():
    heavy = ["ast", "asyncio", "dataclasses", "dis", "email", "importlib.metadata", "inspect", "packaging"]
    code = (
        "import sys; before = set(sys.modules); import patcher_core.lent_imports; "
        f"print(sorted(set({heavy}) & (set(sys.modules) - before)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
