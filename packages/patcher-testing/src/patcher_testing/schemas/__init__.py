"""Calls of torch_npu operators, replayed against the schemas of five torch_npu versions."""

from __future__ import annotations

from .replay import Answer, Call, Replay, make_call, record_calls, replay
from .table import SchemaTable, known_schemas

__all__ = ["Answer", "Call", "Replay", "SchemaTable", "known_schemas", "make_call", "record_calls", "replay"]
