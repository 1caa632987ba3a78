"""What the structural patches share: known sources as data, and how they become a ``SourceMatchPatch``.

transformers copies a few lines into hundreds of files. Each source that is known is a *form*: its fingerprint (see
:mod:`patcher_core.fingerprints`) leads to the name of a form, and the name to an implementation, which is written
once in terms of one operator and so runs on every backend that has this operator.
"""

from __future__ import annotations

import functools
import importlib
from types import MappingProxyType
from typing import Any, Callable, Mapping, NamedTuple

from patcher_core import Form, SourceMatchPatch, backend_of

MODELS = "transformers.models.*.modeling_*"


class KnownForms(NamedTuple):
    """Everything that is known about the copies of one piece of code.

    Attributes:
        names: glob of the qualified names under which the copies go.
        forms: fingerprint -> name of the form.
        left_alone: fingerprint -> why that source is not replaced.
        implementations: module with ``IMPLEMENTATIONS`` (form -> builder of the replacement, given an operator) and
            ``OPERATORS`` (backend -> operator). It imports torch, and is imported when the first copy is replaced.
        checks: form -> runtime_check, for forms whose instances differ.
    """

    names: str
    forms: Mapping[str, str]
    left_alone: Mapping[str, str]
    implementations: str
    checks: Mapping[str, Callable[..., bool]] = MappingProxyType({})

    def patches(self, options: Mapping[str, Any] | None) -> list[SourceMatchPatch]:
        """The patches for the options of a group; ``modules`` in them takes the place of all of transformers."""
        modules = (options or {}).get("modules", (MODELS,))
        return [self.patch(backend_of(options), one) for one in modules]

    def patch(self, backend: str, modules: str = MODELS, names: str = "") -> SourceMatchPatch:
        """The patch for the copies in ``modules``; ``names`` narrows which of them."""
        matches = {
            fingerprint: _form(self.implementations, form, backend, self.checks.get(form))
            for fingerprint, form in self.forms.items()
        }
        return SourceMatchPatch(modules, names or self.names, matches=matches, left_alone=self.left_alone)


@functools.lru_cache(maxsize=None)
def _form(module: str, form: str, backend: str, check: Callable[..., bool] | None) -> Form:
    """Cached, so that a form in two patches is one and the same, and the engine sees that it is applied already."""

    def with_operator(original: Callable[..., Any]) -> Callable[..., Any]:
        known = importlib.import_module(module)
        replacement: Callable[..., Any] = known.IMPLEMENTATIONS[form](known.OPERATORS[backend])
        return replacement

    return Form(target_wrapper=with_operator, runtime_check=check)
