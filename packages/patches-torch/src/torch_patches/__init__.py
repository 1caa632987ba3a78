"""Patches for torch, numpy, torch_scatter and the standard library, and the device environment every other set builds on."""
