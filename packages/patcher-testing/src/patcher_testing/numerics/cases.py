"""The kinds of input that a replacement has to handle, and how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Case:
    """One kind of input. Each is drawn in every dtype."""

    name: str
    #: tensors are views of which every second element of the last dimension is used
    is_contiguous: bool = True
    #: what `Draw.batch` gives
    batch: int = 3
    #: whether `Draw.size` gives multiples that are odd
    odd_sizes: bool = False


CASES = (
    Case("plain"),
    Case("odd sizes", odd_sizes=True),
    Case("not contiguous", is_contiguous=False),
    Case("a batch of one", batch=1),
    Case("an empty batch", batch=0),
)


class Draw:
    """Random inputs of one case in one dtype; the same seed draws the same."""

    def __init__(self, case: Case, dtype: torch.dtype, seed: int) -> None:
        self.case = case
        self.dtype = dtype
        self._generator = torch.Generator().manual_seed(seed)

    def batch(self) -> int:
        """The size of the batch dimension in this case."""
        return self.case.batch

    def size(self, *, multiple_of: int = 1, at_most: int = 8) -> int:
        """A size of a dimension: `multiple_of` times a number up to `at_most`, an odd one in the case of odd sizes."""
        half = max(at_most // 2, 1)
        number = 2 * int(torch.randint(1, half + 1, (), generator=self._generator))
        return multiple_of * (number - 1 if self.case.odd_sizes else number)

    def tensor(
        self, *shape: int, dtype: torch.dtype | None = None, scale: float = 1.0, grad: bool = True
    ) -> torch.Tensor:
        """Normally distributed values; `grad` says whether gradients with respect to it are compared."""
        values = torch.randn(self._drawn_shape(shape), generator=self._generator) * scale
        return self._laid_out(values.to(dtype or self.dtype)).requires_grad_(grad)

    def uniform(
        self, low: float, high: float, *shape: int, dtype: torch.dtype | None = None, grad: bool = True
    ) -> torch.Tensor:
        """Evenly distributed values between `low` and `high`."""
        values = low + (high - low) * torch.rand(self._drawn_shape(shape), generator=self._generator)
        return self._laid_out(values.to(dtype or self.dtype)).requires_grad_(grad)

    def integers(self, low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        """Integers from `low` up to, but not including, `high`."""
        return self._laid_out(
            torch.randint(low, high, self._drawn_shape(shape), generator=self._generator, dtype=dtype)
        )

    def mask(self, *shape: int, probability: float = 0.5) -> torch.Tensor:
        """Booleans that are True with this probability."""
        return self._laid_out(torch.rand(self._drawn_shape(shape), generator=self._generator) < probability)

    def _drawn_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        if self.case.is_contiguous or not shape:
            return shape
        return (*shape[:-1], 2 * shape[-1])

    def _laid_out(self, values: torch.Tensor) -> torch.Tensor:
        return values if self.case.is_contiguous or values.dim() == 0 else values[..., ::2]
