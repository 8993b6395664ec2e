"""Checks that the tests find faults: applies each fault of `faults.toml` alone, and runs the tests that should notice it.

    python3 tests/mutation/run.py [--only PACKAGE]

The tests must pass without the faults, since a failing test counts as found. The files of the faults must have no
changes; each is restored after its tests, also after Ctrl-C. One line per fault: `found` and the first failing test,
`NOT FOUND`, or `does not compile` and the first error. The exit code is 1 if a fault was not found or does not compile,
and 2 if one cannot be applied."""
import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAULTS = pathlib.Path(__file__).with_name("faults.toml")
# Time of the compiler and of the tests, in seconds each.
TIMEOUT = 600
SHELL_TERMINATED = 128 + signal.SIGTERM


class Inapplicable(Exception):
    """A fault that cannot be applied."""


def run(command):
    """Exit code, None after a timeout, and output of a command. Its process group ends with it."""
    environment = os.environ | {"CARGO_TERM_COLOR": "never"}
    # A file, since a process that left the group would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, start_new_session=True, stdin=subprocess.DEVNULL,
                                   stdout=output, stderr=subprocess.STDOUT)
        try:
            code = process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        output.seek(0)
        return code, output.read().decode(errors="replace")


def mutated(fault):
    """The file of a fault, its bytes, and its bytes with the fault."""
    path = ROOT / fault["file"]
    if subprocess.run(["git", "diff", "--quiet", "HEAD", "--", fault["file"]], cwd=ROOT).returncode != 0:
        raise Inapplicable(f"{fault['file']} has changes\nhint: commit them")
    before, old = path.read_bytes(), fault["old"].encode()
    if before.count(old) != 1:
        problem = f"`{fault['old']}` occurs {before.count(old)} times in {fault['file']}"
        raise Inapplicable(f"{problem}\nhint: update faults.toml")
    return path, before, before.replace(old, fault["new"].encode())


def tested(fault):
    """Whether the tests notice an applied fault, and the result in words."""
    tests = fault.get("tests", [])
    package = [] if "-p" in tests else ["-p", fault["package"]]
    command = ["cargo", "test", "--release", *package, *tests]
    code, output = run([*command, "--no-run"])
    if code != 0:
        errors = re.findall(r"^error.*$", output, re.MULTILINE)
        why = errors[0] if errors else f"no end within {TIMEOUT} s" if code is None else f"exit code {code}"
        return False, f"does not compile: {why}"
    code, output = run(command)
    begun = sum(int(count) for count in re.findall(r"^running (\d+) tests?$", output, re.MULTILINE))
    failed = re.search(r"^test (.+?) \.\.\. FAILED$", output, re.MULTILINE)
    if failed:
        return True, f"found by {failed[1]}"
    if begun == 0:
        return False, f"NOT FOUND: no test ran, exit code {code}"
    if code == 0:
        return False, "NOT FOUND"
    if code is None:
        return True, f"found: no end within {TIMEOUT} s"
    return True, f"found: exit code {code} without a failed test"


def check(fault):
    """The result of [`tested`] with the fault applied; the file is restored."""
    path, before, after = mutated(fault)
    try:
        path.write_bytes(after)
        return tested(fault)
    finally:
        path.write_bytes(before)


def main():
    parser = argparse.ArgumentParser(description="Checks that the tests find the faults of faults.toml.")
    parser.add_argument("--only", metavar="PACKAGE", help="apply the faults of this package only")
    only = parser.parse_args().only
    # A request to end is an exception, so that the file is restored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(SHELL_TERMINATED))
    faults = tomllib.loads(FAULTS.read_text())["faults"]
    faults = [fault for fault in faults if only in (None, fault["package"])]
    if not faults:
        parser.error(f"no fault of package `{only}`")
    found = 0
    for fault in faults:
        is_found, result = check(fault)
        found += is_found
        print(f"{fault['package']}: {fault['fault']} {result}", flush=True)
    print(f"{found} of {len(faults)} faults found")
    return 0 if found == len(faults) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Inapplicable as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
