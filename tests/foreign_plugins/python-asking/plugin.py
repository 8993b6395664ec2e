"""Uses every capability that a run can grant and returns the results."""

import json

from gymkhana_sdk import Denied, Function, NotFound, Tool, assets, http, log, model


def helper(nothing):
    return nothing.length


class Asking(Tool):
    """Tool whose answers are lines of JSON."""

    summary = "Uses every capability that a run can grant"

    @classmethod
    def functions(cls, options):
        return [Function(name, "Asks.") for name in ("read", "complete", "send", "unknown", "crash")]

    def call(self, call):
        log.info(f"asked to {call.name}")
        try:
            return json.dumps(getattr(self, call.name)(), separators=(",", ":"))
        except (Denied, NotFound) as error:
            return f"{type(error).__name__}: {error}"

    def read(self):
        return [[[asset.name, asset.size] for asset in assets.names()], assets.read("words", 1, 2).decode()]

    def unknown(self):
        return assets.read("nothing", 0, 1).decode()

    def crash(self):
        return helper(None)

    def complete(self):
        reply = model.complete([("system", "be kind"), ("user", "hello")], 50, stop=["."])
        return [reply.text, reply.cut, reply.prompt_tokens]

    def send(self):
        response = http.send("POST", "http://a.b/c", [("x-y", "z")], b"body")
        return [response.status, list(response.headers), response.body.decode()]
