"""Manifest, custom section and packaged contract."""

import hashlib
import json
import re
import tomllib
import unittest
from pathlib import Path

from gymkhana_sdk import abilities, build, contract
from gymkhana_sdk.manifest import BuildError, Project, stamp

REPOSITORY = Path(__file__).parents[3]


def project(metadata, **over):
    fields = {"name": "calculator", "version": "0.1.0", "description": "Exact arithmetic", "license": "Apache-2.0"}
    return Project.of({"project": {**fields, **over}, "tool": {"gymkhana": tomllib.loads(metadata)}})


class ManifestTest(unittest.TestCase):
    def test_section_is_magic_length_and_json(self):
        manifest = project("namespace = 'gymkhana'\ntool = 'm:C'").manifest(None)
        stamped = stamp(b"\0asm", manifest)
        section = stamped[4:]
        self.assertEqual(section[0], 0)
        size, shift, place = 0, 0, 1
        while True:
            size |= (section[place] & 127) << shift
            shift, place = shift + 7, place + 1
            if section[place - 1] < 128:
                break
        self.assertEqual(size, len(section) - place)
        self.assertEqual(section[place : place + 18], b"\x11gymkhana:manifest")
        frame = section[place + 18 :]
        self.assertEqual(frame[:4], b"GYMK")
        self.assertEqual(int.from_bytes(frame[4:8], "little"), len(frame) - 8)
        self.assertEqual(
            json.loads(frame[8:]),
            {
                "schema": 1,
                "namespace": "gymkhana",
                "name": "calculator",
                "version": "0.1.0",
                "kinds": ["tool"],
                "contract": {"version": "0.2.0", "digest": contract.digest()},
                "license": "Apache-2.0",
                "description": "Exact arithmetic",
                "capabilities": [],
                "deterministic": True,
            },
        )

    def test_a_reward_has_its_range_in_the_manifest(self):
        manifest = project("namespace = 'a'\nreward = 'm:C'\ncapabilities = ['model']\ndeterministic = false")
        fields = manifest.manifest((-1, 1.5))
        self.assertEqual((fields["reward-range"], fields["capabilities"]), ([-1.0, 1.5], ["model"]))
        for ends in [(1, 0), (0, float("nan")), (0, float("inf"))]:
            with self.assertRaisesRegex(BuildError, "`range`"):
                manifest.manifest(ends)

    def test_the_manifest_lists_optional_capabilities(self):
        fields = project(
            "namespace = 'a'\ntool = 'm:C'\ncapabilities = ['http', 'model']\noptional = ['model']"
        ).manifest(None)
        self.assertEqual((fields["capabilities"], fields["optional"]), (["http", "model"], ["model"]))

    def test_mistakes_name_the_key_and_show_the_fix(self):
        with self.assertRaisesRegex(BuildError, 'namespace = "your-name"'):
            Project.of({"project": {"name": "a"}})
        good = "namespace = 'a'\ntool = 'm:C'\n"
        for metadata, words in [
            ("", "`namespace` is missing"),
            ("namespace = 'A b'", "lower-case letters"),
            ("namspace = 'a'", "did you mean `namespace`?"),
            ("namespace = 'a'", "`environment`, `tool` or `reward` is missing"),
            ("namespace = 'a'\ntool = 'C'", "your_module:YourClass"),
            (good + "deterministic = 1", "true or false"),
            (good + "capabilities = ['htp']", "did you mean `http`?"),
            (good + "capabilities = ['log']", "is always available"),
            (good + "capabilities = ['http', 'http']", "twice"),
            (good + "optional = ['http']", "add it to `capabilities` too"),
            (good + "optional = 'http'", 'optional = ["http"]'),
            (good + "range = [0, 1]", "unknown key `range`"),
        ]:
            with self.assertRaises(BuildError, msg=metadata) as raised:
                project(metadata)
            self.assertIn(words, str(raised.exception))
        for over, words in [({"license": ""}, "`license`"), ({"name": "A"}, "lower-case"), ({"version": "1"}, "three")]:
            with self.assertRaises(BuildError) as raised:
                project(good, **over)
            self.assertIn(words, str(raised.exception))

    def test_versions_are_those_of_semver(self):
        for version in VERSIONS:
            self.assertEqual(project("namespace = 'a'\ntool = 'm:C'", version=version).version, version)
        for version in NO_VERSIONS:
            with self.assertRaisesRegex(BuildError, "three numbers", msg=version):
                project("namespace = 'a'\ntool = 'm:C'", version=version)


# The host's parser accepts the first list and rejects the second: registry/tests/registry/manifest.rs.
VERSIONS = [
    "0.1.0",
    "1.2.3-rc.1",
    "1.0.0-0a.b-c.0",
    "1.0.0+001",
    "1.0.0-a+b.c-d",
    "1.0.0--",
    "18446744073709551615.0.0",
]
NO_VERSIONS = [
    "1",
    "1.2",
    "01.2.3",
    "1.02.3",
    "1.2.3.4",
    "1.2.3-",
    "1.2.3+",
    "1.2.3-01",
    "1.2.3-a..b",
    "1.2.3-.a",
    "1.2.3-a_b",
    "1.2.3+a_b",
    "1.2.3-ä",
    "1.2.3-a.",
    "1.2.3+a..b",
    "1.2.3\n",
    " 1.2.3",
    "v1.2.3",
    "\u0661.2.3",
    "18446744073709551616.0.0",
]


class ContractTest(unittest.TestCase):
    def test_digest_is_that_of_the_repositorys_files(self):
        # The rule of registry/src/contract.rs, applied to the repository's own folder.
        hasher = hashlib.sha256()
        for file in sorted(filter(Path.is_file, (REPOSITORY / "wit").iterdir())):
            counted = re.sub(r"(?m)^\s*(//.*)?\n", "", file.read_text())
            hasher.update(f"{file.name}\0{counted}\0".encode())
        self.assertEqual(contract.digest(), hasher.hexdigest())
        rust = (REPOSITORY / "registry/src/contract.rs").read_text()
        numbers = ", ".join(contract.VERSION.split("."))
        self.assertIn(f"semver::Version::new({numbers})", rust)

    def test_the_contract_contains_every_optional_interface(self):
        text = "".join(file.read_text() for file in contract.FOLDER.glob("*.wit"))
        for kind, optional in abilities.OPTIONAL.items():
            for interface in (kind, *optional.values()):
                self.assertIn(f"interface {interface} {{", text)

    def test_the_sdks_share_one_version(self):
        package = tomllib.loads((REPOSITORY / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        python = tomllib.loads((REPOSITORY / "sdk/python/pyproject.toml").read_text())["project"]["version"]
        node = json.loads((REPOSITORY / "sdk/js/package.json").read_text())["version"]
        self.assertEqual((python, node), (package, package))

    def test_the_compiler_is_pinned_in_one_version(self):
        document = tomllib.loads((REPOSITORY / "sdk/python/pyproject.toml").read_text())
        self.assertEqual(document["project"]["optional-dependencies"]["build"], [build.COMPONENTIZE])


if __name__ == "__main__":
    unittest.main()
