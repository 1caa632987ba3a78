"""First on ``PYTHONPATH`` under ``patcher run``: runs the user's own ``sitecustomize``, then patches this process."""

import os
import sys


def _run_sitecustomize_of_the_user() -> None:
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != folder]
    spec = PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(module)


def _is_process_of_the_run() -> bool:
    """Whether this is a Python of the environment that the run was started in."""
    here = "{}:{}.{}".format(os.path.realpath(sys.prefix), *sys.version_info[:2])
    return os.environ.get("PATCHER_RUN_ENVIRONMENT") == here


try:
    _run_sitecustomize_of_the_user()
finally:
    if _is_process_of_the_run():
        from patcher_core.bootstrap.process import patch_this_process

        patch_this_process()
