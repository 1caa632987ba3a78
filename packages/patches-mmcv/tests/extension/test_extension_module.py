"""The module object: every name mmcv asks for, with the compiled argument lists."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from mmcv_patches.extension import (  # noqa: E402
    build_extension_module,
    coverage,
    declared_functions,
)

SCHEMA = Path(__file__).parents[5] / "shared" / "schemas" / "mmcv_ext.json"


def parameter_names(signature: str) -> list[str]:
    return re.findall(r"(\w+): ", signature.split(" -> ")[0])


def test_importing_the_package_does_not_import_torch() -> None:
    script = (
        "import sys, mmcv_patches.extension as e; e.declared_functions(); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_the_module_has_every_declared_function() -> None:
    extension = build_extension_module()
    assert extension.__name__ == "mmcv._ext"
    assert all(callable(getattr(extension, name)) for name in declared_functions())


@pytest.mark.parametrize("name", declared_functions())
def test_a_function_takes_the_compiled_arguments_or_says_that_it_is_missing(name: str) -> None:
    function = getattr(build_extension_module(), name)
    if name in coverage().missing:
        with pytest.raises(NotImplementedError, match=rf"mmcv\._ext\.{name} .*Install an mmcv"):
            function(1, key=2)
    else:
        assert list(inspect.signature(function).parameters) == parameter_names(
            declared_functions()[name].signature
        )


def test_coverage_counts_implemented_and_names_missing_functions() -> None:
    result = coverage()
    assert result.implemented + len(result.missing) == result.total == len(declared_functions())


def test_a_function_is_exported_by_the_module_that_declares_it_and_by_no_other() -> None:
    build_extension_module()
    for module in {declaration.module for declaration in declared_functions().values()}:
        for name in sys.modules[f"mmcv_patches.extension.{module}"].__all__:
            assert declared_functions()[name].module == module


@pytest.mark.skipif(not SCHEMA.exists(), reason="the shared schema of mmcv._ext is not beside this checkout")
def test_declarations_agree_with_the_schema_read_from_the_compiled_module() -> None:
    schema = json.loads(SCHEMA.read_text())
    declared = declared_functions()
    assert declared.keys() == schema.keys()
    for name, entry in schema.items():
        assert list(declared[name].mmcv_versions) == entry["in"]
        compiled = entry["signature_2.1.0"]
        if compiled and "*args" not in compiled:
            assert parameter_names(declared[name].signature) == parameter_names(compiled.replace(".abc", ""))


def test_a_function_neither_records_gradients_nor_obeys_autocast() -> None:
    from mmcv_patches.extension.calling import like_a_compiled_function

    matmul = like_a_compiled_function(lambda a, b: a @ b)
    a = torch.randn(3, 3, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16
        product = matmul(a, b=a)
    assert product.dtype == torch.float32
    assert not product.requires_grad
