"""Environments are read strictly: what is misspelt or missing is an error, not an environment less."""

import pytest

from nox_support.environments import ROOT, environments


def test_several_pythons_make_an_environment_of_each():
    data = {"core": {"pythons": ["3.8", "3.13"], "tests": ["packages/a/tests"]}}
    both = environments(data, test_packages=["pytest"])
    assert [(e.name, e.python, e.packages) for e in both.values()] == [
        ("core-3.8", "3.8", ("pytest",)),
        ("core-3.13", "3.13", ("pytest",)),
    ]


def test_variants_are_the_environment_with_each_of_their_requirements():
    data = {
        "other versions": {
            "pythons": ["3.11"],
            "packages": ["numpy"],
            "only_in_matrix": True,
            "variants": {"old": ["torch==1.11.0"], "new": ["torch==2.13.0", "tqdm"]},
        }
    }
    both = environments(data, test_packages=[])
    assert [(e.name, e.packages, e.only_in_matrix) for e in both.values()] == [
        ("old", ("numpy", "torch==1.11.0"), True),
        ("new", ("numpy", "torch==2.13.0", "tqdm"), True),
    ]


def test_a_table_like_another_has_what_it_does_not_say_itself_from_there():
    data = {
        "quick": {"pythons": ["3.11"], "packages": ["numpy"], "tests": ["a"], "ignore_tests": ["a/slow"]},
        "at length": {"like": "quick", "tests": ["a/slow"], "ignore_tests": [], "only_in_matrix": True},
    }
    quick, at_length = environments(data, test_packages=[]).values()
    assert (quick.tests, quick.ignore_tests, quick.only_in_matrix) == (("a",), ("a/slow",), False)
    assert (at_length.tests, at_length.ignore_tests, at_length.only_in_matrix) == (("a/slow",), (), True)
    assert (at_length.python, at_length.packages) == (quick.python, quick.packages) == ("3.11", ("numpy",))


@pytest.mark.parametrize("like", ["absent", "itself like another"])
def test_a_table_must_be_like_one_that_stands_for_itself(like):
    data = {
        "whole": {"pythons": ["3.11"]},
        "itself like another": {"like": "whole"},
        "bad": {"like": like},
    }
    with pytest.raises(ValueError, match=f"environment bad is like '{like}'"):
        environments(data, test_packages=[])


def test_two_environments_of_one_name_are_an_error():
    data = {"old": {"pythons": ["3.11"]}, "others": {"pythons": ["3.11"], "variants": {"old": []}}}
    with pytest.raises(ValueError, match="two environments have one name: old"):
        environments(data, test_packages=[])


@pytest.mark.parametrize(
    "entry, complaint",
    [
        ({"tests": ["a"]}, "environment bad names no Python"),
        ({"pythons": ["3.11"], "test": ["a"]}, "environment bad has unknown keys test"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_an_error(entry, complaint):
    with pytest.raises(ValueError, match=complaint):
        environments({"bad": entry}, test_packages=[])


def test_exact_pins_constrain_the_later_installs():
    entry = {
        "pythons": ["3.11"],
        "packages": ["numpy==2.4.6", "scipy>=1", "a==1.*"],
        "without_dependencies": ["torch==2.1.0"],
    }
    (environment,) = environments({"e": entry}, test_packages=[]).values()
    assert environment.exact_pins == ("torch==2.1.0", "numpy==2.4.6")


def test_every_test_folder_of_the_repository_runs_somewhere():
    from nox_support.environments import ENVIRONMENTS

    run = {folder for environment in ENVIRONMENTS.values() for folder in environment.tests}
    tests = {file.parent for file in ROOT.glob("packages/*/tests/**/test_*.py")}
    forgotten = [str(t) for t in tests if not any((ROOT / folder) in (t, *t.parents) for folder in run)]
    assert forgotten == []
