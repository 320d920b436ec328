"""A strict reader of Prometheus's text format 0.0.4. It also fails on mistakes that Prometheus accepts or would misread."""

import math
import re

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
HELP = re.compile(rf"# HELP ({NAME}) ([^\n]+)")
TYPE = re.compile(rf"# TYPE ({NAME}) (counter|gauge|histogram)")
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\S+)")
VALUE = re.compile(r"NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?")


def parse(text):
    """Returns {sample: value}. A sample is its name with its labels as they are written. Raises AssertionError."""
    assert text.endswith("\n"), "the last line does not end"
    samples, families = {}, {}
    lines = text[:-1].split("\n")
    at = 0
    while at < len(lines):
        told, typed = HELP.fullmatch(lines[at]), TYPE.fullmatch(lines[at + 1])
        assert told and typed and told[1] == typed[1], f"no family begins with {lines[at:at + 2]}"
        family, kind = typed.groups()
        assert family not in families, f"{family} is there twice"
        assert kind != "counter" or family.endswith("_total"), f"the counter {family} does not end in _total"
        families[family] = own = {}
        at += 2
        while at < len(lines) and not lines[at].startswith("#"):
            sample = SAMPLE.fullmatch(lines[at])
            assert sample and VALUE.fullmatch(sample[3]), f"not a sample: {lines[at]!r}"
            key = sample[1] + (f"{{{sample[2]}}}" if sample[2] else "")
            assert key not in own, f"{key} is there twice"
            suffix = sample[1].removeprefix(family)
            assert suffix in (("_bucket", "_sum", "_count") if kind == "histogram" else ("",)), f"{key} is not of {family}"
            own[key] = float(sample[3])
            at += 1
        assert own, f"{family} is empty"
        if kind == "counter":
            assert all(value >= 0 for value in own.values())
        if kind == "histogram":
            check_histogram(family, own)
        samples.update(own)
    return samples


def check_histogram(family, samples):
    buckets = [(float(re.search(r'le="([^"]+)"', key)[1]), value) for key, value in samples.items() if "_bucket" in key]
    assert buckets == sorted(buckets) and buckets[-1][0] == math.inf, f"the buckets of {family} do not grow"
    assert buckets[-1][1] == samples[f"{family}_count"], f"{family}_count is not the last bucket"
    assert f"{family}_sum" in samples
