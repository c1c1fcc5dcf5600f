#!/usr/bin/env python3
"""bed_test.py HETSYNTH: the unequal bed in short. Two hosts train a tiny model and get the losses of one; the table has
its columns; a host that is cut off ends the run by name; nothing is left behind. Exit code 77 where no bed can be made.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

from faults import CANNOT
from groups import groups_of

BED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bed.py")
NAME = f"test-{os.getpid()}"
TINY = ["--bed", "two", "--batch", "64", "--warmup", "2", "--repeats", "1", "--foreign", "99", "--set", "layers=1",
        "--set", "width=64", "--set", "heads=2",
        # Other load may keep a process from its core for long.
        "--run-option=--patience", "--run-option=60"]
COLUMNS = ["row", "title", "unit", "per_second", "times", "step_seconds", "predicted_step_seconds",
           "predicted_to_measured", "predicted_memory_bytes", "memory_bytes", "resident_bytes", "foreign_cores", "runs",
           "valid_runs", "hosts", "loss", "collectives", "busy"]


def bed(command, *words):
    words = [sys.executable, BED, command, "--name", NAME, *words]
    return subprocess.run(words, text=True, capture_output=True, stdin=subprocess.DEVNULL)


def check(holds, what, *seen):
    if not holds:
        print("FAILED:", what, *seen, sep="\n")
        sys.exit(1)


def check_nothing_is_left():
    namespaces = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    check(NAME not in namespaces, "namespaces are removed", namespaces)
    check(not groups_of(NAME).members(), "groups are removed", groups_of(NAME).members())
    check(not os.path.exists(f"/run/hetsynth-bed/{NAME}"), "the folder of the bed is removed")


def losses(path):
    with open(path) as file:
        return [json.loads(line)["loss"] for line in file]


def trains_like_one_host(hetsynth, folder):
    done = bed("run", *TINY, "--steps", "8", "--hetsynth", hetsynth, "--only", "alone,even,plan", "--work", folder,
               "--out", os.path.join(folder, "table.json"))
    check(done.returncode == 0, "the run succeeds", done.stdout, done.stderr)
    check_nothing_is_left()
    with open(os.path.join(folder, "table.json")) as file:
        rows = {row["row"]: row for row in json.load(file)["rows"]}
    check(list(rows) == ["alone", "even", "plan"], "the rows are those that were asked for", rows)
    for row in rows.values():
        for column in COLUMNS:
            check(row.get(column) is not None, f"the row {row['row']} has the column {column}", row)
        check(row["title"] in done.stdout, "the row is printed", done.stdout)
    check(rows["alone"]["times"] == 1 and rows["even"]["hosts"] == ["h0", "h1"], "rows say who took part", rows)
    check(set(rows["even"]["collectives"]) == {"all_reduce"}, "data parallelism adds up gradients alone", rows["even"])
    one, two = losses(os.path.join(folder, "alone-0.steps")), losses(os.path.join(folder, "even-0.steps"))
    # Sums of float32 in another order; the losses are near 5.5.
    check(len(one) == len(two) == 8 and all(abs(a - b) < 1e-4 for a, b in zip(one, two)),
          "two hosts get the losses of one", one, two)


def ends_when_a_host_is_cut_off(hetsynth, folder):
    with open(os.path.join(folder, "cut.txt"), "w+") as told:
        run = subprocess.Popen([sys.executable, BED, "run", "--name", NAME, *TINY, "--steps", "1000000000",
                                "--hetsynth", hetsynth, "--only", "even", "--work", folder], stdout=told, stderr=told)
        try:
            log = os.path.join(folder, "even-0.steps")
            os.remove(log)  # The first run's.
            deadline = time.monotonic() + 120
            while run.poll() is None and time.monotonic() < deadline and not (os.path.exists(log) and losses(log)):
                time.sleep(0.1)
            cut = bed("cut", "h1")
            check(cut.returncode == 0, "a host can be cut off", cut.stderr)
            began = time.monotonic()
            code = run.wait(60)
        finally:
            run.terminate()
            run.wait()
        told.seek(0)
        text = told.read()
    print(f"a host that was cut off ended the run after {time.monotonic() - began:.1f} s")
    check(code == 1 and "error: [bed] even data parallel: host h1 cannot be reached any more" in text,
          "the fault is told", code, text)
    check_nothing_is_left()


def main(hetsynth):
    possible = bed("check")
    if possible.returncode == CANNOT:
        print("SKIPPED, as no bed can be made here:", possible.stderr, sep="\n")
        sys.exit(CANNOT)
    check(possible.returncode == 0, "the machine can be looked at", possible.stderr)
    with tempfile.TemporaryDirectory() as folder:
        try:
            trains_like_one_host(hetsynth, folder)
            ends_when_a_host_is_cut_off(hetsynth, folder)
        finally:
            bed("down")


if __name__ == "__main__":
    main(os.path.abspath(sys.argv[1]))
