"""`PlantedFaults`: the base class of a test that the tests of a patch set can fail."""

from __future__ import annotations

import inspect
import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar, Mapping, Sequence

import pytest

from ..another_pytest import another_pytest
from .request import Request, Verdict


class PlantedFaults:
    """Subclass this and name what is tested by what: a wrong replacement of anything must turn a test red.

    class TestPlantedFaults(PlantedFaults):
        groups = "my_patches:ALL"
        tests = ["test_my_patches.py"]

    In each replacement that the groups put in, a fault is planted: what it gives back is a little off (see
    :func:`patcher_testing.faults.wrong.wrong`). Tests that call it run until one fails by an assertion; an error is not
    enough, for it may say that the fault was impossible. The tests run in this environment; what does not apply in it
    is named in `not_here`, and belongs to the same class in another.

    Of a parametrised test so many variants are used that every value of every parameter occurs. Tests that start
    processes of their own prove nothing here: faults are planted in the process of the test.
    """

    #: where the list of groups is: `module:attribute`
    groups: ClassVar[str]
    #: files, folders or node ids of the tests, relative to the folder of the subclass
    tests: ClassVar[Sequence[str]]
    #: names of groups that the tests do not apply in this environment, and why
    not_here: ClassVar[Mapping[str, str]] = {}
    #: faults that no test can see, as the failure names them, and why; a trailing `*` stands for any text
    not_seen: ClassVar[Mapping[str, str]] = {}
    #: imported once instead of by every test
    modules: ClassVar[Sequence[str]] = ()
    #: use the tests on the simulated NPU, and only them
    on_npu: ClassVar[bool] = False

    def test_a_wrong_replacement_turns_a_test_red(
        self, request: pytest.FixtureRequest, tmp_path: Path
    ) -> None:
        verdicts = self._verdicts(request.config, tmp_path)
        for verdict in verdicts:
            print(f"{verdict.fault}: {verdict.red or 'not seen'}")
        seen = {verdict.fault for verdict in verdicts if verdict.red}
        print(f"{len(seen)} of {len(verdicts)} faults turn a test red")
        problems = [problem for verdict in verdicts for problem in self._problems(verdict)]
        problems += [
            f"{name}: not_seen says {reason!r}, but nothing of that name went unseen"
            for name, reason in self.not_seen.items()
            if not any(_is_meant(name, verdict) for verdict in verdicts if not verdict.red)
        ]
        assert not problems, "\n".join(["", *(f"- {problem}" for problem in problems)])

    def _problems(self, verdict: Verdict) -> list[str]:
        is_applied = not verdict.fault.endswith(": ")
        reason = self.not_here.get(verdict.group)
        if reason is not None:
            return [f"{verdict.group}: applied, although not_here says {reason!r}"] if is_applied else []
        if verdict.red or any(_is_meant(name, verdict) for name in self.not_seen):
            return []
        if not is_applied:
            return [f"{verdict.group}: no test applies it"]
        if not verdict.others:
            return [f"{verdict.fault}: no test that passes calls it"]
        tried = "; ".join(verdict.others[:3]) + f"; {len(verdict.others) - 3} more" * (
            len(verdict.others) > 3
        )
        return [f"{verdict.fault}: wrong, and no test fails by an assertion: {tried}"]

    def _verdicts(self, config: pytest.Config, folder: Path) -> list[Verdict]:
        here = Path(inspect.getfile(type(self))).parent
        answer = folder / "answer.json"
        Request(self.groups, str(answer), list(self.modules), self.on_npu).write(folder / "request.json")
        command = [
            *another_pytest(config),
            *("-p", "no:cacheprovider", "-p", f"{__package__}.examination"),
            f"--planted-faults={folder / 'request.json'}",
            # the tests on the simulated NPU run in that process, not in others
            f"--simulated-npu-reports={folder / 'reports'}",
            *(str(here / test) for test in self.tests),
        ]
        done = subprocess.run(command, cwd=config.rootpath, capture_output=True, text=True, errors="replace")
        if not answer.is_file():
            raise AssertionError(
                f"the process ended with status {done.returncode}\n{done.stdout}{done.stderr}"
            )
        answers: list[dict[str, Any]] = json.loads(answer.read_text(encoding="utf-8"))
        return [Verdict(**facts) for facts in answers]


def _is_meant(name: str, verdict: Verdict) -> bool:
    return verdict.fault.startswith(name[:-1]) if name.endswith("*") else verdict.fault == name
