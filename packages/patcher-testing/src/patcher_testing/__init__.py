"""For authors of patch sets: contract tests, numeric comparison against the upstream original, and a
simulated NPU.
"""
