"""Would another torch_npu version accept these calls? Asked of its schemas, without that version."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from .table import SchemaTable, known_schemas

NAMESPACE = "npu"


@dataclass(frozen=True)
class Call:
    """A call of an operator as it was written; tensors are replaced by meta tensors, which hold no memory."""

    #: without namespace and overload: `npu_rms_norm`
    operator: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        shown = [_show(value) for value in self.args]
        shown += [f"{name}={_show(value)}" for name, value in self.kwargs.items()]
        return f"{self.operator}({', '.join(shown)})"


def _show(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).partition('.')[2]}{list(value.shape)}"
    return repr(value)


def make_call(operator: str, *args: Any, **kwargs: Any) -> Call:
    """A call to be replayed that was not recorded."""
    return Call(operator, tree_map(_without_memory, args), tree_map(_without_memory, kwargs))


def _without_memory(value: Any) -> Any:
    return torch.empty_like(value, device="meta") if isinstance(value, torch.Tensor) else value


class _CallRecorder(TorchFunctionMode):
    """Sees the arguments before the dispatcher fills in defaults."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = re.fullmatch(rf"{NAMESPACE}[.:]+(\w+)(?:\.\w+)?", _operator_name(func))
        if name:
            self.calls.append(make_call(name.group(1), *args, **(kwargs or {})))
        return func(*args, **(kwargs or {}))


def _operator_name(function: Any) -> str:
    if isinstance(function, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(function)
    return ""


@contextmanager
def record_calls() -> Iterator[list[Call]]:
    """Collect the calls of `torch_npu` operators made within the block, failed ones included.

    Every way of calling is seen: `torch_npu.npu_x(...)`, `torch.ops.npu.npu_x(...)` and
    `torch.ops.npu.npu_x.default(...)`. torch_npu must be there, as within `simulated_npu()`.
    """
    with _CallRecorder() as recorder:
        yield recorder.calls


@dataclass(frozen=True)
class Answer:
    """What one version says to one call."""

    version: str
    accepted: bool
    #: why it refuses; empty if it accepts
    reason: str


@dataclass(frozen=True)
class Replay:
    """What every version says to every call."""

    answers: tuple[tuple[Call, tuple[Answer, ...]], ...]

    @property
    def refusals(self) -> list[tuple[Call, Answer]]:
        return [(call, answer) for call, answers in self.answers for answer in answers if not answer.accepted]

    def assert_accepted(self, versions: Sequence[str] | None = None) -> None:
        """Fail if a version (of `versions`, where given) refuses a call, or if there is no call at all.

        Raises:
            AssertionError: with one line per refusal.
        """
        if not self.answers:
            raise AssertionError("no torch_npu operator was called, so nothing was checked")
        refused = [
            f"torch_npu {answer.version} refuses {call}: {answer.reason}"
            for call, answer in self.refusals
            if versions is None or answer.version in versions
        ]
        if refused:
            raise AssertionError("\n".join(refused))

    def __str__(self) -> str:
        lines = []
        for call, answers in self.answers:
            lines.append(str(call))
            lines += [
                f"  torch_npu {answer.version:<14} {'accepts' if answer.accepted else 'refuses: ' + answer.reason}"
                for answer in answers
            ]
        return "\n".join(lines)


class _Binder:
    """Binds arguments by PyTorch's own dispatcher, to operators defined from schema text and without kernels."""

    def __init__(self, table: SchemaTable) -> None:
        self._table = table
        self._libraries: dict[str, torch.library.Library] = {}
        self._operators: dict[tuple[str, str], list[Any]] = {}

    def answer(self, call: Call, version: str) -> Answer:
        operators = self._operators_of(version, call.operator)
        if not operators:
            return Answer(version, False, f"it has no operator {call.operator}")
        reasons = []
        for operator in operators:
            reason = _refusal(operator, call)
            if reason is None:
                return Answer(version, True, "")
            reasons.append(reason)
        return Answer(version, False, "; or ".join(reasons))

    def _operators_of(self, version: str, name: str) -> list[Any]:
        key = (version, name)
        if key not in self._operators:
            namespace = f"patcher_testing_torch_npu_{re.sub(r'[^0-9a-z]', '_', version)}"
            library = self._libraries.setdefault(version, torch.library.Library(namespace, "FRAGMENT"))
            overloads = self._table.overloads(version, name)
            for number, schema in enumerate(overloads):
                library.define(f"{name}.overload{number}({schema.partition('(')[2]}")
            packet = getattr(getattr(torch.ops, namespace), name) if overloads else None
            self._operators[key] = [getattr(packet, f"overload{number}") for number in range(len(overloads))]
        return self._operators[key]


def _refusal(operator: Any, call: Call) -> str | None:
    try:
        operator(*call.args, **call.kwargs)
    except NotImplementedError:
        # the arguments were bound, and then there was no kernel to run
        return None
    except (RuntimeError, TypeError) as error:
        return str(error).strip().splitlines()[0].replace(str(operator), call.operator)
    raise AssertionError(f"{operator} ran, although it has no kernel")


_binders: dict[int, _Binder] = {}


def replay(calls: Sequence[Call], table: SchemaTable | None = None) -> Replay:
    """Bind every call to the schemas of every version in `table` (default: the versions that this package carries)."""
    table = table or known_schemas()
    binder = _binders.setdefault(id(table), _Binder(table))
    answers = tuple(
        (call, tuple(binder.answer(call, version) for version in table.versions)) for call in calls
    )
    return Replay(answers)
