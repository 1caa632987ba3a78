"""The groups of the contract: mmdet does not import without mmcv's operators, so those come first."""

from __future__ import annotations

import mmdet_patches
from mmcv_patches import PortableExtension

ALL = [PortableExtension, *mmdet_patches.ALL]
