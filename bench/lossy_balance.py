#!/usr/bin/env python3
"""A device of a run computes at a part of its planned speed: what a step takes without balancing, with other shares,
and with columns left out, in one go.

    bench/lossy_balance.py --hetsynth build/hetsynth --slow 0.5

Devices are threads that compute for a part of the time (`duty`), so that a few cores carry all of them; the cluster
file tells all of them to be equally fast, and the last one is not. All run the same plan. Runs of all modes follow one
another round by round; a mode's step is the median of the last half of its steps, and of the rounds.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GPT = ["examples/gpt.cpp", "--set", "layers=4", "--set", "width=256", "--set", "heads=4", "--set", "seq=64", "--batch",
       "8"]


def device(name, duty, told):
    """`told`: the duty that the plan believes in; its speeds are those of a whole core."""
    return (f'[[host.device]]\nname = "{name}"\nkind = "cpu"\nmemory = "2 GiB"\nduty = {duty}\n'
            f'declared = {{ matmul = "{50 * told / duty} GFLOP/s", memory_bandwidth = "{10 * told / duty} GB/s" }}\n')


def cluster_of(devices, duty, slow):
    names = [f"d{i}" for i in range(devices)]
    return ('name = "one-slow"\n[[host]]\ninside = { bandwidth = "5 GB/s", latency = "20 us" }\n'
            + "".join(device(name, duty * (slow if name == names[-1] else 1), duty) for name in names))


def words_of(mode):
    return ["--balance", "lossy", "--leave-out", mode] if "=" in mode else ["--balance", mode]


def run(options, cluster, mode, folder):
    log = os.path.join(folder, "log")
    if os.path.exists(log):
        os.remove(log)
    command = [options.hetsynth, "run", *GPT, "--cluster", cluster, "--plan", cluster + ".plan", "--steps",
               str(options.steps), "--sample", "0", "--log-json", log, *words_of(mode)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    if options.verbose:
        print("\n".join(line for line in done.stdout.splitlines() if line.startswith(("balance", "lossy"))), flush=True)
    records = [json.loads(line) for line in open(log)]
    steps = [record for record in records if "event" not in record][options.steps // 2:]
    left = [max(record["left_out"].values()) if "left_out" in record else 0.0 for record in steps]
    return statistics.median(s["seconds"] for s in steps), statistics.median(left)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hetsynth", default="build/hetsynth")
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--duty", type=float, default=0.25, help="of the devices that are as fast as planned")
    parser.add_argument("--slow", type=float, default=0.5, help="part of its speed that the last one has")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--modes", default="off,shares,lossy,d1=0.25,d1=0.5",
                        help="of --balance; one with an equals sign is for --leave-out")
    parser.add_argument("--plan-option", action="append", default=[], help="a word more for hetsynth plan (repeatable)")
    parser.add_argument("--verbose", action="store_true", help="print what balancing says")
    options = parser.parse_args()
    options.hetsynth = os.path.abspath(options.hetsynth)
    with tempfile.TemporaryDirectory() as folder:
        cluster, equal = os.path.join(folder, "cluster.toml"), os.path.join(folder, "equal.toml")
        for path, slow in ((cluster, options.slow), (equal, 1)):
            with open(path, "w") as file:
                file.write(cluster_of(options.devices, options.duty, slow))
            # Both are told the same speeds, and get the same plan.
            subprocess.run([options.hetsynth, "plan", *GPT, "--cluster", path, "-o", path + ".plan",
                            *options.plan_option], cwd=ROOT, check=True, capture_output=True)
        rows = [("as planned", equal, "off")] + [(mode, cluster, mode) for mode in options.modes.split(",")]
        seconds = {name: [] for name, _, _ in rows}
        parts = dict.fromkeys(seconds, 0.0)
        for _ in range(options.rounds):
            for name, file, mode in rows:
                step, left = run(options, file, mode, folder)
                seconds[name].append(step)
                parts[name] = max(parts[name], left)
    slow = statistics.median(seconds.get("off", seconds["as planned"]))
    print("| balancing | step | of that without | left out of the slow device |\n|---|---|---|---|")
    for name, _, _ in rows:
        step = statistics.median(seconds[name])
        spread = f"{1e3 * min(seconds[name]):.0f} to {1e3 * max(seconds[name]):.0f}"
        print(f"| {name} | {1e3 * step:.0f} ms ({spread}) | {step / slow:.2f} | {100 * parts[name]:.0f} % |")


if __name__ == "__main__":
    main()
