#!/usr/bin/env python3
"""Trains under `hetsynth elastic` while hosts are killed, stopped and taken away at random moments, and are let back.

The hosts are processes of this machine that compute for a part of the time (`duty`), so that a few cores carry all of
them. The same run goes on undisturbed for as long first: what is reported is how many steps each of the two did,
whether a step was left out, and how far losses are apart. Exit code 1: a step was left out, a process stayed, or no
fault was made.

    bench/elastic_faults.py --minutes 5 --every 29
"""
import argparse
import glob
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = """#include "hetsynth/hetsynth.h"
using namespace hetsynth;
void model() {
  auto [x, labels] = synthetic_batch(option("batch", 960, "samples per step"), 64, 3);
  Tensor h = relu(matmul(x, parameter("w1", {64, 256}, normal(0.1))));
  h = dropout(relu(matmul(h, parameter("w2", {256, 256}, normal(0.1)))), 0.1);
  minimize(cross_entropy(matmul(h, parameter("w3", {256, 3}, normal(0.1))), labels), SGD{.learning_rate = 0.01});
}
"""
HOST = """[[host]]
name = "h{0}"
[[host.device]]
name = "d"
kind = "cpu"
memory = "1 GiB"
duty = {1}
declared = {{ matmul = "30 GFLOP/s", memory_bandwidth = "6 GB/s" }}
"""
# All hosts are this machine; a host does not answer while there is a file h1.away.
LAUNCHER = '#!/bin/sh\nn=$2; shift 4; exec mpirun --oversubscribe --bind-to none -np $n "$@"\n'


class Run:
    """`hetsynth elastic` in a folder of its own."""

    def __init__(self, folder, options):
        self.folder, self.options = folder, options
        os.makedirs(folder)
        # Processes are found by the name of the model.
        self.model = f"faults{os.getpid()}_{os.path.basename(folder)}.cpp"
        self.write(self.model, MODEL)
        self.write("cluster.toml", 'name = "faults"\nbetween = { bandwidth = "5 GB/s", latency = "1 us" }\n'
                   + "".join(HOST.format(i, options.duty) for i in range(options.hosts)))
        self.write("launch.sh", LAUNCHER)
        os.chmod(os.path.join(folder, "launch.sh"), 0o755)
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            [options.hetsynth, "elastic", self.model, "--cluster", "cluster.toml", "--launcher", "./launch.sh",
             "--alive", "test ! -e {}.away", "--ask-every", "1", "--checkpoint", "c.st", "--checkpoint-every",
             str(options.checkpoint_every), "--steps", "100000000", "--restarts", "100000", "--", "--sample", "0",
             "--log-json", "log"],
            cwd=folder, env=environment, stdout=open(os.path.join(folder, "out"), "w"),
            stderr=open(os.path.join(folder, "err"), "w"))

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as file:
            file.write(text)

    def wait_until_it_trains(self):
        while not os.path.exists(os.path.join(self.folder, "c.st")):
            if self.process.poll() is not None:
                sys.exit(f"the run did not start: see {self.folder}/err")
            time.sleep(0.1)
        self.began = time.monotonic()
        self.first = self.steps()[-1][0]

    def workers(self):
        pattern = rf"^{re.escape(self.options.hetsynth)} run {re.escape(self.model)}"
        found = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
        return [int(pid) for pid in found.stdout.split()]

    def steps(self):
        """Of the log: (step, loss), in the order in which they were done."""
        out = []
        with open(os.path.join(self.folder, "log")) as log:
            for line in log:
                if '"loss"' in line and line.endswith("\n"):
                    record = json.loads(line)
                    out.append((record["step"], record["loss"]))
        return out

    def settle(self):
        """Waits until steps are done again: a fault is not left in the middle."""
        for host in glob.glob(os.path.join(self.folder, "*.away")):
            os.remove(host)
        looks = [0]
        while len(looks) < 4 or len(set(looks[-4:])) < 4:
            time.sleep(0.5)
            looks.append(len(self.steps()))

    def end(self):
        self.seconds = time.monotonic() - self.began
        self.process.send_signal(signal.SIGINT)
        self.code = self.process.wait()
        done = self.steps()
        self.skipped = sum(b[0] > a[0] + 1 for a, b in zip(done, done[1:]))
        self.repeated = sum(max(0, a[0] + 1 - b[0]) for a, b in zip(done, done[1:]))
        self.losses = dict(done)
        self.rate = (done[-1][0] - self.first) / self.seconds
        with open(os.path.join(self.folder, "out")) as out:
            text = out.read()
        self.starts = len(re.findall(r"^elastic: start ", text, re.M))
        self.joins = len(re.findall(r"^elastic: the run goes on with ", text, re.M))
        self.left = self.workers()


def disturb(run, options):
    """Returns how often each fault was made."""
    chance = random.Random(options.seed)
    counts = {"kill": 0, "stop": 0, "away": 0}
    back = {}  # host: when
    end = time.monotonic() + 60 * options.minutes
    at = time.monotonic() + chance.expovariate(1 / options.every)
    while time.monotonic() < end:
        time.sleep(0.05)
        now = time.monotonic()
        for host in [host for host, when in back.items() if when < now]:
            os.remove(os.path.join(run.folder, host + ".away"))
            del back[host]
        if now < at:
            continue
        at = now + chance.expovariate(1 / options.every)
        kind, workers = chance.choice(list(counts)), run.workers()
        if not workers or (kind == "away" and len(back) + 1 >= options.hosts):
            continue
        counts[kind] += 1
        if kind == "away":
            host = chance.choice([name for name in (f"h{i}" for i in range(options.hosts)) if name not in back])
            run.write(host + ".away", "")
            back[host] = now + chance.uniform(*options.away)
        try:
            os.kill(chance.choice(workers), signal.SIGSTOP if kind == "stop" else signal.SIGKILL)
        except ProcessLookupError:  # it has just ended by itself
            pass
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=5, help="of each of the two runs; default: 5")
    parser.add_argument("--every", type=float, default=29, help="seconds between two faults, on average; default: 29")
    parser.add_argument("--away", type=float, nargs=2, default=[3, 10], help="seconds that a host is away: from, to")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--duty", type=float, default=0.1, help="part of a core's time that a host takes; default: 0.1")
    parser.add_argument("--checkpoint-every", type=int, default=50, help="steps; default: 50")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hetsynth", help="the program; default: the newest build*/hetsynth")
    options = parser.parse_args()
    built = sorted(glob.glob(os.path.join(ROOT, "build*", "hetsynth")), key=os.path.getmtime)
    options.hetsynth = os.path.realpath(options.hetsynth or built[-1]) if options.hetsynth or built else None
    if not options.hetsynth or not shutil.which("mpirun"):
        sys.exit("error: there is no build*/hetsynth, or no mpirun\n  to mend:  build it, or give --hetsynth")
    folder = tempfile.mkdtemp(prefix="hetsynth_faults_")
    runs = []
    try:
        for name in ("undisturbed", "disturbed"):
            run = Run(os.path.join(folder, name), options)
            runs.append(run)
            run.wait_until_it_trains()
            counts = {}
            if name == "disturbed":
                counts = disturb(run, options)
                run.settle()
            else:
                time.sleep(60 * options.minutes)
            run.end()
            print(f"{name}: {run.rate * run.seconds:.0f} steps in {run.seconds:.0f} s, {run.rate:.1f} a second; "
                  f"{run.starts} starts, {run.joins} of them with hosts that are back; {run.repeated} steps done again, "
                  f"{run.skipped} left out; " + (", ".join(f"{kind} {n}" for kind, n in counts.items()) or "no faults")
                  + f"; exit code {run.code}, {len(run.left)} processes left", flush=True)
    finally:
        for run in runs:
            if run.process.poll() is None:
                run.process.terminate()
                run.process.wait()
    calm, rough = runs
    both = sorted(set(calm.losses) & set(rough.losses))[-20:]
    apart = max(abs(calm.losses[s] - rough.losses[s]) for s in both)
    print(f"throughput: {100 * rough.rate / calm.rate:.1f} % of undisturbed; losses of steps {both[0]} to {both[-1]}: "
          f"{statistics.mean(rough.losses[s] for s in both):.4f} and {statistics.mean(calm.losses[s] for s in both):.4f} "
          f"undisturbed, {apart:.1e} apart at most")
    if not sum(counts.values()):
        print("no fault was made: give it more --minutes, or less time between faults with --every")
    good = sum(counts.values()) and not rough.skipped and not rough.left and rough.code == 7
    if good:
        shutil.rmtree(folder)
    else:
        print(f"what the runs wrote is kept in {folder}")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
