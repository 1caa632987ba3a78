"""What the structural patches share: known sources as data, and how they become a ``SourceMatchPatch``.

diffusers copies a few lines into many files and changes them from version to version. Each source that is known leads,
by its fingerprint (see :mod:`patcher_core.fingerprints`), to a builder, which writes the function once in terms of the
operators of a backend: the functions of :mod:`~diffusers_patches.portable_operators`, or those of the same names in
:mod:`~diffusers_patches.npu_operators`.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Callable, Mapping

from patcher_core import Form, SourceMatchPatch, backend_of

MODELS = "diffusers.models.*"


def structural_patch(
    names: str,
    builders: Mapping[str, str],
    options: Mapping[str, Any] | None,
    *,
    left_alone: Mapping[str, str] | None = None,
    checks: Mapping[str, Callable[..., bool]] | None = None,
    requires: str | tuple[str, ...] = (),
) -> SourceMatchPatch:
    """The patch for every copy of a piece of code in diffusers' models.

    Args:
        names: glob of the qualified names under which the copies go.
        builders: fingerprint -> ``module.function`` in this package, called with the backend's operators, which gives
            the replacement. It is imported when the first copy is replaced.
        options: as handed to ``Patch.patches``; ``options["backend"]`` is the backend, ``portable`` by default.
        left_alone: fingerprint -> why that source is not replaced.
        checks: builder -> runtime_check, for sources whose instances or arguments differ.
        requires: as in ``SourceMatchPatch``.
    """
    backend = backend_of(options)
    checks = checks or {}
    matches = {
        fingerprint: _form(builder, backend, checks.get(builder)) for fingerprint, builder in builders.items()
    }
    return SourceMatchPatch(MODELS, names, matches=matches, left_alone=left_alone, requires=requires)


@functools.lru_cache(maxsize=None)
def _form(builder: str, backend: str, check: Callable[..., bool] | None) -> Form:
    """Cached, so that a form in two patches is one and the same, and the engine sees that it is applied already."""

    def built(original: Callable[..., Any]) -> Callable[..., Any]:
        module, _, function = builder.rpartition(".")
        operators = importlib.import_module(f"{__package__}.{backend}_operators")
        replacement: Callable[..., Any] = getattr(
            importlib.import_module(f"{__package__}.{module}"), function
        )(operators)
        return replacement

    return Form(target_wrapper=built, runtime_check=check)
