"""Which options the groups in one call of ``add()`` take: one that none of them takes is a mistake in the program."""

from __future__ import annotations

from typing import Any, Iterable, Mapping

from .discovery import patch_set_of

#: The option that the engine itself takes, for every group.
_BACKEND = "backend"


def refuse_unknown_options(options: Mapping[str, Any], classes: Iterable[Any]) -> None:
    """Check ``options`` against what the groups say they take.

    A group of an installed patch set takes what its ``option_names`` name. One from elsewhere that names nothing may
    read any option.

    Raises:
        ValueError: naming the option that no group takes, and those that are taken.
    """
    if set(options) == {_BACKEND}:
        return
    taken = {_BACKEND}
    for cls in classes:
        names = getattr(cls, "option_names", None)
        if names is None and patch_set_of(cls.__module__) is None:
            return
        taken.update(names or ())
    for name in options:
        if name not in taken:
            raise ValueError(
                f"no group in this call takes the option {name!r}; taken are: {', '.join(sorted(taken))}."
                " Correct the name, or name it in option_names of the class that reads it."
            )
