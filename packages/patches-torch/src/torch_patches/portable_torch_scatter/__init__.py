"""torch_scatter in plain PyTorch: the interface and results of torch_scatter 2.1.2, on any device.

Supplied as ``torch_scatter`` where that is not installed: by :class:`torch_patches.TorchScatter`, or by
``Patcher().replace_import("torch_scatter", "torch_patches.portable_torch_scatter")``.

Where upstream 2.1.2 gives something meaningless, this does not follow it:

* the gradient of ``segment_*_csr`` is 0 for elements in no segment (upstream: memory that was not initialised);
* ``segment_*_coo`` has a gradient where the index broadcasts (upstream: an internal assertion fails);
* ``segment_min_coo`` and ``segment_max_coo`` with ``out`` say N where no element is better (upstream: a position of the
  group before);
* ``segment_*_coo`` with ``out`` starts each group from its own entry (upstream: the first group from entry 0);
* the gradient of ``scatter_mul`` is that of the product also where a factor is zero.
"""

from __future__ import annotations

from .composite import scatter_log_softmax, scatter_logsumexp, scatter_softmax, scatter_std
from .scatter import scatter, scatter_add, scatter_max, scatter_mean, scatter_min, scatter_mul, scatter_sum
from .segment_coo import (
    gather_coo,
    segment_add_coo,
    segment_coo,
    segment_max_coo,
    segment_mean_coo,
    segment_min_coo,
    segment_sum_coo,
)
from .segment_csr import (
    gather_csr,
    segment_add_csr,
    segment_csr,
    segment_max_csr,
    segment_mean_csr,
    segment_min_csr,
    segment_sum_csr,
)

#: of the torch_scatter whose interface this is
__version__ = "2.1.2"

__all__ = [
    "__version__",
    "gather_coo",
    "gather_csr",
    "scatter",
    "scatter_add",
    "scatter_log_softmax",
    "scatter_logsumexp",
    "scatter_max",
    "scatter_mean",
    "scatter_min",
    "scatter_mul",
    "scatter_softmax",
    "scatter_std",
    "scatter_sum",
    "segment_add_coo",
    "segment_add_csr",
    "segment_coo",
    "segment_csr",
    "segment_max_coo",
    "segment_max_csr",
    "segment_mean_coo",
    "segment_mean_csr",
    "segment_min_coo",
    "segment_min_csr",
    "segment_sum_coo",
    "segment_sum_csr",
]
