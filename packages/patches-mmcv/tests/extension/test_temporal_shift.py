"""Temporal interlacing against a loop over images, frames and channels."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

#: batch, frames, channels, pixels, groups
CASES = [(2, 5, 6, 3, 3), (3, 4, 4, 1, 4), (1, 1, 2, 2, 1), (0, 3, 2, 2, 2)]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
@pytest.mark.parametrize("name", ["tin_shift_forward", "tin_shift_backward"])
@pytest.mark.parametrize("case", CASES)
def test_frames_move_by_the_shift_of_their_channel_in_both_directions(extension, case, name, dtype):
    batch, frames, channels, pixels, groups = case
    x = torch.randn(batch, frames, channels, pixels).to(dtype)
    shift = torch.randint(-frames - 1, frames + 2, (batch, groups), dtype=torch.int32)
    expected = torch.full_like(x, 7)
    for n in range(batch):
        for t in range(frames):
            for c in range(channels):
                moved = t + int(shift[n, c // (channels // groups)])
                if 0 <= moved < frames:
                    expected[n, moved, c] = x[n, t, c]
    output = torch.full_like(x, 7)
    getattr(extension, name)(x, shift, output)
    assert torch.equal(output, expected)
