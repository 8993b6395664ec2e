"""Runs of verifiers' own evaluation in this process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from verifiers.v1.cli.eval.runner import run_eval
from verifiers.v1.configs.cli.eval import EvalConfig

from reference import Case


def episodes(
    url: str,
    case: Case,
    out: Path,
    *,
    client: dict[str, Any] | None = None,
    player: dict[str, Any] | None = None,
    rollouts: int = 1,
    concurrent: int = 32,
    **taskset: Any,
) -> list[Any]:
    """Plays the tasks of a case with the model of a server, as `vf-eval` does."""
    names = {"id": "gymkhana_verifiers", "plugin": case.plugin, "tools": list(case.tools)}
    config = EvalConfig(
        env={
            "taskset": {**names, "split": case.split, "seed": case.seed, **taskset},
            "record": True,
            "player": player or {},
        },
        model="scripted",
        client={"type": "eval", "base_url": f"{url}/v1", "api_key_var": "SCRIPTED_KEY", **(client or {})},
        num_rollouts=rollouts,
        max_concurrent=concurrent,
        push=False,
        rich=None,
        output_dir=out,
    )
    return asyncio.run(run_eval(config))
