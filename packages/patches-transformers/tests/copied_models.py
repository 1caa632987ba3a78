"""Importing this imports the first model of every known form, and Qwen3: once instead of in each of many processes."""

from __future__ import annotations

import importlib
import importlib.util

import survey_forms

_PLACES = {
    group[0].module
    for known in survey_forms.KINDS.values()
    for fingerprint, group in survey_forms.copies_by_fingerprint(known).items()
    if fingerprint in known.forms
}
_QWEN3 = {f"transformers.models.{name}.modeling_{name}" for name in ("qwen3", "qwen3_vl")}

for _name in sorted(_PLACES | {name for name in _QWEN3 if importlib.util.find_spec(name.rpartition(".")[0])}):
    importlib.import_module(_name)
