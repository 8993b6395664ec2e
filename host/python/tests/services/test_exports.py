"""Exports of `host data export` for viewers, read by the packages of their makers."""

from __future__ import annotations

import json
import sys

import pytest

import gymkhana_rl as gk
from gymkhana_rl import _native
from model_server import replies_in


@pytest.fixture
def played(load, serve, tmp_path):
    """A run of one episode with a call and an answer."""

    def answer(prompt: str) -> str:
        if replies_in(prompt) == 0:
            return '<tool_call>\n{"name": "calculate", "arguments": {"expression": "6*7"}}\n</tool_call>'
        return "42"

    plugins = [load("word-problems"), load("calculator").tool(), load("answer-match")]
    (episode,) = gk.play(
        plugins, model=serve(answer).url, episodes=1, success="answer-match.correct", tool_format="hermes",
        max_tokens=99, system="Be brief.", out=tmp_path / "out",
    )  # fmt: skip
    return episode


def export(tmp_path, form):
    file = tmp_path / f"{form}.json"
    arguments = ["data", "export", str(tmp_path / "out"), "--format", form, "--out", str(file)]
    assert _native.command_line(arguments) == 0, sys.stderr
    return file


def spans(file):
    """The spans, parsed as a request of OTLP. Its JSON has ids in hex, where that of protobuf has base64."""
    import base64

    from google.protobuf.json_format import ParseDict
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    (line,) = file.read_text().splitlines()
    request = json.loads(line)
    for span in request["resourceSpans"][0]["scopeSpans"][0]["spans"]:
        for key in {"traceId", "spanId", "parentSpanId"} & span.keys():
            span[key] = base64.b64encode(bytes.fromhex(span[key])).decode()
    parsed = ParseDict(request, ExportTraceServiceRequest())
    return parsed.resource_spans[0].scope_spans[0].spans


def attributes(span):
    return {own.key: getattr(own.value, own.value.WhichOneof("value")) for own in span.attributes}


def test_spans_have_names_of_opentelemetry(played, tmp_path):
    pytest.importorskip("opentelemetry")
    from opentelemetry.semconv._incubating.attributes import error_attributes, gen_ai_attributes

    known = {
        value
        for module in (gen_ai_attributes, error_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    }
    root, *others = spans(export(tmp_path, "otel"))
    assert len(root.trace_id) == 16 and not root.parent_span_id
    assert all(len(span.span_id) == 8 and span.parent_span_id == root.span_id for span in others)
    for span in (root, *others):
        unknown = [key for key in attributes(span) if key not in known and not key.startswith("gymkhana.")]
        assert unknown == []
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    operations = [attributes(span)["gen_ai.operation.name"] for span in (root, *others)]
    values = {value.value for value in gen_ai_attributes.GenAiOperationNameValues}
    assert operations == ["invoke_agent", "chat", "execute_tool", "chat"] and set(operations) <= values
    first, tool, last = map(attributes, others)
    (segment,) = played.segments
    sampled = [int(turn) for turn, mask in zip(segment.turns, segment.mask, strict=True) if mask]
    counted = [first["gen_ai.usage.output_tokens"], last["gen_ai.usage.output_tokens"]]
    assert counted == [sampled.count(0), sampled.count(1)]
    assert json.loads(tool["gen_ai.tool.call.arguments"]) == {"expression": "6*7"}
    heard = json.loads(last["gen_ai.input.messages"])
    assert [message["role"] for message in heard] == ["user", "assistant", "tool"]
    assert attributes(root)["gymkhana.reward"] == played.reward


def test_spans_have_names_of_openinference(played, tmp_path):
    pytest.importorskip("openinference")
    from openinference.semconv import trace

    families = [trace.SpanAttributes, trace.MessageAttributes, trace.ToolCallAttributes, trace.ToolAttributes]
    names = {value for family in families for name, value in vars(family).items() if name.isupper()}
    kinds = {kind.value for kind in trace.OpenInferenceSpanKindValues}
    found = []
    for span in spans(export(tmp_path, "openinference")):
        own = attributes(span)
        found.append(own["openinference.span.kind"])
        for key in own:
            # Lists have numbers in their keys: each part between them is a name.
            parts = [part.strip(".") for part in "".join(" " if c.isdigit() else c for c in key).split()]
            assert set(parts) <= names, key
    assert found == ["AGENT", "LLM", "TOOL", "LLM"] and set(found) <= kinds


def test_the_table_is_one_of_weights_and_biases(played, tmp_path):
    wandb = pytest.importorskip("wandb")
    table = wandb.Table.from_json(json.loads(export(tmp_path, "wandb-table").read_text()), None)
    (row,) = table.data
    found = dict(zip(table.columns, row, strict=True))
    assert (found["episode"], found["reward"], found["success"]) == (played.id, played.reward, played.success)
    assert found["calls"] == 1 and "tool: 42" in found["conversation"]
