"""Functions installed with a runtime_check."""

from __future__ import annotations

import asyncio
import inspect
import linecache
import logging
import pickle
import traceback

import pytest

from patcher_core import AtomicPatch, Patcher


def apply(*patches):
    return Patcher().add(*patches).apply()


def test_the_check_decides_per_call(make_module):
    library = make_module("dis_basic", "def f(x, scale=1): return ('old', x, scale)")
    apply(
        AtomicPatch(
            "dis_basic.f", lambda x, scale=1: ("new", x, scale), runtime_check=lambda x, scale=1: x > 2
        )
    )
    assert library.f(1) == ("old", 1, 1) and library.f(3, scale=5) == ("new", 3, 5)


@pytest.mark.parametrize(
    ("signature", "call"),
    [
        ("a, b=2", "f(1)"),
        ("a, b=2", "f(b=3, a=1)"),
        ("a, /, b, *rest", "f(1, 2, 3, 4)"),
        ("a, *, key=5", "f(1, key=7)"),
        ("a, *, key", "f(1, key=7)"),
        ("*args, key=1, **rest", "f(1, 2, key=3, other=4)"),
        ("a=(), b=None, **rest", "f(c=1)"),
    ],
)
@pytest.mark.parametrize("answer", [True, False])
def test_arguments_arrive_as_in_a_direct_call(make_module, signature, call, answer):
    source = f"def f({signature}): return ('MARK', dict(locals()))"
    library = make_module("dis_args", source.replace("MARK", "old"))
    new = make_module("dis_args_new", source.replace("MARK", "new"))
    check = make_module("dis_args_check", f"def check({signature}): return {answer}").check
    expected = eval(call, vars(new if answer else library))
    apply(AtomicPatch("dis_args.f", new.f, runtime_check=check))
    assert eval(call, vars(library)) == expected


def test_where_signatures_differ_the_call_is_forwarded_as_the_caller_wrote_it(make_module):
    library = make_module("dis_kw", "def f(*args, **kwargs): return ('old', args, kwargs)")
    seen = []

    def check(*args, **kwargs):
        seen.append((args, kwargs))
        return False

    apply(AtomicPatch("dis_kw.f", lambda x: "new", runtime_check=check))
    assert library.f(1, y=2) == ("old", (1,), {"y": 2}) and seen == [((1,), {"y": 2})]


def test_a_default_that_is_a_fresh_object_is_not_mixed_up(make_module):
    library = make_module("dis_default", "def f(x=[]): return x")
    original = library.f
    apply(AtomicPatch("dis_default.f", lambda x=[]: "new", runtime_check=lambda x=None: False))
    assert library.f() is original()


def test_a_check_that_raises_counts_as_false_and_is_reported_once(make_module, messages):
    library = make_module("dis_raise", "def f(x): return 'old'")
    apply(AtomicPatch("dis_raise.f", lambda x: "new", runtime_check=lambda x: x.dim() > 1))
    assert [library.f(1), library.f(2)] == ["old", "old"]
    reports = [text for text in messages(logging.WARNING) if "dis_raise.f" in text]
    assert len(reports) == 1 and "'int' object has no attribute 'dim'" in reports[0]


def test_an_error_of_the_replacement_is_the_callers(make_module):
    calls = []
    library = make_module("dis_error", "def f(x): calls.append('old')", calls=calls)

    def new(x):
        raise ValueError("device is out of memory")

    apply(AtomicPatch("dis_error.f", new, runtime_check=lambda x: True))
    with pytest.raises(ValueError, match="device is out of memory"):
        library.f(1)
    assert calls == []


@pytest.mark.parametrize("kind", ["staticmethod", "classmethod", "property", "method"])
def test_every_kind_of_attribute_dispatches(make_module, kind):
    decorator = "" if kind == "method" else f"@{kind}"
    first = {"staticmethod": "x=1", "classmethod": "cls", "property": "self", "method": "self"}[kind]
    library = make_module(
        "dis_kinds", f"class C:\n    on = True\n    {decorator}\n    def f({first}): return 'old'"
    )
    state = {"use": False}
    apply(AtomicPatch("dis_kinds.C.f", lambda *args: "new", runtime_check=lambda *args: state["use"]))
    read = (lambda: library.C().f) if kind == "property" else (lambda: library.C().f())
    assert read() == "old"
    state["use"] = True
    assert read() == "new"


def test_a_dispatcher_looks_like_the_original_and_pickles_by_reference(make_module):
    library = make_module(
        "dis_identity",
        "def f(x: int, *, key: str = 'k') -> float:\n    'documented'\n    return 1.0\nf.custom = 3\n",
    )
    f = library.f
    f.__module__ = "dis_identity"
    signature = inspect.signature(f)
    apply(AtomicPatch("dis_identity.f", lambda *args, **kwargs: 2.0, runtime_check=lambda *a, **k: True))
    made = library.f
    assert made is not f and made(1) == 2.0
    assert (made.__name__, made.__qualname__, made.__module__, made.__doc__) == (
        "f",
        "f",
        "dis_identity",
        "documented",
    )
    assert made.custom == 3 and inspect.signature(made) == signature
    assert not hasattr(made, "__wrapped__")
    assert pickle.loads(pickle.dumps(made)) is made


def test_the_result_of_a_wrapper_carries_the_originals_identity_but_never_wrapped(make_module):
    import functools

    library = make_module("dis_wrapped", "def f(x, y=2): return x + y")
    library.f.__module__ = "dis_wrapped"

    def wrap(original):
        @functools.wraps(original)
        def inner(*args, **kwargs):
            return -original(*args, **kwargs)

        return inner

    apply(AtomicPatch("dis_wrapped.f", target_wrapper=wrap))
    assert library.f(1) == -3 and str(inspect.signature(library.f)) == "(x, y=2)"
    assert not hasattr(library.f, "__wrapped__") and library.f.__qualname__ == "f"


def test_a_shared_function_that_a_wrapper_gives_back_is_not_renamed(make_module):
    make_module("dis_shared", "def f(): return 'old'")
    fast = make_module("dis_shared_fast", "def quick(): return 'new'")
    fast.quick.__module__ = "dis_shared_fast"
    apply(AtomicPatch("dis_shared.f", target_wrapper=lambda original: fast.quick))
    assert fast.quick.__name__ == "quick"


def test_a_runtime_check_on_a_class_is_refused_and_nothing_is_changed(make_module):
    library = make_module("dis_class", "class C: pass")
    cls = library.C
    patcher = apply(AtomicPatch("dis_class.C", type("New", (), {}), runtime_check=lambda: True))
    assert library.C is cls
    assert "is a class" in patcher.report.failed[0].reason


def test_an_unconditional_replacement_is_installed_as_it_is(make_module):
    library = make_module("dis_bare", "def f(): return 'old'\nclass C:\n    def m(self): return 'old'")

    def new(*args):
        return "new"

    apply(AtomicPatch("dis_bare.f", new), AtomicPatch("dis_bare.C.m", new))
    assert library.f is new and library.C.__dict__["m"] is new


def test_tracebacks_show_the_line_of_the_dispatcher_that_ran(make_module):
    """What can be read as its source agrees with what runs, line for line."""
    module = make_module("dispatch_lib", "def f(x): raise KeyError(x)")

    def replacement(x):
        raise LookupError(x)

    def lines_of(call):
        try:
            call()
        except LookupError as error:
            return [
                frame.line
                for frame in traceback.extract_tb(error.__traceback__)
                if frame.filename.startswith("<patcher_core")
            ]
        return []

    with Patcher().add(AtomicPatch("dispatch_lib.f", replacement, runtime_check=lambda x: x > 0)):
        assert lines_of(lambda: module.f(1)) == ["return _patcher_replacement(x)"]
        assert lines_of(lambda: module.f(-1)) == ["return _patcher_original(x)"]
        linecache.checkcache()
        assert "use_replacement = _patcher_check(x)" in inspect.getsource(module.f)


KINDS = {
    "coroutine": ("async def f(x): return MARK, x", inspect.iscoroutinefunction),
    "generator": ("def f(x):\n    got = yield MARK, x\n    return got", inspect.isgeneratorfunction),
    "async_generator": ("async def f(x):\n    yield MARK, x", inspect.isasyncgenfunction),
}


def first_of(made):
    """What the coroutine, generator or asynchronous generator ``made`` yields or returns first."""

    async def run():
        if inspect.isasyncgen(made):
            return await made.__anext__()
        return await made

    return next(made) if inspect.isgenerator(made) else asyncio.run(run())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parameters", ["x", "*args, **kwargs"])
def test_a_function_stays_of_its_kind_which_frameworks_ask_for(make_module, kind, parameters):
    source, is_of_kind = KINDS[kind]
    library = make_module("dis_kind", source.replace("MARK", "'old'"))
    new = make_module("dis_kind_new", source.replace("MARK", "'new'")).f
    check = make_module("dis_kind_check", f"def check({parameters}): return True").check
    checks = [check, lambda x: x > 2]
    for check in checks:
        with Patcher().add(AtomicPatch("dis_kind.f", new, runtime_check=check)):
            assert is_of_kind(library.f)
            assert first_of(library.f(3)) == ("new", 3)
    with Patcher().add(AtomicPatch("dis_kind.f", new, runtime_check=lambda x: 1 / 0)):
        assert first_of(library.f(1)) == ("old", 1)


def test_what_is_sent_and_thrown_arrives_in_a_generator(make_module):
    source = "def f():\n    try:\n        got = yield 1\n    except KeyError:\n        got = 'caught'\n    yield got"
    make_module("dis_sent", source)
    new = make_module("dis_sent_new", source).f
    with Patcher().add(AtomicPatch("dis_sent.f", new, runtime_check=lambda: True)):
        from dis_sent import f  # type: ignore[import-not-found]

        running = f()
        assert next(running) == 1 and running.send("sent") == "sent"
        running = f()
        assert next(running) == 1 and running.throw(KeyError()) == "caught"


@pytest.mark.parametrize("name", ["error", "type", "use_replacement"])
@pytest.mark.parametrize("answer", ["True", "False", "1 / 0"])
def test_a_parameter_may_be_called_what_the_dispatcher_might_use(make_module, name, answer):
    library = make_module("dis_names", f"def f({name}): return 'old', {name}")
    new = make_module("dis_names_new", f"def f({name}): return 'new', {name}").f
    check = make_module("dis_names_check", f"def check({name}): return {answer}").check
    with Patcher().add(AtomicPatch("dis_names.f", new, runtime_check=check)):
        assert library.f(5) == ("new" if answer == "True" else "old", 5)
