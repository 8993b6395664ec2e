"""Fixtures of the adapters' tests, which need the installed wheel and the plugins' components."""

import os
from importlib.util import find_spec

import pytest

if find_spec("gymkhana_rl") is None:
    missing = "the wheel is not installed"
else:
    from reference import CASES, PLUGINS, Case, Played, play

    missing = "" if PLUGINS.is_dir() else f"no plugins in {PLUGINS}; set GYMKHANA_PLUGINS"

if missing and "GYMKHANA_NO_SKIPS" in os.environ:
    raise pytest.UsageError(missing)

if missing:
    collect_ignore_glob = ["test_*.py"]
else:

    @pytest.fixture(params=CASES.values(), ids=CASES.keys())
    def case(request: pytest.FixtureRequest) -> Case:
        return request.param

    @pytest.fixture
    def played(case: Case) -> Played:
        return play(case)


def pytest_report_header() -> str | None:
    return f"adapters: skipped, {missing}" if missing else None
