"""``default_patcher``: the ``DEFAULT`` patches of every installed patch set whose library is here."""

from __future__ import annotations

from .discovery import patch_sets
from .patcher import Patcher

#: Configure and apply it on top of a program, before all other imports.
default_patcher = Patcher(name="the default patcher").add(*patch_sets())
