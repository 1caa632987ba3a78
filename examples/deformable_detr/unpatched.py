"""Import mmdet's models without any patch, and print how that fails; exits 1 if it does not."""

import sys

try:
    import mmdet.models  # noqa: F401
except ModuleNotFoundError as error:
    print(f"Without the patches, `import mmdet.models` fails: {error}")
else:
    sys.exit("`import mmdet.models` works without the patches here: mmcv has its compiled operators")
