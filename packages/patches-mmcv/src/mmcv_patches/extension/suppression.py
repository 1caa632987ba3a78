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

__all__ = ["first_suppressors", "greedy_keep"]

#: Items of a block; a block is compared with itself as a whole.
BLOCK = 256
#: Pairs that one comparison of a block with later items may have: small enough for a CPU's cache.
PAIRS = 1 << 16

#: ``overlaps(first, second)``: for int64 positions (A,) and (B,), a boolean (A, B).
Overlaps = Callable[[Tensor, Tensor], Tensor]


def greedy_keep(count: int, overlaps: Overlaps, device: torch.device, pairs: int = PAIRS) -> Tensor:
    """Positions, ascending int64, that greedy suppression keeps of ``count`` items sorted by falling score.

    ``overlaps`` tells which item of the first set suppresses which of the second; ``pairs`` is the largest
    number of pairs that it is asked for beyond those of one block.
    """
    kept = []
    alive = torch.arange(count, device=device)
    while len(alive):
        block, alive = alive[:BLOCK], alive[BLOCK:]
        survivors = block[_greedy_fixed_point(overlaps(block, block).triu(1))]
        kept.append(survivors)
        hit = [
            overlaps(survivors, alive[start:stop]).any(0)
            for start, stop in row_ranges(len(alive), len(survivors), pairs)
        ]
        if hit:
            alive = alive[~torch.cat(hit)]
    return torch.cat(kept) if kept else alive


def first_suppressors(count: int, overlaps: Overlaps, device: torch.device) -> Tensor:
    """The kept position that suppressed each of ``count`` items, int64 (count,); its own where it is kept."""
    kept = greedy_keep(count, overlaps, device)
    suppressor = torch.arange(count, device=device)
    undecided = torch.ones(count, dtype=torch.bool, device=device)
    undecided[kept] = False
    others = undecided.nonzero().squeeze(1)
    for start, stop in row_ranges(len(others), len(kept), PAIRS):
        chunk = others[start:stop]
        hits = overlaps(kept, chunk) & (kept[:, None] < chunk)
        # The first of equal maxima is not guaranteed to win argmax on every device, so positions are
        # compared.
        suppressor[chunk] = torch.where(hits, kept[:, None], count).amin(0)
    return suppressor


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
