"""Workers of a run on a Ray cluster: actors that run `gymkhana worker`.

    python -m gymkhana_rl.ray nats://bus:4222 --workers 8
    python -m gymkhana_rl.ray nats://bus:4222 --workers 8 --cpus 2 -- --bus-credentials worker.creds

The run itself is `host run … --workers nats://bus:4222` on the trainer's machine. Ray starts the workers, and starts
those again that are lost with their machine. Each ends with its first run.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ._adapter import framework
from ._native import command_line
from .errors import GymkhanaError

__all__ = ["Workers", "start"]


@dataclass(frozen=True)
class Workers:
    """Workers that Ray has started."""

    actors: list[Any]
    """Handles of the actors. Ray ends an actor that nothing refers to."""
    ends: list[Any]
    """References to the exit codes."""

    def wait(self, timeout_s: float | None = None) -> None:
        """Waits until all workers have ended.

        Raises:
            GymkhanaError: If a worker failed; its actor's log has the reason.
            ray.exceptions.GetTimeoutError: If they have not ended in time.
        """
        import ray

        failed = [code for code in ray.get(self.ends, timeout=timeout_s) if code != 0]
        if failed:
            raise GymkhanaError(f"{len(failed)} of {len(self.ends)} workers failed", "read the logs of their actors")


class _Worker:
    """An actor with the command line in its process."""

    def work(self, arguments: list[str]) -> int:
        return command_line(["worker", *arguments])


def start(url: str, workers: int = 1, *, cpus: float = 1.0, arguments: Sequence[str] = ()) -> Workers:
    """Starts workers on the Ray cluster to which this process is connected, or on this machine.

    Args:
        url: Address of the bus, such as `nats://bus:4222`, as the machines of the cluster see it.
        workers: Number of actors.
        cpus: Processors that Ray reserves for each.
        arguments: Further arguments of `gymkhana worker`. Files that they name exist on all machines.

    Raises:
        MissingFrameworkError: If Ray is not installed.
    """
    with framework("ray"):
        import ray
    lasting = ray.remote(num_cpus=cpus, max_restarts=-1, max_task_retries=-1)(_Worker)
    actors = [lasting.remote() for _ in range(workers)]
    return Workers(actors, [actor.work.remote([url, "--once", *arguments]) for actor in actors])


def main(arguments: Sequence[str] | None = None) -> int:
    """Starts workers and waits for their end."""
    parser = argparse.ArgumentParser(prog="python -m gymkhana_rl.ray", description="Start workers on a Ray cluster.")
    parser.add_argument("url", help="address of the bus, such as nats://bus:4222")
    parser.add_argument("--workers", type=int, default=1, metavar="COUNT", help="number of actors")
    parser.add_argument("--cpus", type=float, default=1.0, metavar="COUNT", help="processors of each actor")
    parser.add_argument("--address", help="address of the cluster [default: RAY_ADDRESS, or this machine]")
    parser.add_argument("more", nargs="*", metavar="-- ARGUMENT", help="further arguments of gymkhana worker")
    given = parser.parse_args(arguments)
    try:
        with framework("ray"):
            import ray
        ray.init(address=given.address)
        start(given.url, given.workers, cpus=given.cpus, arguments=given.more).wait()
    except GymkhanaError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
