"""Reads a page of figures from standard input as Prometheus does; prints each metric's kind as JSON."""
import json
import sys

from prometheus_client.parser import text_string_to_metric_families

families = list(text_string_to_metric_families(sys.stdin.read()))
for family in families:
    assert family.documentation, f"{family.name} has no help"
    assert family.samples, f"{family.name} has no value"
    if family.type == "histogram":
        buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
        series = {}
        for sample in buckets:
            boundary = sample.labels.get("boundary")
            series.setdefault(boundary, []).append((float(sample.labels["le"]), sample.value))
        for boundary, read in series.items():
            assert read == sorted(read), f"{family.name} {boundary}: buckets do not rise"
            assert read[-1][0] == float("inf"), f"{family.name} {boundary}: no bucket for all"
assert len({family.name for family in families}) == len(families), "a metric stands twice"
print(json.dumps({family.name: family.type for family in families}))
