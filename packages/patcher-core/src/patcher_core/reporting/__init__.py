"""Renderings of a report: text here, source diffs beside it."""
