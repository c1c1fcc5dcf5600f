"""The rows of the table: ways to train the model on a bed. Each has a plan or batches, and says how it is started."""
import collections
import json
import os
from dataclasses import dataclass, field

from cluster import OWN_FOLDER, cluster_text, finish
from faults import BedFault, Usage
from hosts import CONTROL

ROWS = {
    "alone": "fastest host alone",
    "torch-alone": "PyTorch, fastest host alone",
    "ddp-even": "PyTorch DDP, even batches",
    "ddp-hand": "PyTorch DDP, batches by speed",
    "even": "even data parallel",
    "proportional": "data parallel by speed",
    "plan": "the plan",
}
COLLECTIVES = {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "broadcast", "halo_exchange", "send"}
# The best plan at given shares that adds up and does nothing else between devices is data parallelism, where that pays.
# `hetsynth plan` tells what data parallelism takes in its report, by these names, but has no option to write that plan.
BASELINES = {"even": "even data parallel", "proportional": "speed-proportional data parallel"}
SAME_PLAN = 0.03  # Predictions that differ by more are of different plans; rounded shares make less of a difference.
ALL_REDUCE_ALONE = ["--forbid", "all_gather,reduce_scatter,all_to_all,broadcast,halo_exchange"]
FASTER_LINKS = [1, 10, 100, 1000]  # times as fast, until data parallelism pays
INFEASIBLE = 4  # exit code of `hetsynth plan`


@dataclass
class Row:
    key: str
    hosts: list
    cluster: str = ""  # files
    plan: str = ""
    batches: list = field(default_factory=list)  # of PyTorch, by host
    predicted: dict = field(default_factory=dict)
    why_not: str = ""  # why there is nothing to measure
    results: list = field(default_factory=list)  # by repeat

    @property
    def title(self):
        return ROWS.get(self.key, self.key)


def shares_of(total, weights):
    """`total` samples in whole numbers, as near to the weights as they go, at least one each."""
    exact = [total * weight / sum(weights) for weight in weights]
    out = [max(1, int(part)) for part in exact]
    while sum(out) != total:
        step = 1 if sum(out) < total else -1
        candidates = [i for i in range(len(out)) if step > 0 or out[i] > 1]
        if not candidates:
            raise Usage(f"a batch of {total} has no sample for each of {len(weights)} hosts", "a larger --batch")
        out[max(candidates, key=lambda i: step * (exact[i] - out[i]))] += step
    return out


def prediction(path):
    """What a plan file says of its step."""
    with open(path) as file:
        plan = json.load(file)
    told = plan["prediction"]
    devices = told["devices"]
    counts = collections.Counter(i["op"] for i in plan["decisions"]["instructions"] if i["op"] in COLLECTIVES)
    return {"step_seconds": told["step_seconds"],
            "compute_seconds": max(device["compute_seconds"] for device in devices),
            "memory_bytes": max(device["memory_bytes"] for device in devices),
            "communication_seconds": max(device["communication_seconds"] for device in devices),
            "collectives": dict(counts),
            "shares": {device["device"]: device["share"] for device in devices},
            "devices": [device["name"] for device in plan["devices"]],
            "baselines": {entry["name"]: entry["step_seconds"] for entry in told["baselines"] if entry["feasible"]}}


class Planner:
    """Makes the rows of a bed. `measured` and `links`: what cluster.py found."""

    def __init__(self, bed, options, folder, measured, links):
        self.bed, self.options, self.folder, self.measured, self.links = bed, options, folder, measured, links
        self.model_words = [word for value in options.set for word in ("--set", value)]
        if options.batch:
            self.model_words += ["--batch", str(options.batch)]
        # How fast each host is alone says what its part of the work should be.
        self.alone = {host.name: self.plan(f"alone-{host.name}", [host], []) for host in bed.hosts}
        # One that does not fit a host alone is planned by the quotas.
        fits = all(row.predicted for row in self.alone.values())
        self.speeds = [1 / self.alone[host.name].predicted["step_seconds"] if fits else host.quota
                       for host in bed.hosts]
        self.fastest = bed.hosts[self.speeds.index(max(self.speeds))]

    def plan(self, key, hosts, words, faster=1):
        """A row for the plan that `hetsynth plan` makes with these words, if links were so many times as fast."""
        kind = f"-links-x{faster}" if faster > 1 else ""
        row = Row(key, hosts, os.path.join(self.folder, f"{len(hosts)}-{hosts[0].name}{kind}.toml"),
                  os.path.join(self.folder, f"{key}{kind}.json"))
        with open(row.cluster, "w") as file:
            file.write(cluster_text(hosts, self.measured, self.links, faster))
        try:
            command = [self.options.hetsynth, "plan", self.options.model, "--cluster", row.cluster, "-o", row.plan]
            finish(self.bed.enter(CONTROL) + command + self.model_words + words, f"planning {key}")
        except BedFault as fault:
            if fault.code != INFEASIBLE:
                raise
            row.why_not = "does not fit"
            return row
        row.predicted = prediction(row.plan)
        # A plan leaves out hosts that do not pay. The device of a cluster of one host is called by its own name alone.
        used = {device.split(".")[0] for device in row.predicted["devices"]}
        row.hosts = [host for host in hosts if host.name in used] if len(hosts) > 1 else hosts
        return row

    def row(self, key):
        hosts = self.bed.hosts
        if key == "alone":
            row = self.alone[self.fastest.name]
            row.key = key
            return row
        if key == "plan":
            return self.plan(key, hosts, self.options.plan_option)
        if key in ("even", "proportional"):
            return self.data_parallel(key)
        used = [self.fastest] if key == "torch-alone" else hosts
        weights = self.speeds if key == "ddp-hand" else [1] * len(used)
        return Row(key, used, batches=shares_of(self.options.batch, weights))

    def data_parallel(self, key):
        """Where links are too slow for data parallelism to pay, its plan is that for faster ones."""
        ratio = [1] * len(self.bed.hosts) if key == "even" else [round(s / max(self.speeds), 4) for s in self.speeds]
        words = ["--ratio", ",".join(map(str, ratio))] + ALL_REDUCE_ALONE
        first = None
        for faster in FASTER_LINKS:
            row = self.plan(key, self.bed.hosts, words, faster)
            first = first or row
            baseline = row.predicted.get("baselines", {}).get(BASELINES[key])
            if not baseline:
                row.why_not = "does not fit"
                return row
            if abs(row.predicted["step_seconds"] / baseline - 1) < SAME_PLAN:
                return row if faster == 1 else self.taken_over(row, first, first.predicted["baselines"][BASELINES[key]])
        first.why_not = "the planner makes no such plan"
        return first

    @staticmethod
    def taken_over(row, other, step_seconds):
        """The plan of a row for the cluster of another one of the same devices, where it takes so long."""
        with open(row.plan) as file:
            plan = json.load(file)
        with open(other.plan) as file:
            plan["cluster"] = json.load(file)["cluster"]
        del plan["prediction"]  # It was of the other links.
        exposed = max(0, step_seconds - row.predicted["compute_seconds"])
        predicted = row.predicted | {"step_seconds": step_seconds, "communication_seconds": exposed}
        with open(other.plan, "w") as file:
            json.dump(plan, file)
        return Row(row.key, row.hosts, other.cluster, other.plan, predicted=predicted)

    def prepare(self, row):
        """Compiles the programs of a row at full speed, so that the hosts of the bed find them in the cache."""
        if row.plan and not row.why_not:
            words = self.bed.enter(CONTROL) + self.run_words(row) + ["--steps", "1"]
            finish(words, f"a step of {row.title} on one machine", cwd=self.folder)

    def run_words(self, row):
        return [self.options.hetsynth, "run", self.options.model, "--cluster", row.cluster, "--plan", row.plan,
                "--sample", "0"] + self.model_words + self.options.run_option

    def commands(self, row, log, python):
        """What is started at the same time to train a row once."""
        steps = str(self.options.steps)
        if row.plan:
            return [self.bed.mpirun(row.hosts) + self.run_words(row) + ["--steps", steps, "--log-json", log]]
        batches = ",".join(map(str, row.batches))
        words = ["env", "GLOO_SOCKET_IFNAME=eth0", python, os.path.join(OWN_FOLDER, "ddp_gpt.py"), "--batches", batches,
                 "--steps", steps, "--master", row.hosts[0].address, "--log", log]
        for value in self.options.set:
            name, _, number = value.partition("=")
            words += [f"--{name}", number]
        return [self.bed.enter(host.name) + words + ["--rank", str(rank)] for rank, host in enumerate(row.hosts)]
