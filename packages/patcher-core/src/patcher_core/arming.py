"""Which imports a patcher waits for: targets in modules not imported yet, and reloads of those that are."""

from __future__ import annotations

import sys
from _thread import allocate_lock
from functools import partial
from types import ModuleType
from typing import Any, Callable, Iterable

from .attributes import module_dict
from .events import PatchError, patcher_logger
from .imports import post_import
from .installation import Installation
from .journal import Change, journal
from .results import described_error


class Arming:
    """The subscriptions of one patcher, one per module name or glob.

    Args:
        changed: called with the installations that were tried again and what that changed, and with the modules
            that may hold copies of it.
    """

    def __init__(
        self, changed: Callable[[list[Installation], list[Change], list[tuple[str, Any]]], None]
    ) -> None:
        self._changed = changed
        self._waiting: dict[str, dict[Installation, None]] = {}
        self._subscriptions: dict[str, post_import.Subscription] = {}
        self._lock = allocate_lock()

    def arm(self, installations: Iterable[Installation]) -> None:
        """Wait for every module that concerns one of the installations."""
        with self._lock:
            for installation in installations:
                for name in installation.modules_awaited:
                    waiting = self._waiting.get(name)
                    if waiting is None:
                        self._subscriptions[name] = post_import.subscribe(name, partial(self._imported, name))
                        waiting = self._waiting[name] = {}
                    waiting[installation] = None

    def disarm(self) -> None:
        """Wait for nothing any more."""
        with self._lock:
            subscriptions = list(self._subscriptions.values())
            self._subscriptions.clear()
            self._waiting.clear()
        for subscription in subscriptions:
            subscription.cancel()

    def _imported(self, awaited: str, module: ModuleType) -> None:
        """The code of ``module`` has just run: try what waited for it. The importer is not disturbed by a failure."""
        # A module may have put another object into sys.modules: then the awaited name is the one that counts.
        name = (module_dict(module) or {}).get("__name__", awaited) if _is_glob(awaited) else awaited
        waiting = list(self._waiting.get(awaited, ()))
        # At a first import only modules started since can hold a copy, at a reload every module.
        is_reload = any(one.is_installed_in(name) for one in waiting)
        modules = list(sys.modules.items()) if is_reload else modules_started_since(name)
        changes: list[Change] = []
        try:
            for installation in waiting:
                installation.install(changes, imports=False, executed=(name,))
            if awaited in self._subscriptions:
                self.arm(waiting)
            else:  # restored meanwhile, by a wrapper or in another thread
                _take_back(waiting, changes)
            self._changed(waiting, changes, modules)
        except PatchError:
            raise
        except Exception as error:
            patcher_logger.error(f"patching {name} after its import failed: {described_error(error)}")


def _take_back(installations: list[Installation], changes: list[Change]) -> None:
    """Take back what was just installed, also what a restore in another thread has missed."""
    written = list(changes)
    for installation in reversed(installations):
        installation.remove(changes)
    for change in reversed(written):
        journal.remove(change.cause, changes)


def modules_started_since(name: str) -> list[tuple[str, Any]]:
    """The modules whose import began with or after that of ``name``; others cannot hold a copy of what is in it yet."""
    items = list(sys.modules.items())
    for index in range(len(items) - 1, -1, -1):
        if items[index][0] == name:
            return items[index:]
    return items


def _is_glob(name: str) -> bool:
    return any(wildcard in name for wildcard in "*?[")
