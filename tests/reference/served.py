"""Starts `host serve` from the binary named in GYMKHANA_HOST, for tests of clients."""

import os
import pathlib
import re
import subprocess
from contextlib import contextmanager

REPO = pathlib.Path(__file__).parents[2]


def command(plugins, *options):
    """The command that serves these built plugins and keeps no records."""
    files = [str(REPO / "target/plugins" / f"{name}.wasm") for name in plugins]
    return [os.environ["GYMKHANA_HOST"], "serve", *files, "--no-records", *options]


@contextmanager
def serving(plugins, config):
    """The URL of a server with these plugins and the configuration file `config`."""
    options = ["--config", str(config), "--listen", "127.0.0.1:0"]
    server = subprocess.Popen(command(plugins, *options), stderr=subprocess.PIPE, text=True)
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
