"""A server with first-party plugins, started from the binary named in GYMKHANA_HOST."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(REPO / "host/python/tests/adapters"))

# The fixed map, so that one list of moves reaches its goal.
CONFIG = '[environments.frozen-lake]\noptions = { map = "4x4" }\n'
PLUGINS = ("frozen-lake", "calculator")


@pytest.fixture(scope="session")
def url(tmp_path_factory):
    config = tmp_path_factory.mktemp("serve") / "serve.toml"
    config.write_text(CONFIG)
    plugins = [str(REPO / "target/plugins" / f"{name}.wasm") for name in PLUGINS]
    command = [os.environ["GYMKHANA_HOST"], "serve", *plugins, "--config", str(config), "--listen", "127.0.0.1:0"]
    server = subprocess.Popen([*command, "--no-records"], stderr=subprocess.PIPE, text=True)
    try:
        for line in server.stderr:
            if found := re.search(r"serving .* at (http://\S+)", line):
                yield found[1].rstrip("/")
                break
        else:
            raise RuntimeError("the server did not start")
    finally:
        server.terminate()
        server.wait(timeout=30)
