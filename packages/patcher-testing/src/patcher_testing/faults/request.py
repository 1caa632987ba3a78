"""What `PlantedFaults` asks of the process in which faults are planted, and what that answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple


class Request(NamedTuple):
    #: where the list of groups is: `module:attribute`
    groups: str
    #: the file to answer in
    answer: str
    #: imported once, before the tests run
    modules: list[str]
    #: whether the tests on the simulated NPU are meant, or the others
    on_npu: bool

    @classmethod
    def read(cls, file: str) -> Request:
        return cls(**json.loads(Path(file).read_text(encoding="utf-8")))

    def write(self, file: Path) -> None:
        file.write_text(json.dumps(self._asdict()), encoding="utf-8")


class Verdict(NamedTuple):
    """What came of planting one fault."""

    #: of the group, and what is replaced by what; nothing after the colon: no test applies the group
    fault: str
    #: the test that failed by an assertion; "" for none
    red: str
    #: what other tests that call it did before that one, or instead
    others: list[str]

    @property
    def group(self) -> str:
        return self.fault.partition(": ")[0]
