"""Ending an iteration over batches between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Iterator

if TYPE_CHECKING:
    from .controller import StepController


class StoppableLoader:
    """A loader whose iteration ends when the training has stopped; all else is the loader's own.

    ``isinstance`` takes it for what it stands for.
    """

    def __init__(self, loader: Any, controller: StepController) -> None:
        self._loader = loader
        self._controller = controller

    def __iter__(self) -> Iterator[Any]:
        for batch in self._loader:
            yield batch
            if self._controller.has_stopped:
                return

    def __len__(self) -> int:
        return len(self._loader)

    def __bool__(self) -> bool:
        return bool(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._loader)
