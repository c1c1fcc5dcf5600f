#!/usr/bin/env python3
"""Trains every model of examples/ for 20 steps on one core and says whether it learns.

    python3 bench/learning/learn.py --hetsynth build/hetsynth --markdown docs/learning.md
    python3 bench/learning/learn.py --hetsynth build/hetsynth --only VGG19 --print

Every example keeps its published architecture, its optimizer and its learning rate; what had to be made smaller for one
core and 12 GiB (the batch, the length of sequences, the size of images; layers only of what would not fit) stands in
models.py and in the table. A row that is done is kept in a file (--rows), one line of JSON each, so that the script can
be stopped at any time and goes on where it stood. A row is made anew when its example, the list's entry or the number
of steps has changed. Python 3.9 or later, no packages.
"""
import argparse
import hashlib
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import samples  # noqa: E402
from models import MODELS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS = 20
FIVE = 5
CLUSTER = """name = "one-core"

[[host]]
name = "here"

  [[host.device]]
  name = "core"
  kind = "cpu"
  memory = "12 GiB"
  declared = { matmul = "60 GFLOP/s", memory_bandwidth = "10 GB/s" }
"""


def changed_example(model):
    """The example's text with the published numbers that were made smaller replaced."""
    text = (ROOT / "examples" / model.file).read_text()
    for old, new in model.edits:
        if text.count(old) != 1:
            raise SystemExit(f"{model.file}: expected once: {old!r}; found {text.count(old)} times")
        text = text.replace(old, new)
    return text


def key_of(model, steps):
    """Changes with whatever the row depends on; comments in the example do not count."""
    code = " ".join(re.sub(r"//.*", "", changed_example(model)).split())
    parts = [code, repr(model.settings), repr(model.data), str(steps)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def train(model, program, steps):
    """Runs the model; returns a row."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        source = folder / model.file
        source.write_text(changed_example(model))
        cluster = folder / "one-core.toml"
        cluster.write_text(CLUSTER)
        log = folder / "log.jsonl"
        command = [program, "run", str(source), "--cluster", str(cluster), "--steps", str(steps), "--sample", "0",
                   "--effort", "quick", "--log-json", str(log)]
        for name, value in model.settings.items():
            command += ["--set", f"{name}={value}"]
        if model.data:
            samples.write(folder / "data", model.data)
            command += ["--data", f"npy:{folder / 'data'}"]
        run = subprocess.run(command, capture_output=True, text=True)
        lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        row = {"name": model.name, "losses": [], "seconds": 0, "memory": 0, "parameters": 0}
        # JSON has no infinity: hetsynth writes null for a loss that is not finite.
        row["losses"] = [line["loss"] if line["loss"] is not None else math.nan for line in lines]
        found = re.search(r"(\d+) parameters in", run.stdout)
        if found:
            row["parameters"] = int(found[1])
        if lines:
            times = sorted(line["seconds"] for line in lines)
            row["seconds"] = times[len(times) // 2]
            row["memory"] = max(line["resident_bytes"] for line in lines)
        if run.returncode < 0 or run.returncode == 7:
            raise SystemExit(f"{model.name}: stopped by a signal; its row is not kept")
        if run.returncode != 0:
            row["failure"] = f"exit {run.returncode}: " + (run.stderr.strip().splitlines() or ["no message"])[0][:300]
        return row


def spread(values):
    """Standard deviation of values around the straight line through them."""
    n = len(values)
    middle = (n - 1) / 2
    mean = sum(values) / n
    slope = sum((i - middle) * (v - mean) for i, v in enumerate(values)) / sum((i - middle) ** 2 for i in range(n))
    return math.sqrt(sum((v - mean - slope * (i - middle)) ** 2 for i, v in enumerate(values)) / (n - 2))


def judge(model, row, steps):
    """(verdict, mean of the first five losses, mean of the last five, noise of their difference)."""
    losses = row["losses"]
    if "failure" in row and not losses:
        return row["failure"], math.nan, math.nan, math.nan
    if len(losses) < steps or not all(math.isfinite(loss) for loss in losses):
        return "not finite: " + row.get("failure", f"{len(losses)} steps"), math.nan, math.nan, math.nan
    first, last = losses[:FIVE], losses[-FIVE:]
    a, b = sum(first) / FIVE, sum(last) / FIVE
    noise = math.sqrt((spread(first) ** 2 + spread(last) ** 2) / FIVE)
    if abs(losses[0] - model.expected) > model.band * model.expected:
        return "begins wrong", a, b, noise
    if a - b <= 2 * noise:
        return "does not fall", a, b, noise
    return "learns", a, b, noise


def count(number):
    if number >= 1e9:
        return f"{number / 1e9:.4g} B"
    return f"{number / 1e6:.4g} M" if number >= 1e6 else f"{number / 1e3:.4g} k"


def table(rows, steps):
    out = ["| model | parameters | made smaller | samples | expected | first loss | first five | last five | noise "
           "| last loss | s per step | verdict |",
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    for model in MODELS:
        row = rows.get(model.name)
        if row is None:
            expected = f"{model.why} = {model.expected:.3f}"
            out.append(f"| {model.name} | | {model.smaller} | | {expected} | | | | | | | not run yet |")
            continue
        verdict, a, b, noise = judge(model, row, steps)
        losses = row["losses"] or [math.nan]
        data = f"{model.data['note']}" if model.data else "synthetic" if not model.text else "text"
        out.append(f"| {model.name} | {count(row['parameters'])} | {model.smaller or '-'} | {data} "
                   f"| {model.why} = {model.expected:.3f} | {losses[0]:.3f} | {a:.3f} | {b:.3f} | {noise:.3f} "
                   f"| {losses[-1]:.3f} | {row['seconds']:.2g} | {verdict} |")
    return "\n".join(out)


def document(rows, steps, conditions):
    text = (pathlib.Path(__file__).parent / "document.md").read_text()
    learnt = sum(judge(m, rows[m.name], steps)[0] == "learns" for m in MODELS if m.name in rows)
    text = text.replace("{table}", table(rows, steps)).replace("{conditions}", conditions)
    return text.replace("{learnt}", str(learnt)).replace("{run}", str(sum(m.name in rows for m in MODELS)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hetsynth", default="build/hetsynth", help="the program")
    parser.add_argument("--rows", default=str(ROOT / "bench/learning/rows.jsonl"), help="where rows are kept")
    parser.add_argument("--markdown", help="write docs/learning.md here")
    parser.add_argument("--only", action="append", default=[], help="this model alone (repeatable)")
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--print", action="store_true", help="print the losses of every model")
    parser.add_argument("--write-only", action="store_true", help="run nothing, write what the rows have")
    parser.add_argument("--conditions", default="one core", help="said of the times")
    options = parser.parse_args()
    names = [m.name for m in MODELS]
    for name in options.only:
        if name not in names:
            raise SystemExit(f"no model is named {name!r}; there are {', '.join(names)}")

    kept = pathlib.Path(options.rows)
    rows = {}
    for line in kept.read_text().splitlines() if kept.exists() else []:
        row = json.loads(line)
        rows[row["name"]] = row  # of several the last counts
    current = {m.name: key_of(m, options.steps) for m in MODELS}
    rows = {name: row for name, row in rows.items() if current.get(name) == row["key"]}

    os.nice(19 - os.nice(0))
    failed = False
    for model in MODELS:
        if options.only and model.name not in options.only:
            continue
        if model.name not in rows and not options.write_only:
            if not os.access(options.hetsynth, os.X_OK):
                raise SystemExit(f"--hetsynth {options.hetsynth}: expected the program hetsynth, found nothing that can"
                                 " be run; build it first, or say where it lies")
            row = train(model, options.hetsynth, options.steps)
            row["key"] = current[model.name]
            with kept.open("a") as file:
                file.write(json.dumps(row) + "\n")
            rows[model.name] = row
        if model.name not in rows:
            continue
        verdict = judge(model, rows[model.name], options.steps)[0]
        failed |= verdict != "learns"
        row = rows[model.name]
        print(f"{model.name}: {verdict}; {row['seconds']:.2f} s a step, {row['memory'] / 2**30:.1f} GiB", flush=True)
        if options.print:
            print("  expected %.3f;" % model.expected, " ".join(f"{loss:.3f}" for loss in row["losses"]), flush=True)
        if options.markdown:
            pathlib.Path(options.markdown).write_text(document(rows, options.steps, options.conditions))
    if options.markdown:
        pathlib.Path(options.markdown).write_text(document(rows, options.steps, options.conditions))
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("stopped; rows that were done are kept, and the same command goes on from them")
