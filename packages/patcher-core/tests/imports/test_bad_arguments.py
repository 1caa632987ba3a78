"""Wrong arguments raise an error that names them, and nothing is half done."""

from __future__ import annotations

import pytest

from patcher_core.imports import ImportControl, replace_with, subscribe

MALFORMED = ["", ".", "a.", ".a", "a..b", "a b", "1a", "a-b", "a.1", "a*"]
WRONG_TYPES = [None, 3, b"a", ["a"], ("a", "b")]


@pytest.fixture
def control():
    made = ImportControl()
    yield made
    assert made.outcomes == [], "something was declared although an argument was wrong"


@pytest.mark.parametrize("name", [*MALFORMED, *WRONG_TYPES])
def test_names(control, name):
    kind = ValueError if isinstance(name, str) else TypeError
    for call in (
        lambda: control.skip("good", name),
        lambda: control.skip("good", only_for=("good", name)),
        lambda: control.replace(name, x=1),
        lambda: control.inject(name, "Head", "target"),
        lambda: control.inject("source", "Head", name),
    ):
        with pytest.raises(kind, match=r"name|old|only_for|source|target"):
            call()


@pytest.mark.parametrize("name", [*MALFORMED, *WRONG_TYPES, "a.b"])
def test_the_name_to_inject_is_one_identifier(control, name):
    with pytest.raises(ValueError if isinstance(name, str) else TypeError, match="name"):
        control.inject("source", name, "target")


@pytest.mark.parametrize("on_call", ["None", "warn", "", None, 1])
def test_on_call(control, on_call):
    with pytest.raises(ValueError, match="on_call"):
        control.skip("good", on_call=on_call)


@pytest.mark.parametrize("only_for", ["projects", 3, b"x"])
def test_only_for_is_a_tuple_of_names(control, only_for):
    with pytest.raises(TypeError, match="only_for"):
        control.skip("good", only_for=only_for)


def test_an_empty_scope(control):
    with pytest.raises(ValueError, match="only_for"):
        control.skip("good", only_for=())


@pytest.mark.parametrize("base", [*MALFORMED, 3, b"a", ["a"], int])
def test_the_base_of_a_replacement(control, base):
    kind = ValueError if isinstance(base, str) else TypeError
    with pytest.raises(kind, match="replacement"):
        control.replace("old", base)
    with pytest.raises(kind, match="base_module"):
        control.replace("old", base_module=base)
    with pytest.raises(kind, match="base"):
        replace_with.module(base)


def test_replacement_and_base_module_exclude_each_other(control):
    for replacement in ("new", replace_with.module(x=1)):
        with pytest.raises(ValueError, match=r"replacement.*base_module"):
            control.replace("old", replacement, base_module="base")


def test_a_name_in_exports_and_as_a_keyword(control):
    with pytest.raises(ValueError, match="Thing"):
        control.replace("old", exports={"Thing": 1, "Other": 2}, Thing=3)


@pytest.mark.parametrize(
    "exports", [3, ["a"], "a", {"a b": 1}, {3: 1}, {"__name__": "x"}, {"__spec__": None}]
)
def test_exports(control, exports):
    with pytest.raises((TypeError, ValueError), match="export"):
        control.replace("old", exports=exports)


@pytest.mark.parametrize("base", ["old", "old.impl"])
def test_a_module_cannot_be_its_own_base(control, base):
    with pytest.raises(ValueError, match=r"old.*AtomicPatch"):
        control.replace("old", base)


@pytest.mark.parametrize("name", [*MALFORMED, *WRONG_TYPES, "*.b", "a*.b", "?"])
def test_the_name_of_a_subscription(name):
    with pytest.raises(ValueError if isinstance(name, str) else TypeError, match=r"name|pattern"):
        subscribe(name, print)


def test_the_callback_of_a_subscription():
    with pytest.raises(TypeError, match="callback"):
        subscribe("good", "not callable")
