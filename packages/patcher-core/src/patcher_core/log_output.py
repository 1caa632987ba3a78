"""The logger that the patcher writes to. Apart from :mod:`patcher_core.events`, which loads it with the first message:
``logging`` costs a small program more to import than the whole engine."""

from __future__ import annotations

import logging
import sys


class LastResortHandler(logging.Handler):
    """Writes to ``sys.stderr`` as it is at that moment, and only where nobody configured a handler."""

    def emit(self, record: logging.LogRecord) -> None:
        logger: logging.Logger | None = logging.getLogger(record.name)
        while logger is not None:
            if any(handler is not self for handler in logger.handlers):
                return
            logger = logger.parent if logger.propagate else None
        stream = sys.stderr
        if stream is not None:
            try:
                stream.write(f"[Patcher] {record.levelname}: {record.getMessage()}\n")
            except Exception:
                self.handleError(record)


def prepared_logger(name: str, level: int) -> logging.Logger:
    """The logger ``name``, with ``level`` where the program has not chosen one, and heard where it has no handler."""
    logger = logging.getLogger(name)
    if logger.level == logging.NOTSET:
        logger.setLevel(level)
    if not any(isinstance(handler, LastResortHandler) for handler in logger.handlers):
        logger.addHandler(LastResortHandler())
    return logger


def level_number(level: int | str) -> int:
    """The numeric logging level for ``level``; ValueError names what was given."""
    if isinstance(level, bool) or not isinstance(level, (int, str)):
        raise TypeError(f"level must be a logging level name or number, got {level!r}")
    number = logging.getLevelName(level.upper()) if isinstance(level, str) else level
    if not isinstance(number, int):
        raise ValueError(f"level {level!r} is unknown; use DEBUG, INFO, WARNING, ERROR or a number")
    return number
