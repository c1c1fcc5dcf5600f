"""`bed.py balance`: a host loses half of its quota while a model trains and gets it back; what balancing makes of it.

The same plan trains with and without balancing through the same changes, and beside it plans that were made for each of
the speeds train at that speed throughout: what balancing reaches is a part of what they do.
"""
import dataclasses
import json
import os
import shutil
import statistics
import tempfile

from cluster import measure_links, probe_cores, probe_messages
from faults import Usage
from measure import GPT, GPT_BATCH, newest_program, number_of, say
from rows import Planner
from watch import Training

SETTLING = 20  # Steps after a change that are not counted as those of the new division.
WARMUP = 12  # First steps of a run, the first look at speeds among them.


def add_balance_options(parser):
    parser.add_argument("--model", default=GPT, help="model file; default: examples/gpt.cpp, with a batch of 48")
    parser.add_argument("--batch", type=number_of(int, 1), help="samples a step")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the model")
    parser.add_argument("--host", default="h0", help="the host that changes; default: h0")
    parser.add_argument("--part", type=number_of(float, 0.05), default=0.5,
                        help="of its quota that is left; default: 0.5")
    parser.add_argument("--slow-at", type=number_of(int, 30), default=100, help="step of the loss; default: 100")
    parser.add_argument("--back-at", type=number_of(int, 60), default=400, help="step of the return; default: 400")
    parser.add_argument("--steps", type=number_of(int, 100), default=600, help="steps of a run; default: 600")
    parser.add_argument("--still-steps", type=number_of(int, 40), default=100,
                        help="steps of the runs in which nothing changes; default: 100")
    parser.add_argument("--repeats", type=number_of(int, 1), default=3, help="times all is done; default: 3")
    parser.add_argument("--mode", default="shares", choices=["shares", "plan"], help="of --balance; default: shares")
    parser.add_argument("--foreign", type=number_of(float, 0), default=0.25,
                        help="cores that others may use before a run is told to be invalid; default: 0.25")
    parser.add_argument("--start-seconds", type=number_of(float, 1), default=300,
                        help="how long a run may take to its first step; default: 300")
    parser.add_argument("--run-option", action="append", default=[], metavar="WORD", help="a word for `hetsynth run`")
    parser.add_argument("--hetsynth", metavar="FILE", help="the program; default: the newest build*/hetsynth")
    parser.add_argument("--work", metavar="FOLDER",
                        help="keep plans, logs and output here; default: a temporary folder")
    parser.add_argument("--out", metavar="FILE", help="write what was measured as JSON")


def complete(options):
    if not options.slow_at + 2 * SETTLING <= options.back_at <= options.steps - 2 * SETTLING:
        raise Usage(f"a loss at step {options.slow_at} and a return at {options.back_at} of {options.steps} steps "
                    "leave no steps to measure", f"at least {2 * SETTLING} steps between them, and after them")
    options.hetsynth = os.path.abspath(options.hetsynth) if options.hetsynth else newest_program()
    options.model = os.path.abspath(options.model)
    for path in (options.hetsynth, options.model):
        if not os.path.isfile(path):
            raise Usage(f"there is no file {path}")
    if os.path.basename(options.model) == "gpt.cpp" and not options.batch:
        options.batch = GPT_BATCH


class ChangingTraining(Training):
    """A training during which hosts change. `changes`: (step, quota) in order."""

    def __init__(self, host, changes, *arguments):
        super().__init__(*arguments)
        self.host, self.changes = host, list(changes)
        self.changed_at = []

    def at_step(self, count):
        while self.changes and count >= self.changes[0][0]:
            self.bed.groups.set_quota(self.host, self.changes.pop(0)[1])
            self.changed_at.append(count)


def seconds_of(records, first, last):
    """Mean seconds of the steps [first, last), with all that was done between them."""
    until = {record["step"]: record["elapsed_seconds"] for record in records}
    last = min(last, max(until) + 1)
    return (until[last - 1] - until[first - 1]) / (last - first)


class Balancing:
    def __init__(self, bed, options, folder):
        self.bed, self.options, self.folder = bed, options, folder
        names = [host.name for host in bed.hosts]
        if options.host not in names:
            raise Usage(f"there is no host {options.host!r}", "hosts are " + ", ".join(names))
        self.host = bed.hosts[names.index(options.host)]
        self.left = self.host.quota * options.part
        self.rounds = []

    def prepare(self):
        options, bed = self.options, self.bed
        options.plan_option = ["--mesh", str(len(bed.hosts))]
        say(f"measuring the cores and links of {len(bed.hosts)} hosts")
        cores = probe_cores(bed, options.hetsynth, self.folder)
        links = measure_links(bed)
        measured = probe_messages(bed, options.hetsynth, self.folder, cores, links)
        say("planning, and compiling what is planned")
        self.planner = Planner(bed, options, self.folder, measured, links)
        self.before = self.planner.plan("before", bed.hosts, options.plan_option)
        slower = [dataclasses.replace(host, quota=self.left) if host is self.host else host for host in bed.hosts]
        folder = os.path.join(self.folder, "slower")
        os.makedirs(folder, exist_ok=True)
        self.planner.folder = folder
        self.after = self.planner.plan("after", slower, options.plan_option)
        for row in (self.before, self.after):
            self.planner.prepare(row)

    def train(self, key, row, mode, changes, steps):
        options, place = self.options, os.path.join(self.folder, key)
        log = place + ".steps"
        if os.path.exists(log):
            os.remove(log)
        words = self.planner.run_words(row) + ["--balance", mode, "--steps", str(steps), "--log-json", log]
        training = ChangingTraining(self.host.name, changes, self.bed, key, [self.bed.mpirun(self.bed.hosts) + words],
                                    log, place + ".txt", steps, WARMUP, options.start_seconds)
        watched = training.run()
        say(f"  {key:<28} {1e3 * seconds_of(training.log.records, WARMUP, steps):8.1f} ms a step"
            f"  other load {watched.foreign:.2f}" + ("" if watched.foreign <= options.foreign else "  INVALID"))
        return training

    def one_round(self, number):
        options = self.options
        quota = self.bed.groups.set_quota
        changes = [(options.slow_at, self.left), (options.back_at, self.host.quota)]
        still, out = options.still_steps, {}
        quota(self.host.name, self.host.quota)
        fast = self.train(f"fast-{number}", self.before, "off", [], still)
        watched = self.train(f"watched-{number}", self.before, options.mode, [], still)
        balanced = self.train(f"balanced-{number}", self.before, options.mode, changes, options.steps)
        fixed = self.train(f"fixed-{number}", self.before, "off", changes, options.steps)
        quota(self.host.name, self.left)
        slow = self.train(f"slow-{number}", self.after, "off", [], still)
        quota(self.host.name, self.host.quota)
        out["fast"] = seconds_of(fast.log.records, WARMUP, still)
        out["slow"] = seconds_of(slow.log.records, WARMUP, still)
        out["watched"] = seconds_of(watched.log.records, WARMUP, still)
        for name, training in (("balanced", balanced), ("fixed", fixed)):
            records = training.log.records
            slow_at, back_at = training.changed_at
            out[name] = {"slow": seconds_of(records, slow_at + SETTLING, back_at),
                         "back": seconds_of(records, back_at + SETTLING, options.steps),
                         "slow_at": slow_at, "back_at": back_at, "events": training.log.events}
        self.rounds.append(out)

    def report(self):
        def median(value):
            return statistics.median(value(one) for one in self.rounds)

        def line(words, value):
            print(f"| {words} | {value} |")

        divisions = [event for one in self.rounds for event in one["balanced"]["events"]
                     if event["event"] == "division"]
        delays = [min((event["step"] - one["balanced"][when] for event in one["balanced"]["events"]
                       if event["event"] == "division" and event["step"] >= one["balanced"][when]), default=None)
                  for one in self.rounds for when in ("slow_at", "back_at")]
        print(f"\nmedians of {len(self.rounds)}: {self.host.name} at {self.options.part:g} of its quota from step "
              f"{self.options.slow_at} to {self.options.back_at}\n")
        print("| | |\n|---|---|")
        line("a step as planned for the full speeds", f"{1e3 * median(lambda one: one['fast']):.1f} ms")
        line("the same while watched, nothing happening", f"{1e3 * median(lambda one: one['watched']):.1f} ms")
        line("a step as planned for the lower speed", f"{1e3 * median(lambda one: one['slow']):.1f} ms")
        for name, words in (("balanced", f"--balance {self.options.mode}"), ("fixed", "the plan as it was")):
            line(f"{words}: while slow, from the {SETTLING}th step on",
                 f"{1e3 * median(lambda one: one[name]['slow']):.1f} ms, "
                 f"{100 * median(lambda one: one['slow'] / one[name]['slow']):.0f} % of the plan for it")
            line(f"{words}: when it is back, likewise",
                 f"{1e3 * median(lambda one: one[name]['back']):.1f} ms, "
                 f"{100 * median(lambda one: one['fast'] / one[name]['back']):.0f} % of the plan for it")
        line("steps from a change to the other division", ", ".join("never" if d is None else str(d) for d in delays))
        line("pauses", ", ".join(f"{1e3 * event['pause_seconds']:.0f} ms" for event in divisions) or "none")
        line("overhead of watching", f"{100 * median(lambda one: one['watched'] / one['fast'] - 1):.1f} %")
        if self.options.out:
            with open(self.options.out, "w") as file:
                json.dump(self.rounds, file, indent=1)


def balance(bed, options):
    folder = options.work or tempfile.mkdtemp(prefix="hetsynth-bed-")
    os.makedirs(folder, exist_ok=True)
    balancing = Balancing(bed, options, os.path.abspath(folder))
    try:
        balancing.prepare()
        for number in range(options.repeats):
            balancing.one_round(number)
        balancing.report()
    finally:
        if not options.work:
            shutil.rmtree(folder, ignore_errors=True)
