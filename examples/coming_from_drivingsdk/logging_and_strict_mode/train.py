import logging

from mx_driving.patcher import AtomicPatch, Patcher
from mx_driving.patcher.patcher_logger import (
    LogAction,
    PatcherLogger,
    PatchError,
    configure_patcher_logging,
    patcher_logger,
    set_patcher_log_level,
)

records = []


class Keep(logging.Handler):
    def emit(self, record):
        records.append((record.levelname, record.getMessage()))


logging.getLogger("mx_driving.patcher").addHandler(Keep())
assert isinstance(patcher_logger, PatcherLogger)
set_patcher_log_level(logging.DEBUG)
configure_patcher_logging(
    level="info", on_apply="silent", on_skip="warning", on_fail="exception", on_error="error"
)
patcher_logger.configure_summary(enabled=True, show_applied=True)


def fails():
    raise OSError("no such file")


good = AtomicPatch("torch.nn.functional.relu", "torch.relu")
bad = AtomicPatch("torch.nn.functional.gelu", "torch.relu", precheck=fails)
try:
    Patcher().add(good, bad).apply()
except PatchError as error:
    assert "no such file" in str(error)
else:
    raise AssertionError("strict mode did not raise")
import torch

assert torch.nn.functional.relu is not torch.relu and not good.is_applied

patcher_logger.configure(on_fail=LogAction.WARNING)
Patcher().add(good, bad, AtomicPatch("torch.nn.functional.no_such", "torch.relu")).apply()
assert torch.nn.functional.relu is torch.relu
texts = [text for level, text in records if level == "WARNING"]
assert any("no such file" in text for text in texts) and any("no_such" in text for text in texts)
assert any("+ torch.nn.functional.relu" in text for _, text in records)

patcher_logger.applied("my.target", package="my", patch_name="Mine")
patcher_logger.skipped("my.other", reason="not here")
patcher_logger.failed("my.third", reason="broken")
patcher_logger.flush_summary()
patcher_logger.set_rank(1)
assert patcher_logger.rank == 1 and not patcher_logger.is_main_process
patcher_logger.info("rank 1 says nothing")
patcher_logger.set_rank_from_env()
(
    patcher_logger.info("rank 0 does"),
    patcher_logger.debug("below the level"),
    patcher_logger.error("something went wrong"),
)
patcher_logger.set_level("ERROR")
patcher_logger.warning("below the level")
messages = [text for _, text in records]
assert "rank 0 does" in messages and "something went wrong" in messages
assert not {"rank 1 says nothing", "below the level"} & set(messages)
print("trained a step")
