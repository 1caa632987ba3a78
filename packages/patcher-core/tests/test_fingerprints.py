"""Fingerprints of source: which texts are the same function, and which are not."""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import patcher_core
from patcher_core.fingerprints import NoSource, definitions, function_fingerprint, module_source

ALL_PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")

NORM = '''
class LlamaRMSNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-6):
        """
        LlamaRMSNorm is equivalent to T5LayerNorm
        """
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.variance_epsilon = eps

    def forward(self, hidden_states):
        input_dtype = hidden_states.dtype
        hidden_states = hidden_states.to(torch.float32)
        variance = hidden_states.pow(2).mean(-1, keepdim=True)
        hidden_states = hidden_states * torch.rsqrt(variance + self.variance_epsilon)
        return self.weight * hidden_states.to(input_dtype)
'''

ROTARY = '''
def rotate_half(x):
    """Rotates half the hidden dims of the input."""
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin, position_ids=None, unsqueeze_dim=1):
    cos = cos.unsqueeze(unsqueeze_dim)
    sin = sin.unsqueeze(unsqueeze_dim)
    q_embed = (q * cos) + (rotate_half(q) * sin)
    k_embed = (k * cos) + (rotate_half(k) * sin)
    return q_embed, k_embed
'''


def fingerprint(source, names="f"):
    (found,) = definitions(textwrap.dedent(source), names)
    return found.fingerprint


# -------------------------------------------------------------------------------- what is found, and where


def test_methods_and_functions_are_found_by_globs_over_qualified_names():
    source = NORM + ROTARY + NORM.replace("Llama", "Other")
    found = definitions(source, "*RMSNorm.forward")
    assert [(known.qualname, known.line) for known in found] == [
        ("LlamaRMSNorm.forward", 11),
        ("OtherRMSNorm.forward", 41),
    ]
    assert found[0].fingerprint == found[1].fingerprint
    assert [known.qualname for known in definitions(source, "rotate_half")] == ["rotate_half"]
    assert [known.qualname for known in definitions(source, "*RMSNorm")] == ["LlamaRMSNorm", "OtherRMSNorm"]
    assert [known.qualname for known in definitions(source, "Other*._*")] == ["OtherRMSNorm.__init__"]
    assert definitions(source, "rotate") == definitions(source, "*.rotate_half") == definitions("", "*") == []


TRICKY = """\
'''
class InDocstring:
    def forward(self): ...
'''
import x  # def comment(): pass
text = 'def quoted(): pass' ; y = "class Quoted: it's"
class A(
    Base,
    metaclass=M,
):
    '''
class B:
    def not_here(self): ...
'''
    # class C:
    if True:
        def conditional(self): ...
    else:
        def conditional(self, x): ...

    class Inner:
        def deep(self):
            def local(): ...
            class Local:
                def method(self): ...
            return local
    try:
        async def \\
asynchronous(self): ...
        async  def spaced(self): ...
    finally:
        pass
    one = 1
    def last(self,
        a=')',
    ):
        return '''
def f(): ...
'''
if True:
    def guarded(): ...
    class Guarded:
        def method(self): return 1
        x = [
            1,
]
        def after(self): return 2
else:
    guarded = None
def one_line(): return 1
class Empty: pass
def	tabbed(): return 1
def end(x
): return x"""


def qualified_names(source):
    """What the compiler says is defined outside functions: an independent answer."""
    found = set()

    def walk(statements, prefix):
        for statement in statements:
            if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add((prefix + statement.name, statement.lineno))
                if isinstance(statement, ast.ClassDef):
                    walk(statement.body, f"{prefix}{statement.name}.")
                continue
            for block in ("body", "orelse", "finalbody"):
                walk(getattr(statement, block, []), prefix)
            for handler in getattr(statement, "handlers", []):
                walk(handler.body, prefix)

    walk(ast.parse(source).body, "")
    return found


def test_strings_comments_and_nesting_do_not_mislead():
    source = TRICKY.replace("async def \\\nasynchronous", "async def asynchronous").replace(
        "def\ttabbed", "def tabbed"
    )
    assert {(known.qualname, known.line) for known in definitions(source)} == qualified_names(source)


@pytest.mark.parametrize(
    "module", ["argparse", "collections", "dataclasses", "logging", "typing", "unittest.mock"]
)
def test_real_modules_are_found_out_as_the_compiler_finds_them_out(module):
    source = Path(importlib.import_module(module).__file__).read_text(encoding="utf-8")
    assert {(known.qualname, known.line) for known in definitions(source)} == qualified_names(source)


def test_a_definition_that_stands_there_twice_is_given_twice():
    source = "if x:\n    def f(a): return a\nelse:\n    def f(b): return b\n"
    first, second = definitions(source, "f")
    assert (first.line, second.line) == (2, 4)
    assert first.fingerprint != second.fingerprint


@pytest.mark.parametrize(
    ("arguments", "named"), [((3,), "source"), (("", None), "names"), ((b"x",), "source")]
)
def test_arguments_of_a_wrong_type_are_named(arguments, named):
    with pytest.raises(TypeError, match=named):
        definitions(*arguments)


def test_text_that_is_not_python_is_a_value_error_that_names_the_definition():
    with pytest.raises(ValueError, match=r"f \(line 2\)"):
        definitions("\ndef f(x):\n    return (x\n", "f")
    assert len(definitions("def f(x): return x\n\ndef g(:\n", "f")) == 1


# ------------------------------------------------------------------------------------- what makes no difference

BASE = """
def f(x, y=None, *args, key=lambda a, b: a, **kwargs):
    total = x + 1
    for i in range(3):
        total += i
    return total
"""


@pytest.mark.parametrize(
    "variant",
    [
        # decorators, comments, blank lines, indentation
        "@decorator(1)\n@other\n" + BASE.lstrip(),
        BASE.replace("    total = x + 1\n", "    # why\n\n    total = x + 1  # what\n\n"),
        BASE.replace("    ", "  "),
        BASE.replace("    ", "\t"),
        BASE.replace("\n", "\r\n"),
        # docstrings
        BASE.replace("    total = x", '    """Doc."""\n    total = x'),
        BASE.replace("    total = x", "    'one' \"two\"\n    total = x"),
        BASE.replace("    total = x", '    r"""Long\n\ndef f(): ...\n"""\n    total = x'),
        # annotations
        BASE.replace("x, y=None", "x: int, y: Optional[Dict[str, int]] = None"),
        BASE.replace("*args, key=", "*args: int, key: Callable[[int], int] = ").replace(
            "rgs):", "rgs: 'x'):"
        ),
        BASE.replace("kwargs):", "kwargs) -> Tuple[int, ...]:"),
        BASE.replace("total = x", "total: int = x"),
        # layout
        BASE.replace("x, y=None,", "\n    x,\n    y=None,\n   "),
        BASE.replace("x + 1", "x \\\n        + 1"),
        BASE.replace("range(3)", "range(\n            3  # three\n        )"),
    ],
)
def test_layout_comments_annotations_docstrings_and_decorators_do_not_count(variant):
    assert fingerprint(variant) == fingerprint(BASE)


def test_where_it_stands_and_what_follows_does_not_count():
    inside = "class A:\n    x = 1\n" + textwrap.indent(BASE, "    ") + "\n    y = 2\n"
    guarded = (
        "if a:\n  class A:\n    if b:\n" + textwrap.indent(BASE, "          ") + "      x = 1\n    y = 2\n"
    )
    at_end = BASE.rstrip("\n")
    assert (
        fingerprint(inside, "A.f") == fingerprint(guarded, "A.f") == fingerprint(at_end) == fingerprint(BASE)
    )


def test_what_follows_a_function_on_one_line_does_not_count():
    alone = fingerprint("def f(self): return 1\n")
    for follower in ("    x = 1\n", "    def g(self): ...\n", "x = 1\n", "    # comment\n\n    x = 1\n"):
        source = "class A:\n    def f(self): return 1\n" + follower
        assert fingerprint(source, "A.f") == alone


def test_the_functions_own_name_and_its_class_do_not_count():
    assert fingerprint(NORM, "*.forward") == fingerprint(NORM.replace("Llama", "Qwen2"), "*.forward")
    assert fingerprint(BASE) == fingerprint(BASE.replace("def f", "def renamed"), "renamed")


# -------------------------------------------------------------------------------------- what makes a difference


@pytest.mark.parametrize(
    "variant",
    [
        BASE.replace("x + 1", "x + 2"),
        BASE.replace("x + 1", "x - 1"),
        BASE.replace("x, y=None", "x, y=0"),
        BASE.replace("x, y=None", "x, z=None"),
        BASE.replace("key=lambda a, b: a", "key=lambda a, b: b"),
        BASE.replace("*args, key", "*, key"),
        BASE.replace("def f", "async def f"),
        BASE.replace("        total += i\n    return", "        total += i\n        return"),
        BASE.replace("    return total", "    return total, 'string'"),
        BASE.replace("    return total", "    if x: y: int = 3\n    return total"),
        BASE.replace("    total = x", "    @decorator\n    def inner(): ...\n    total = x"),
    ],
)
def test_what_the_function_does_counts(variant):
    assert fingerprint(variant) != fingerprint(BASE)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("return f'{x} y'", "return f'{x} z'"),
        ("return f'{x!r:>{y}} y'", "return f'{x!s:>{y}} y'"),
        ("return x['a':1]", "return x['a':2]"),
        ("return lambda: 1", "return lambda: 2"),
        ("x['a']: int = 1", "x['b']: int = 1"),
        ("return {x: 1}", "return {x: 2}"),
        ("return 'a' 'b'", "return 'ab'"),
        ("assert x, 'text'", "assert x, 'other'"),
    ],
)
def test_neither_strings_nor_colons_are_taken_for_layout_or_annotations(one, other):
    body = "def f(x, y):\n    {}\n".format
    assert fingerprint(body(one)) != fingerprint(body(other))


# ------------------------------------------------------------------------------------------------------ helpers


def test_a_helper_of_the_same_module_belongs_to_the_fingerprint():
    (found,) = definitions(ROTARY, "apply_rotary_pos_emb")
    assert found.helpers == ("rotate_half",)
    changed = ROTARY.replace("-x2, x1", "x2, -x1")
    assert fingerprint(changed, "apply_rotary_pos_emb") != found.fingerprint
    same = ROTARY.replace('"""Rotates half the hidden dims of the input."""', "# rotates\n")
    assert fingerprint(same, "apply_rotary_pos_emb") == found.fingerprint
    imported = "from .other import rotate_half\n" + ROTARY[ROTARY.index("def apply") :]
    assert fingerprint(imported, "apply_rotary_pos_emb") != found.fingerprint


def test_what_the_module_has_besides_does_not_belong_to_it():
    more = "import os\nEPS = 3\ndef unrelated(): return rotate_half\n" + ROTARY + "class Unrelated: x = 1\n"
    assert definitions(more, "apply_*")[0][2:] == definitions(ROTARY, "apply_*")[0][2:]


CHAIN = """
LIMIT: int = 3
class Base:
    def inherited(self): return 1
class Helper(Base):
    size = 1
def second(x): return first(x) if x else Helper
def first(x): return second(x - 1) + LIMIT
class User(Base):
    def f(self, x): return first(x) + self.own(x) + self.inherited() + self.attribute + x.first + x.second
    def own(self, x): return self.f(x)
    def other(self): return 1
"""


def test_helpers_are_followed_through_cycles_classes_constants_and_methods_of_the_own_class():
    (found,) = definitions(CHAIN, "User.f")
    assert found.helpers == ("Base", "Helper", "LIMIT", "first", "second", "self.inherited", "self.own")
    for old, new in (
        ("LIMIT: int = 3", "LIMIT: int = 4"),
        ("return 1\nclass Helper", "return 2\nclass Helper"),
        ("size = 1", "size = 2"),
        ("if x else", "if not x else"),
        ("return self.f(x)", "return self.f(x + 1)"),
    ):
        assert old in CHAIN
        assert fingerprint(CHAIN.replace(old, new), "User.f") != found.fingerprint
    for old, new in (("self): return 1\n", "self): return 9\n"), ("LIMIT: int", "LIMIT: float")):
        changed = new.join(CHAIN.rsplit(old, 1))
        assert changed != CHAIN
        assert fingerprint(changed, "User.f") == found.fingerprint


def test_a_function_that_calls_itself_is_no_helper_of_its_own():
    (found,) = definitions("def f(x): return f(x - 1) if x else 0\n", "f")
    assert found.helpers == ()


# ---------------------------------------------------------------------------------------- the same on every Python

UNUSUAL = '''
def f(x, /, y=f"{'a'}", *, z: int = 0x_ff) -> str:
    """Doc."""
    name = f"{x!r:>{y}} {{literal}} {x:%H:%M} {'ü'}" f'{x}' rf"\\d{x}"
    other = f"""
    mehrzeilig: {
        x
    } ä {y:{z}.{z}} "quoted" \'\'
"""
    if (n := len(name)) > 3: print(f"{n=}", end=f"{x['key']}")
    größe = 1_000.0e-3j @ x
    return f"é{größe}" + other + b"bytes".decode() + u"text"
class A:
    async def g(self):
        async for i in self: yield await i
        match = case = 1
        print(match, case); y: int = 3
        return
'''

COLLECT = """
import json, sys
from patcher_core.fingerprints import definitions
source = json.load(sys.stdin)
print(json.dumps([[*found] for text in source for found in definitions(text)]))
"""


@pytest.fixture(scope="module")
def sources():
    """Texts with everything in them on which versions of Python could disagree."""
    standard = [Path(module.__file__).read_text(encoding="utf-8") for module in (argparse, textwrap)]
    return [NORM, ROTARY, BASE, CHAIN, UNUSUAL, *standard]


@pytest.fixture(scope="module")
def found_here(sources):
    found = [list(found) for text in sources for found in definitions(text)]
    assert len(found) > 100
    return json.loads(json.dumps(found))


def test_fingerprints_are_equal_on_every_python(sources, found_here):
    """Here and on the version before; the suite runs on every version, so that all of them are equal."""
    here = ALL_PYTHONS.index(f"{sys.version_info[0]}.{sys.version_info[1]}")
    version = ALL_PYTHONS[here - 1]  # before the oldest comes the newest
    python = shutil.which(f"python{version}")
    assert python, f"CPython {version} is not on PATH as python{version}; nox shows all that pyenv has"
    done = subprocess.run(
        [python, "-W", "error", "-c", COLLECT],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(patcher_core.__file__).parents[1])},
    )
    assert done.returncode == 0, (
        f"CPython {version} does not run; nox shows all that pyenv has: {done.stderr}"
    )
    assert json.loads(done.stdout) == found_here


@pytest.mark.parametrize(
    ("source", "names", "expected"),
    [
        (NORM, "LlamaRMSNorm.forward", "c3ee72e2260bfc2b"),
        (ROTARY, "apply_rotary_pos_emb", "5509b615e18720de"),
    ],
)
def test_a_fingerprint_that_was_written_down_stays(source, names, expected):
    """Patch sets carry fingerprints: changing how they are made makes every one of them wrong.

    In transformers 4.57.1 72 modules have this norm and 59 this rotary embedding, under one fingerprint each.
    """
    assert fingerprint(source, names) == expected


# --------------------------------------------------------------------------------------------- imported functions

LIBRARY = """
import functools

def decorator(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args)
    return wrapper

def plain(x):
    return x + 1

@decorator
@decorator
def decorated(x):
    return x + 1

class A:
    def method(self, x): return x + 1
    @staticmethod
    def static(x): return x + 1
    @classmethod
    def klass(cls, x): return x + 1
    @property
    def prop(self): return 1

if True:
    def twice(x): return 1
if True:
    def twice(x): return 2

def outer():
    def inner(x): return x + 1
    return inner
"""


@pytest.fixture
def library(tmp_path, monkeypatch):
    (tmp_path / "fingerprinted_library.py").write_text(LIBRARY, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    yield importlib.import_module("fingerprinted_library")
    del sys.modules["fingerprinted_library"]


@pytest.mark.parametrize(
    ("find", "qualname"),
    [
        (lambda library: library.plain, "plain"),
        (lambda library: library.decorated, "decorated"),
        (lambda library: library.A.method, "A.method"),
        (lambda library: library.A().method, "A.method"),
        (lambda library: library.A.__dict__["static"], "A.static"),
        (lambda library: library.A.__dict__["klass"], "A.klass"),
        (lambda library: library.A.klass, "A.klass"),
    ],
)
def test_an_imported_function_has_the_fingerprint_of_its_source(library, find, qualname):
    assert function_fingerprint(find(library)) == definitions(LIBRARY, qualname)[0]


def test_of_two_definitions_the_one_that_was_run_counts(library):
    assert function_fingerprint(library.twice) == definitions(LIBRARY, "twice")[1]


def test_a_function_that_was_wrapped_at_run_time_is_not_the_one_in_the_source(library):
    wrapped = function_fingerprint(library.decorator(library.plain))
    assert isinstance(wrapped, NoSource)
    assert "wrapped" in wrapped.reason
    assert "fingerprinted_library.plain" in wrapped.name


@pytest.mark.parametrize("thing", [len, 3, None, int, functools.partial(int), "text"])
def test_what_is_no_python_function_has_no_source(thing):
    found = function_fingerprint(thing)
    assert isinstance(found, NoSource)
    assert repr(thing) in found.reason


def test_a_function_without_source_text_has_no_source(library, tmp_path):
    namespace = {}
    exec("def made(x): return x", namespace)
    for function in (namespace["made"], library.outer(), lambda: 1):
        found = function_fingerprint(function)
        assert isinstance(found, NoSource)
        assert function.__qualname__ in found.reason
    (tmp_path / "fingerprinted_library.py").unlink()
    gone = function_fingerprint(library.plain)
    assert isinstance(gone, NoSource)
    assert "fingerprinted_library.plain" in gone.reason


def test_the_source_of_a_module_comes_from_its_loader(library, tmp_path, monkeypatch):
    assert module_source(library) == LIBRARY
    with zipfile.ZipFile(str(tmp_path / "packed.zip"), "w") as archive:
        archive.writestr("packed_library.py", LIBRARY)
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    packed = importlib.import_module("packed_library")
    try:
        assert module_source(packed) == LIBRARY
        assert function_fingerprint(packed.plain) == definitions(LIBRARY, "plain")[0]
    finally:
        del sys.modules["packed_library"]


def test_a_module_without_source_says_so(library, tmp_path):
    import math

    (tmp_path / "fingerprinted_library.py").unlink()
    for module in (sys, math, type(sys)("bare"), library):
        found = module_source(module)
        assert isinstance(found, NoSource)
        assert module.__name__ in found.reason
