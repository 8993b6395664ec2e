"""The programs `host` and `gymkhana`: the command line of `gymkhana-rl-train`, or the one without the trainer.

Imports nothing of `gymkhana_rl` at first, so that the trainer's program starts without the native module.
"""

import os
import sys
from collections.abc import Iterable

# Below a folder of Python packages.
PROGRAM = "gymkhana_rl_train/bin/host"


def installed_program(folders: Iterable[str]) -> str | None:
    """Path of the trainer's program in one of these folders of packages."""
    paths = (os.path.join(folder, PROGRAM) for folder in folders if os.path.isabs(folder))
    return next((path for path in paths if os.access(path, os.X_OK)), None)


def main() -> int:
    """Becomes the trainer's program if it is installed. Otherwise runs the command line and returns its exit code."""
    program = installed_program(sys.path)
    if program is not None:
        os.execv(program, sys.argv)
    from gymkhana_rl._command_line import main as without_trainer

    return without_trainer()
