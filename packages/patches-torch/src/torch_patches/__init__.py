"""Patches for torch, numpy, torch_scatter and the standard library; the device environment all sets build on."""
