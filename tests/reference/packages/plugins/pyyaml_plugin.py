"""Texts in YAML as JSON."""

import json

import yaml
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool


class Proof(Tool):
    """Keeps no state."""

    summary = "Read YAML"

    @classmethod
    def functions(cls, options):
        return [Function("read", "Reads a text", {"text": Parameter(str, "YAML")})]

    def call(self, call: Call):
        try:
            document = yaml.safe_load(call.text("text"))
            # What is dumped reads as the same.
            assert yaml.safe_load(yaml.safe_dump(document)) == document
            return json.dumps(document, default=str)
        except (yaml.YAMLError, ValueError, TypeError) as error:
            raise Mistake(f"not YAML: {error}") from None
