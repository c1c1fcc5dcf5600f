#!/usr/bin/env python3
"""What a run's validation costs against the forward pass of its training step, and how long steps wait for data.

    hetsynth run MODEL --data DATA --valid OTHER --valid-every N --log-json LOG --trace TRACE ...
    bench/validation_cost.py LOG TRACE

A validation begins when the step before it ends, and ends when the next step begins: it includes the handing over of
parameters and the making of its batches. The forward pass is that of the step in the trace, on the rank that takes
longest. Figures of one device are the steadiest: ranks wait for one another on a machine that others use, too.
"""
import collections
import json
import statistics
import sys


def forward_seconds(trace):
    """Of the measured step; the planned one stands beside it in processes of its own."""
    events = json.load(open(trace))["traceEvents"]
    measured = {
        event["pid"] for event in events if event["name"] == "process_name" and " measured" in event["args"]["name"]
    }
    by_rank = collections.defaultdict(float)
    for event in events:
        if event.get("cat") == "forward" and event["pid"] in measured and event["tid"] == 0:
            by_rank[event["pid"]] += event["dur"] / 1e6
    return max(by_rank.values())


def main(log, trace):
    records = [json.loads(line) for line in open(log)]
    steps = {record["step"]: record for record in records if "event" not in record}
    batches, apart = [], []
    for record in records:
        before, after = steps.get(record["step"]), steps.get(record["step"] + 1)
        if record.get("event") != "validation" or not before or not after:
            continue
        seconds = after["elapsed_seconds"] - before["elapsed_seconds"] - after["seconds"]
        batches.append(seconds / record["batches"])
        apart.append(seconds - record["seconds"])
    waits = [max(step["data_seconds"].values()) / step["seconds"] for step in steps.values()]
    forward, batch = forward_seconds(trace), statistics.median(batches)
    print(f"step {statistics.median(step['seconds'] for step in steps.values()) * 1e3:.2f} ms", end=", ")
    print(f"its forward pass {forward * 1e3:.2f} ms, a batch of validation {batch * 1e3:.2f} ms", end=" ")
    print(f"({batch / forward:.3f} of it; parameters handed over in {statistics.median(apart) * 1e3:.2f} ms)", end="; ")
    print(f"a step waits {100 * statistics.median(waits):.3f} % for data")


if __name__ == "__main__":
    main(*sys.argv[1:3])
