"""One rank of the engine, started by `torchrun -m gymkhana_rl.torch --socket PATH --errors DIR`."""

from __future__ import annotations

import argparse
import os

from .failures import Failures


def main() -> None:
    """Runs the rank until the host closes the connection or the engine. It ends with `os._exit`."""
    parser = argparse.ArgumentParser(prog="gymkhana_rl.torch", description="Train and sample for a Gymkhana host.")
    parser.add_argument("--socket", required=True, help="Unix socket on which the host listens")
    parser.add_argument("--errors", required=True, help="folder for the reason of a failure")
    arguments = parser.parse_args()
    failures = Failures(arguments.errors, int(os.environ["RANK"]))
    # Threads inherit the blocked signal, so this precedes PyTorch.
    failures.report_signals()
    try:
        from .engine import Engine
        from .host import Connection, Host
        from .ranks import Ranks

        ranks = Ranks()
        failures.expects_end = ranks.is_ending
        engine = Engine(ranks)
        if ranks.rank == 0:
            Host(Connection(arguments.socket, ranks), engine).run()
        while not engine.closed:
            engine.run(ranks.broadcast([]))
    except BaseException as error:
        failures.fail(error)
    os._exit(0)


if __name__ == "__main__":
    main()
