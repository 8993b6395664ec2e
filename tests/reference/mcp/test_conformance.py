"""The official conformance suite against the MCP endpoint: the scenarios of what the endpoint offers.

The endpoint offers tools alone. Scenarios of prompts, resources, logging, progress, sampling and elicitation are left out.
"""

import json
import os
import re
import subprocess
import urllib.request

import pytest

# Releases of the suite by their folder in node_modules. The newer one is a pre-release with the revision 2026-07-28, and
# checks every message against the schema of the revision.
STABLE, NEXT = "@modelcontextprotocol/conformance", "conformance-next"
TOOLS = (
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "json-schema-2020-12",
    "dns-rebinding-protection",
)
# Checks of requests to the client, which the endpoint never makes. The suite counts them as failed without a tool for each.
UNTESTABLE = "Error: Not testable: server does not list the diagnostic tool"
HEADERS = ("server-stateless", "http-header-validation", "http-custom-header-server-validation")
RUNS = (
    [(STABLE, None, scenario) for scenario in ("server-initialize", "ping", *TOOLS)]
    + [(NEXT, "2025-11-25", scenario) for scenario in ("server-initialize", "ping", *TOOLS)]
    + [(NEXT, "2026-07-28", scenario) for scenario in (*HEADERS, *TOOLS)]
)


@pytest.fixture(scope="module")
def endpoint(url):
    body = json.dumps({"environment": "tools-only", "seed": 1}).encode()
    request = urllib.request.Request(f"{url}/mcp/episodes", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return url + json.load(answer)["mcp"]


@pytest.mark.parametrize("release, revision, scenario", RUNS)
def test_the_scenario_has_no_failure(endpoint, tmp_path, release, revision, scenario):
    program = os.path.join(os.environ["GYMKHANA_MCP_CONFORMANCE"], "node_modules", release, "dist/index.js")
    command = [os.environ["GYMKHANA_MCP_NODE"], program, "server", "--url", endpoint, "--scenario", scenario]
    if revision:
        command += ["--spec-version", revision]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    lines = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout).splitlines()
    errors = [line.strip() for line in lines if line.strip().startswith("Error:")]
    assert [error for error in errors if not error.startswith(UNTESTABLE)] == [], done.stdout + done.stderr
    assert done.returncode == 0 or errors, done.stdout + done.stderr
