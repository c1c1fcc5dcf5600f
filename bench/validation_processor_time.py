#!/usr/bin/env python3
"""What a batch of validation costs against the forward pass of a training step, in the processor's time, which hardly
grows while others use the machine (bench/validation_cost.py takes the time of day, on a machine that is quiet).

    bench/validation_processor_time.py HETSYNTH MODEL CLUSTER TRAIN VALID [REPEATS]

Three runs take turns: one step, many steps, and as many with batches of validation between them. Differences of their
user seconds are those of a step and of a batch, on all devices together; the handing over of parameters, and the making
of batches, count with the batch. Which part of a step is the forward pass tells the trace of the last run, summed over
devices. Medians over the repeats.
"""
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile

STEPS, EVERY, BATCHES = 121, 20, 20


def forward_share(trace):
    """Of what the devices compute in the measured step."""
    events = json.load(open(trace))["traceEvents"]
    measured = {e["pid"] for e in events if e["name"] == "process_name" and " measured" in e["args"]["name"]}
    seconds = collections.defaultdict(float)
    for event in events:
        if event["pid"] in measured and event.get("tid") == 0 and "dur" in event:
            seconds[event.get("cat")] += event["dur"]
    return seconds["forward"] / sum(seconds.values())


def user_seconds(command):
    before = os.times().children_user
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return os.times().children_user - before


def main(hetsynth, model, cluster, train, valid, repeats=3):
    with tempfile.TemporaryDirectory() as folder:
        trace, log = os.path.join(folder, "trace.json"), os.path.join(folder, "log.json")
        run = [hetsynth, "run", model, "--cluster", cluster, "--data", train, "--sample", "0"]
        validating = ["--valid", valid, "--valid-every", str(EVERY), "--valid-batches", str(BATCHES)]
        at_the_end = ["--valid", valid, "--valid-every", "0", "--valid-batches", "1"]
        steps, batches, shares = [], [], []
        subprocess.run([*run, "--steps", "1", *validating], check=True, stdout=subprocess.DEVNULL)  # fills the cache
        for _ in range(int(repeats)):
            once = user_seconds([*run, "--steps", "1", *at_the_end])
            many = user_seconds([*run, "--steps", str(STEPS), *at_the_end])
            if os.path.exists(log):
                os.remove(log)
            with_valid = user_seconds([*run, "--steps", str(STEPS), *validating, "--trace", trace, "--log-json", log])
            measured = sum(json.loads(line).get("batches", 0) for line in open(log))
            steps.append((many - once) / (STEPS - 1))
            batches.append((with_valid - many) / (measured - 1))
            shares.append(forward_share(trace))
        share = statistics.median(shares)
        ratios = [batch / (share * step) for batch, step in zip(batches, steps)]
        print(f"user seconds: a step {1e3 * statistics.median(steps):.2f} ms, {100 * share:.1f} % of it forward, "
              f"a batch of validation {1e3 * statistics.median(batches):.2f} ms: {statistics.median(ratios):.3f} of the "
              f"forward pass ({', '.join(f'{ratio:.2f}' for ratio in ratios)})")


if __name__ == "__main__":
    if len(sys.argv) not in (6, 7):
        sys.exit(__doc__)
    main(*sys.argv[1:])
