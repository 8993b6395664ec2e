"""The program `gymkhana`: the command line of the host without the trainer."""

import signal
import sys

from ._native import command_line


def main() -> int:
    """Runs the command line and returns its exit code."""
    # The interpreter handles an interrupt between two of its instructions, and a command is one.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return command_line(sys.argv[1:])
