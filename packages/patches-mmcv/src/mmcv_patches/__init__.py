"""Patches for mmcv 1.x, mmcv 2.x and mmengine, and mmcv's compiled operators in plain PyTorch."""
