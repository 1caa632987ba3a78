"""Whatever is declared, imported, reloaded and restored in whatever order: after the last restore nothing is left."""

from __future__ import annotations

import random

import pytest

FILES = {
    "real/__init__.py": "fast = 'displaced'\n",
    "real/fast.py": "V = 'real'\n",
    "real/ops/__init__.py": "",
    "real/ops/cuda.py": "V = 'real'\n",
    "real/plain.py": "def g(): pass\n",
    "ns/a/mod.py": "V = 'real'\n",
    "ns/b.py": "V = 'real'\n",
    "base.py": "p, q = 1, 2\n__all__ = ['p']\n",
    "basepkg/__init__.py": "t = 1\n",
    "basepkg/nn.py": "V = 'real'\n",
}

CODE = """
import builtins, random

NAMES = '''real real.fast real.ops real.ops.cuda real.ops.ghost real.plain real.plain.Missing real.plain.g ns ns.a
    ns.a.mod ns.a.ghost ns.b ns.b.Missing ghost ghost.deep ghost.deep.leaf base basepkg basepkg.nn'''.split()
ROOTS = {name.partition(".")[0] for name in NAMES}
logging.getLogger("patcher_core").setLevel(logging.CRITICAL)
choose = random.Random(SEED)

def world():
    functions = importlib.util.find_spec, importlib.import_module
    return list(sys.meta_path), builtins.__import__, functions, [function.__code__ for function in functions]

def is_ours(value):
    loader = getattr(getattr(value, "__spec__", None), "loader", None)
    return any(type(each).__module__.startswith("patcher_core") for each in (value, loader))

def loaded():
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in ROOTS}

def forget(name):
    for each in loaded():
        if each == name or each.startswith(name + "."):
            del sys.modules[each]

def run_statement():
    name = choose.choice(NAMES)
    parent, _, child = name.rpartition(".")
    statements = [f"import {name}", f"from {name} import *", f"from {name} import absent"]
    statements += [f"from {parent} import {child}"] if parent else []
    exec(choose.choice(statements), {"__name__": choose.choice(["__main__", "real.user", "ns.a.user", "elsewhere"])})

def replace(control, name):
    base = choose.choice([None, "base", "basepkg", "absent"])
    control.replace(name, base if name.partition(".")[0] != base else None, extra=1)

def reload(control, name):
    # A stub is falsy, and importlib.reload took that for no module before CPython 3.12; of one that is skipped in
    # a module that is no package it asks for the package's path, which is an AttributeError of its own.
    parent = name.rpartition(".")[0]
    if isinstance(sys.modules.get(name), types.ModuleType) and sys.modules[name]:
        if not parent or hasattr(sys.modules.get(parent), "__path__"):
            importlib.reload(sys.modules[name])

STEPS = [
    lambda control, name: control.skip(name, only_for=choose.choice([None, None, ("__main__",), ("real", "ns.a")])),
    replace,
    lambda control, name: control.inject(name, choose.choice(["V", "p", "nn"]), choose.choice(NAMES)),
    lambda control, name: control.restore(),
    lambda control, name: control.activate(),
    lambda control, name: subscriptions.append(subscribe(name, lambda module: module.__name__)),
    lambda control, name: subscriptions and subscriptions.pop().cancel(),
    lambda control, name: forget(name),
    reload,
    lambda control, name: importlib.util.find_spec(name),
    lambda control, name: importlib.import_module(name),
    lambda control, name: importlib.import_module(name),
    lambda control, name: run_statement(),
    lambda control, name: run_statement(),
]

before, subscriptions = world(), []
controls = [ImportControl() for _ in range(3)]
for _ in range(400):
    with contextlib.suppress(ImportError):
        choose.choice(STEPS)(choose.choice(controls), choose.choice(NAMES))
for subscription in subscriptions:
    subscription.cancel()
choose.shuffle(controls)
for each in controls:
    each.restore()

assert world() == before
left = [name for name, module in loaded().items() if is_ours(module)]
left += [f"{name}.{key}" for name, module in loaded().items() for key, value in vars(module).items() if is_ours(value)]
assert left == [], left
for root in ROOTS:
    forget(root)
import base, basepkg.nn, ns.a.mod, ns.b, real.fast, real.ops.cuda, real.plain
assert {module.V for module in (basepkg.nn, ns.a.mod, ns.b, real.fast, real.ops.cuda)} == {"real"}
assert not hasattr(real.plain, "Missing") and base.__all__ == ["p"]
with raises(ModuleNotFoundError):
    import ghost
"""


@pytest.mark.parametrize("run", range(6))
def test_nothing_is_left_after_the_last_restore(run_controlled, run):
    seed = random.randrange(10**9)
    run_controlled(f"SEED = {seed}\n{CODE}", FILES)
