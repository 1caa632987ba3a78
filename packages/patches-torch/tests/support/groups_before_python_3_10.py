"""The set without CollectionsCompat.

Before Python 3.10 ``collections`` still gives its names, and keeps each from the first time that it is asked for it: to
look at one is to put it in. `test_removed_names.py` shows that patch there.
"""

from torch_patches import ALL, CollectionsCompat

GROUPS = [group for group in ALL if group is not CollectionsCompat]
