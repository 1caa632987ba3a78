"""Greedy suppression, the loop that every kind of non-maximum suppression shares.

In order of score, an item that nothing before it has suppressed is kept, and suppresses what it overlaps. The
items are taken in blocks: inside a block the greedy rule is solved as a fixed point, and what the block keeps
is compared at once with everything after it that is still alive.
"""

from __future__ import annotations

from typing import Callable

import torch
from torch import Tensor

from .chunking import row_ranges

__all__ = ["greedy_keep"]

#: Items of a block; a block is compared with itself as a whole.
BLOCK = 256
#: Pairs that one comparison of a block with later items may have: small enough for a CPU's cache.
PAIRS = 1 << 16

#: ``overlaps(first, second)``: for int64 positions (A,) and (B,), a boolean (A, B).
Overlaps = Callable[[Tensor, Tensor], Tensor]


def greedy_keep(
    count: int,
    overlaps: Overlaps,
    device: torch.device,
    pairs: int = PAIRS,
    suppressor: Tensor | None = None,
) -> Tensor:
    """Positions, ascending int64, that greedy suppression keeps of ``count`` items sorted by falling score.

    ``overlaps`` tells which item of the first set suppresses which of the second; ``pairs`` is the largest
    number of pairs that it is asked for beyond those of one block. ``suppressor``, int64 (count,), receives
    for each suppressed position the first one that suppresses it.
    """
    kept = []
    alive = torch.arange(count, device=device)
    while len(alive):
        block, alive = alive[:BLOCK], alive[BLOCK:]
        hits = overlaps(block, block).triu(1)
        keep = _greedy_fixed_point(hits)
        survivors = block[keep]
        kept.append(survivors)
        if suppressor is not None:
            _note(suppressor, survivors, block[~keep], hits[keep][:, ~keep])
        remaining = []
        for start, stop in row_ranges(len(alive), len(survivors), pairs):
            items = alive[start:stop]
            hits = overlaps(survivors, items)
            hit = hits.any(0)
            remaining.append(items[~hit])
            if suppressor is not None:
                _note(suppressor, survivors, items[hit], hits[:, hit])
        alive = torch.cat(remaining) if remaining else alive
    return torch.cat(kept) if kept else alive


def _note(suppressor: Tensor, survivors: Tensor, items: Tensor, hits: Tensor) -> None:
    # The first of equal maxima is not guaranteed to win argmax on every device, so positions are compared.
    suppressor[items] = torch.where(hits, survivors[:, None], len(suppressor)).amin(0)


def _greedy_fixed_point(suppresses: Tensor) -> Tensor:
    """Which of a block's items are kept, given the strictly upper triangular ``suppresses``.

    ``keep[j] = not any_i(keep[i] and suppresses[i, j])`` has one solution. Iterated from all ones, the
    first k items are right after k rounds; chains of suppression are short, so that a few rounds suffice.
    """
    matrix = suppresses.to(torch.float32)
    keep = torch.ones(len(suppresses), device=suppresses.device)
    while True:
        updated = (keep @ matrix == 0).to(keep.dtype)
        if torch.equal(updated, keep):
            return keep.bool()
        keep = updated
