#!/usr/bin/env python3
"""Renderings of small templates in Jinja2 as transformers configures it: make_template_goldens.py FOLDER writes
FOLDER/template/language.json with `template`, `variables`, and `text` or `error` of each case."""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox
from template.cases import TEMPLATES, VARIABLES

HERE = pathlib.Path(__file__).parent


class Generation(jinja2.ext.Extension):
    """The statement `generation`, which prints its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_print"), [], [], body).set_lineno(line)

    def _print(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    """The environment of transformers' `_compile_jinja_template`, with a fixed date."""
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = datetime.datetime(2024, 7, 26).strftime
    return made


def render(template, variables):
    """The `text`, or the name of the `error`."""
    try:
        return {"text": environment().from_string(template).render(**variables)}
    except Exception as error:
        return {"error": type(error).__name__}


def main():
    folder = pathlib.Path(sys.argv[1]) / "template"
    folder.mkdir(parents=True, exist_ok=True)
    expressions = (HERE / "template" / "expressions.txt").read_text().splitlines()
    templates = [f"{{{{ {expression} }}}}" for expression in expressions] + TEMPLATES
    cases = [{"template": template, **render(template, VARIABLES)} for template in templates]
    # Addresses in memory differ between runs.
    cases = [case for case in cases if " at 0x" not in case.get("text", "")]
    golden = {"variables": VARIABLES, "cases": cases}
    (folder / "language.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
