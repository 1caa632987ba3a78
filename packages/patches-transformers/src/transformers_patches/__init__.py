"""Patches for transformers that match code by meaning, not by model name."""
