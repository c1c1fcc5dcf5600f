#!/usr/bin/env python3
"""What leaving columns out does to training: losses of the same steps without loss, and with a part of the columns of
one or two of four devices left out from the twelfth step to the last.

    bench/lossy_curves.py --hetsynth build/hetsynth --steps 2000

Every row is a run of `hetsynth run MODEL --balance lossy --leave-out d3=PART ...`, the first of a model one without.
The loss is the mean of a tenth of the steps up to there, that of validation what `--valid` measures at the end. Devices
are threads of this machine: their number and the plan decide what is left out, not how fast they are.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GPT = "examples/gpt.cpp --set layers=2 --set width=64 --set heads=4 --set seq=32 --batch 16".split()
VIT = "examples/vit.cpp --set size=tiny --set dropout=0 --set lr=4e-5 --batch 32".split()


def pins(names):
    return [word for name in names.split() for word in ("--pin", name)]


# As planned for four equal devices on fast links, which cuts the batch; and with layers cut over the devices.
MODELS = {
    "gpt": GPT,
    "gpt, layers cut": GPT + pins("x=replicated h=replicated x_2=replicated h_2=replicated query=sharded(2) "
                                  "hidden=sharded(2) query_2=sharded(2) hidden_2=sharded(2)"),
    "vit": VIT,
    "vit, layers cut": VIT + pins("x_2=replicated x_3=replicated x_4=replicated x_5=replicated hidden=sharded(2) "
                                  "hidden_2=sharded(2)"),
}
DEVICE = """[[host.device]]
name = "d{}"
kind = "cpu"
memory = "1 GiB"
declared = {{ matmul = "1 GFLOP/s", memory_bandwidth = "1 GB/s" }}
"""


def cluster_of(devices):
    return ('name = "lossy"\n[[host]]\ninside = { bandwidth = "50 GB/s", latency = "0.1 us" }\n'
            + "".join(DEVICE.format(i) for i in range(devices)))


class Runs:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.cluster = os.path.join(folder, "cluster.toml")
        with open(self.cluster, "w") as file:
            file.write(cluster_of(4))

    def run(self, model, words):
        log = os.path.join(self.folder, "log")
        if os.path.exists(log):
            os.remove(log)
        command = [self.options.hetsynth, "run", *MODELS[model], "--cluster", self.cluster, "--sample", "0", "--steps",
                   str(self.options.steps), "--log-json", log, *self.options.run_option]
        if self.options.valid:
            command += ["--valid", self.options.valid, "--valid-every", "0", "--valid-batches", "50"]
        done = subprocess.run(command + words, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command + words)}\n{done.stdout}{done.stderr}")
        losses = [record["loss"] for record in map(json.loads, open(log)) if "event" not in record]
        valid = re.search(r"validation loss ([\d.]+)", done.stdout.splitlines()[-1])
        left = re.search(r"in all the work of ([\d.]+)", done.stdout)
        return {"losses": losses, "valid": float(valid.group(1)) if valid else None,
                "work": float(left.group(1)) / self.options.steps if left else 0.0}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hetsynth", default="build/hetsynth")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--models", default=";".join(MODELS), help="with semicolons between them")
    parser.add_argument("--parts", default="0.1,0.25,0.5")
    parser.add_argument("--stragglers", default="1,2")
    parser.add_argument("--valid", help="data for the loss of validation")
    parser.add_argument("--run-option", action="append", default=[], help="a word more for hetsynth run (repeatable)")
    parser.add_argument("--json", help="file for all losses")
    options = parser.parse_args()
    options.hetsynth = os.path.abspath(options.hetsynth)
    every = {}
    columns = ["model", "slow devices", "left out of each", "of all products", "loss after a quarter", "half",
               "all steps", "difference", "validation"]
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|")
    with tempfile.TemporaryDirectory() as folder:
        runs = Runs(options, folder)
        for model in options.models.split(";"):
            best = None
            for count, part in [(0, 0.0)] + [(int(n), float(p)) for n in options.stragglers.split(",")
                                             for p in options.parts.split(",")]:
                words = [word for i in range(count) for word in ("--leave-out", f"d{3 - i}={part}")]
                out = runs.run(model, ["--balance", "lossy", *words] if count else [])
                every[f"{model} {count} {part}"] = out
                losses, tenth = out["losses"], max(1, options.steps // 10)
                at = [statistics.mean(losses[max(0, n - tenth):n]) for n in
                      (options.steps // 4, options.steps // 2, options.steps)]
                best = best or at[-1]
                row = [model, str(count), f"{100 * part:.0f} %", f"{100 * out['work']:.1f} %",
                       *(f"{loss:.4f}" for loss in at), f"{at[2] - best:+.4f}",
                       "" if out["valid"] is None else f"{out['valid']:.4f}"]
                print(f"| {' | '.join(row)} |", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(every, file)


if __name__ == "__main__":
    main()
