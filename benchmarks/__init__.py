"""Performance figures beside their peers': `python -m nox -s bench`."""
