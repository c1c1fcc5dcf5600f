"""`bed.py run`: measures a bed, plans for it, trains on it in every way in turn, and prints the table."""
import argparse
import math
import os
import shutil
import sys
import tempfile

from cluster import cluster_text, measure_links, probe_cores, probe_messages
from faults import BedFault, Usage
from rows import ROWS, Planner
import table
from torch_place import default_cache
from watch import Training

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GPT = os.path.join(PROJECT, "examples", "gpt.cpp")
GPT_BATCH = 48
GPT_OPTIONS = {"layers", "heads", "width", "seq"}  # those that ddp_gpt.py has too


def number_of(kind, least):
    """For argparse: text to a finite number that is not below `least`."""
    def convert(text):
        try:
            value = kind(text)
            if least <= value < math.inf:
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"{text!r} is no {'whole ' if kind is int else ''}number from {least} on")
    return convert


def add_run_options(parser):
    parser.add_argument("--model", default=GPT, help="model file; default: examples/gpt.cpp, with a batch of 48")
    parser.add_argument("--batch", type=number_of(int, 1), help="samples a step")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="an option of the model")
    parser.add_argument("--only", metavar="ROWS", help=f"rows of the table: {', '.join(ROWS)}; default: all")
    parser.add_argument("--repeats", type=number_of(int, 1), default=5,
                        help="times every row is measured, in turn; default: 5")
    parser.add_argument("--steps", type=number_of(int, 3), default=30, help="steps of a run; default: 30")
    parser.add_argument("--warmup", type=number_of(int, 1), default=5,
                        help="first steps of a run, which are left out; default: 5")
    parser.add_argument("--foreign", type=number_of(float, 0), default=0.25,
                        help="cores that others may use before a run is invalid; default: 0.25")
    parser.add_argument("--again", type=number_of(int, 0), default=0,
                        help="times an invalid run is made again before it is counted as such; default: 0")
    parser.add_argument("--start-seconds", type=number_of(float, 1), default=300,
                        help="how long a run may take to its first step; default: 300")
    parser.add_argument("--plan-option", action="append", default=[], metavar="WORD",
                        help="a word for `hetsynth plan` of the row `plan`: --plan-option=--mesh-axes=1")
    parser.add_argument("--run-option", action="append", default=[], metavar="WORD",
                        help="a word for `hetsynth run` of all rows")
    parser.add_argument("--hetsynth", metavar="FILE", help="the program; default: the newest build*/hetsynth")
    parser.add_argument("--cache", metavar="FOLDER", default=default_cache(),
                        help="where PyTorch is installed when a row needs it; default: ~/.cache/hetsynth-bed")
    parser.add_argument("--work", metavar="FOLDER",
                        help="keep cluster file, plans, logs and output here; default: a temporary folder")
    parser.add_argument("--out", metavar="FILE", help="write the table as JSON, or as CSV if the name ends so")
    parser.add_argument("--keep", action="store_true", help="leave the bed up afterwards")


def newest_program():
    found = [os.path.join(PROJECT, name, "hetsynth") for name in os.listdir(PROJECT) if name.startswith("build")]
    found = [path for path in found if os.access(path, os.X_OK)]
    if not found:
        raise Usage("there is no build*/hetsynth", "build it (scripts/setup hetsynth), or name it with --hetsynth")
    return max(found, key=os.path.getmtime)


def complete(options):
    """Checks the options before anything is made, fills in defaults; returns the rows that are wanted."""
    keys = options.only.split(",") if options.only else list(ROWS)
    for key in keys:
        if key not in ROWS:
            raise Usage(f"there is no row {key!r}", f"rows are {', '.join(ROWS)}")
    if options.warmup + 2 > options.steps:
        raise Usage(f"{options.steps} steps with the first {options.warmup} left out are no measurement",
                    "at least two steps more than --warmup")
    options.hetsynth = os.path.abspath(options.hetsynth) if options.hetsynth else newest_program()
    options.model = os.path.abspath(options.model)
    for path in (options.hetsynth, options.model):
        if not os.path.isfile(path):
            raise Usage(f"there is no file {path}")
    if options.out and not os.path.isdir(os.path.dirname(os.path.abspath(options.out))):
        raise Usage(f"{options.out} is in a folder that does not exist")
    if not shutil.which("mpirun"):
        raise BedFault("there is no mpirun on this machine", "install openmpi-bin (scripts/setup does)")
    is_gpt = os.path.basename(options.model) == "gpt.cpp"
    if is_gpt and not options.batch:
        options.batch = GPT_BATCH
    return [key for key in keys if not is_torch(key) or torch_can(options, is_gpt, asked=bool(options.only))]


def is_torch(key):
    return key.startswith(("torch", "ddp"))


def torch_can(options, is_gpt, asked):
    """Whether the script for PyTorch has the model. Throws Usage if it has not and its rows were asked for."""
    if is_gpt and all(value.partition("=")[0] in GPT_OPTIONS for value in options.set):
        return True
    if asked:
        raise Usage("the rows of PyTorch are of examples/gpt.cpp, with the options " + ", ".join(sorted(GPT_OPTIONS)),
                    "leave them out of --only")
    return False


def say(words):
    print(words, file=sys.stderr, flush=True)


def result_of(watched, hosts, repeat, limit):
    """One training in figures. Its parts by host, which are in the order of ranks, are of hetsynth's own clocks."""
    records = watched.records
    unit = next(key for key in records[0] if key.endswith("_per_second"))
    seconds = sum(record["seconds"] for record in records)
    work = sum(record[unit] * record["seconds"] for record in records)
    parts = {}
    for host, device in zip(hosts, records[0].get("idle", {})):
        waiting = sum(record["idle"][device] * record["seconds"] for record in records) / seconds
        computing = sum(record["compute_seconds"][device] for record in records) / seconds
        parts[host.name] = {"computing": computing, "waiting": waiting,
                            "communicating": max(0.0, 1 - waiting - computing)}
    return {"repeat": repeat, "unit": unit.removesuffix("_per_second"), "per_second": work / seconds,
            "step_seconds": seconds / len(records), "busy": watched.busy, "foreign_cores": watched.foreign,
            "valid": watched.foreign <= limit, "loss": records[-1]["loss"], "parts": parts,
            "memory_bytes": max(records[-1]["memory_bytes"].values()) if "memory_bytes" in records[-1] else None,
            "resident_bytes": watched.resident_bytes}


class Measurement:
    def __init__(self, bed, options, keys, folder, python):
        self.bed, self.options, self.keys, self.folder, self.python = bed, options, keys, folder, python
        self.rows = []

    def prepare(self):
        options = self.options
        say(f"measuring the cores and links of {len(self.bed.hosts)} hosts")
        cores = probe_cores(self.bed, options.hetsynth, self.folder)
        self.links = measure_links(self.bed)
        self.measured = probe_messages(self.bed, options.hetsynth, self.folder, cores, self.links)
        with open(os.path.join(self.folder, "cluster.toml"), "w") as file:
            file.write(cluster_text(self.bed.hosts, self.measured, self.links))
        say("planning, and compiling what is planned")
        planner = self.planner = Planner(self.bed, options, self.folder, self.measured, self.links)
        self.rows = [planner.row(key) for key in self.keys]
        for row in self.rows:
            planner.prepare(row)

    def train(self, row, repeat):
        """Adds one result to a row: the first that was not disturbed, or the least disturbed of all that were made."""
        results = []
        while len(results) <= self.options.again and not (results and results[-1]["valid"]):
            results.append(self.train_once(row, repeat))
        row.results.append(min(results, key=lambda result: result["foreign_cores"]))

    def train_once(self, row, repeat):
        place = os.path.join(self.folder, f"{row.key}-{repeat}")
        log = place + ".steps"
        if os.path.exists(log):
            os.remove(log)  # An earlier run's, which would be appended to.
        training = Training(self.bed, row.title, self.planner.commands(row, log, self.python), log, place + ".txt",
                            self.options.steps, self.options.warmup, self.options.start_seconds)
        result = result_of(training.run(), row.hosts, repeat, self.options.foreign)
        say(f"  {repeat + 1} of {self.options.repeats}  {row.title:<30} {result['step_seconds'] * 1e3:8.1f} ms a step"
            f"  other load {result['foreign_cores']:.2f}" + ("" if result["valid"] else "  INVALID"))
        return result

    def train_all(self):
        for repeat in range(self.options.repeats):
            for row in self.rows:
                if not row.why_not:
                    self.train(row, repeat)

    def summaries(self):
        base = next((row for row in self.rows if row.results), None)
        return [table.summary(row, base, self.bed.hosts) | {"repeats": row.results} for row in self.rows]

    def described(self):
        return {"hosts": [vars(host) | {"measured_link": self.links[host.name]} for host in self.bed.hosts],
                "core": self.measured, "model": self.options.model, "set": self.options.set,
                "batch": self.options.batch, "steps": self.options.steps, "warmup": self.options.warmup,
                "foreign_limit": self.options.foreign}

    def report(self):
        rows = self.summaries()
        print(table.text(rows, self.bed.hosts), end="", flush=True)
        if self.options.out:
            table.write(self.options.out, self.described(), rows)


def measure(bed, options, keys, python):
    """Measures and prints. `python`: the one that has PyTorch, if a row needs it."""
    folder = options.work or tempfile.mkdtemp(prefix="hetsynth-bed-")
    os.makedirs(folder, exist_ok=True)
    measurement = Measurement(bed, options, keys, os.path.abspath(folder), python)
    try:
        measurement.prepare()
        try:
            measurement.train_all()
        except BedFault:
            if any(row.results for row in measurement.rows):
                print("UNFINISHED: what was measured before the fault")
                measurement.report()
            raise
        measurement.report()
    finally:
        if not options.work:
            shutil.rmtree(folder, ignore_errors=True)
