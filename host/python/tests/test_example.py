"""The example of the README, with the registry that set-up makes in the repository."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples/python/frozen_lake.py"


@pytest.mark.skipif(not EXAMPLE.exists(), reason="the tests run without the repository")
def test_the_example_plays_frozen_lake():
    done = subprocess.run([sys.executable, EXAMPLE], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "reward 1.0" in lines, done.stdout
    # A step to the left at the start leaves the agent in the corner.
    assert lines[lines.index("reward 1.0") + 1].startswith("A"), done.stdout
