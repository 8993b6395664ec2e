"""A server with first-party plugins."""

import sys
from pathlib import Path

import pytest

REFERENCE = Path(__file__).parents[1]
sys.path.insert(0, str(REFERENCE))
sys.path.insert(0, str(REFERENCE.parents[1] / "host/python/tests/adapters"))

from served import serving  # noqa: E402

# The fixed map, so that one list of moves reaches its goal.
CONFIG = '[environments.frozen-lake]\noptions = { map = "4x4" }\n'
PLUGINS = ("frozen-lake", "calculator")


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    config = tmp_path_factory.mktemp("serve") / "serve.toml"
    config.write_text(CONFIG)
    with serving(PLUGINS, config) as url:
        yield url
