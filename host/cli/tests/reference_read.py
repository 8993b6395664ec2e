"""Reads a page of metrics from standard input as OpenMetrics; prints each metric's type as JSON."""
import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

# The parser refuses a page that breaks a rule of OpenMetrics, such as one without `# EOF` or with falling buckets.
families = list(text_string_to_metric_families(sys.stdin.read()))
for family in families:
    assert family.documentation, f"{family.name} has no help"
    assert family.samples, f"{family.name} has no value"
    if family.type == "histogram":
        series = {}
        for sample in family.samples:
            if sample.name.endswith("_bucket"):
                bucket = float(sample.labels["le"]), sample.value
                series.setdefault(sample.labels.get("kind"), []).append(bucket)
        for kind, read in series.items():
            assert read == sorted(read), f"{family.name} {kind}: buckets do not rise"
            assert read[-1][0] == float("inf"), f"{family.name} {kind}: no bucket for all"
assert len({family.name for family in families}) == len(families), "a metric occurs twice"
print(json.dumps({family.name: {"type": family.type, "unit": family.unit} for family in families}))
