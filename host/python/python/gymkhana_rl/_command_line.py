"""The command line of the host without the trainer, which the programs `host` and `gymkhana` run."""

import os
import signal
import sys

from ._native import command_line

# Names of the program.
NAMES = ("host", "gymkhana")


def main() -> int:
    """Runs the command line and returns its exit code."""
    # The interpreter handles an interrupt between two of its instructions, and a command is one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    typed = os.path.basename(sys.argv[0])
    # Help and messages show the name that was typed.
    return command_line(sys.argv[1:], typed if typed in NAMES else NAMES[0])
