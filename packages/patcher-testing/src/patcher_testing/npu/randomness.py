"""Random operators draw from the device's own generator, as on a real device.

A device generator's state is a seed and an offset. Each random operator derives a CPU seed from both and
moves the offset on, so that `torch.npu.manual_seed`, `get_rng_state`, `set_rng_state` and generators of one's
own mean what they should. The numbers are not those that an NPU draws.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Iterator

import torch

#: an odd number near 2**64 divided by the golden ratio (the increment of SplitMix64), to spread seed and
#: offset
_SPREAD = 0x9E3779B97F4A7C15


def is_random(operator: Any) -> bool:
    """Does this operator overload draw random numbers?"""
    if torch.Tag.nondeterministic_seeded in operator.tags:
        return True
    return any(str(argument.type) == "Optional[Generator]" for argument in operator._schema.arguments)


def _next_seed(generator: torch.Generator) -> int:
    state = generator.get_state()
    seed, offset = state.view(torch.int64).tolist()
    state.view(torch.int64)[1] = offset + 4
    generator.set_state(state)
    return (seed * _SPREAD + offset) % 2**63


def device_generator() -> torch.Generator:
    """A CPU generator seeded from the current device's default generator, which moves on."""
    default = torch.npu.default_generators[torch.npu.current_device()]
    return torch.Generator().manual_seed(_next_seed(default))


@contextmanager
def seeded_from_device(generator: torch.Generator | None, device: torch.device) -> Iterator[None]:
    """Within the block the CPU's default generator is seeded from a device generator."""
    if generator is None:
        generator = torch.npu.default_generators[device.index]
    before = torch.get_rng_state()
    torch.default_generator.manual_seed(_next_seed(generator))
    try:
        yield
    finally:
        torch.set_rng_state(before)
