"""A copy of this process, in which something happens that must not happen here."""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any, Callable


def in_fork(function: Callable[[], Any]) -> Any:
    """What a function gives back in a copy of this process; as text how the copy ended, if it gave nothing back."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with os.fdopen(writing, "w", encoding="utf-8") as answer:
                json.dump(function(), answer)
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else f"ended its process with status {status}"
