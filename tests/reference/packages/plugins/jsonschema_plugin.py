"""Documents checked against a JSON schema."""

import json

import jsonschema
from gymkhana_sdk import Call, Function, Mistake, Parameter, Tool

SCHEMA = {"type": "object", "required": ["age"], "properties": {"age": {"type": "integer", "minimum": 0}}}
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


class Proof(Tool):
    """Keeps no state."""

    summary = "Check documents against a schema"

    @classmethod
    def functions(cls, options):
        return [Function("check", "Checks a document", {"document": Parameter(str, "JSON")})]

    def call(self, call: Call):
        try:
            document = json.loads(call.text("document"))
        except ValueError as error:
            raise Mistake(f"not JSON: {error}") from None
        return next((error.message for error in VALIDATOR.iter_errors(document)), "valid")
