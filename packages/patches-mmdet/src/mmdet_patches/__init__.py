"""Patches for mmdet 2.x/3.x and mmdet3d."""
