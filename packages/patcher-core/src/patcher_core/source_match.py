"""``SourceMatchPatch``: one entry for every copy of the same code in a library.

A library that copies the same few lines into hundreds of files is patched by what the code says, not by where it
stands: a function is replaced where its fingerprint (see :mod:`patcher_core.fingerprints`) is a known one. A copy
that drifted is left alone and named.
"""

from __future__ import annotations

from typing import Any, Callable, Collection, Mapping, NamedTuple, Sequence

from .patches import AtomicPatch, BasePatch, checked_requires


class Form(NamedTuple):
    """What to do with one known source; the arguments of :class:`AtomicPatch` of the same names."""

    replacement: Any = None
    runtime_check: Callable[..., Any] | None = None
    target_wrapper: Callable[[Any], Any] | None = None
    replacement_wrapper: Callable[[Any], Any] | None = None


class SourceMatchPatch(BasePatch):
    """Replace every function or method of matching names whose source is a known one, now or when it is imported.

    No module is imported for it, also not by an eager ``apply()``.

    Args:
        modules: glob of module names, such as ``"transformers.models.*.modeling_*"``; the first segment is plain.
        names: glob of qualified names in them, such as ``"*RMSNorm.forward"``.
        matches: the known fingerprints: a mapping to what replaces each (an object, a path, a :class:`Form`), or a
            collection of those that ``replacement`` replaces.
        replacement: see ``matches``.
        left_alone: further known fingerprints that are not patched, with the reason.
        requires: PEP 508 requirements, any one of which suffices; none by default.

    Raises:
        TypeError, ValueError: naming the argument.
    """

    installation_class = "patcher_core.source_matching:SourceMatchInstallation"

    def __init__(
        self,
        modules: str,
        names: str,
        *,
        matches: Mapping[str, Any] | Collection[str],
        replacement: Any = None,
        left_alone: Mapping[str, str] | None = None,
        requires: str | Sequence[str] = (),
    ) -> None:
        for argument, value in (("modules", modules), ("names", names)):
            if not isinstance(value, str):
                raise TypeError(f"{argument} must be a glob as text, got {value!r}")
            if not value:
                raise ValueError(f"{argument} is empty; write a glob such as '*.forward'")
        if set("*?[") & set(modules.partition(".")[0]):
            raise ValueError(f"modules={modules!r} must begin with the plain name of a library")
        if isinstance(matches, str) or not isinstance(matches, Collection):
            raise TypeError(f"matches must be fingerprints, got {matches!r}")
        if not isinstance(matches, Mapping):
            matches = dict.fromkeys(matches, replacement)
        elif replacement is not None:
            raise ValueError(
                "give either a mapping of fingerprints to replacements, or one replacement for all"
            )
        self.modules = modules
        self.names = names
        self.forms = {
            known: form if isinstance(form, Form) else Form(form) for known, form in matches.items()
        }
        for known, form in self.forms.items():
            AtomicPatch(
                f"{modules.partition('.')[0]}.{known}", **form._asdict()
            )  # refuses what it would refuse later
        self.left_alone = dict(left_alone or {})
        self.requires = checked_requires(requires)
        self.name = f"{modules}:{names}"

    @property
    def module(self) -> str:
        return self.modules.partition(".")[0]
