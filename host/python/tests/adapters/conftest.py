"""Skips the adapters' tests where the package or the plugins are missing."""

import pytest

pytest.importorskip("gymkhana_rl", reason="the wheel is not installed")

from reference import CASES, PLUGINS, Case, Played, play  # noqa: E402

if not PLUGINS.is_dir():
    pytest.skip(f"no plugins in {PLUGINS}; set GYMKHANA_PLUGINS", allow_module_level=True)


@pytest.fixture(params=CASES.values(), ids=CASES.keys())
def case(request: pytest.FixtureRequest) -> Case:
    return request.param


@pytest.fixture
def played(case: Case) -> Played:
    return play(case)
