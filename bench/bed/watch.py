"""Runs one training on a bed and watches it: how far it is, how busy the hosts are, and whether all are still there.

mpirun does not notice a host whose link was cut, so it is noticed here, and the processes are ended from outside.
"""
import ctypes
import json
import os
import socket
import subprocess
import threading
import time
from dataclasses import dataclass, field

from faults import BedFault
from hosts import CONTROL

POLL_SECONDS = 0.05
LOST_SECONDS = 4  # A host that does not answer for so long is lost. Its link may be full for a second.
GRACE_SECONDS = 8  # After the first process failed, for the others to end by themselves and say what they saw.
STALL_SECONDS, STALL_STEPS = 15, 10  # No step for so long, and for so many times as long as a step takes, is a stall.
CLONE_NEWNET = 0x40000000


class Heart(threading.Thread):
    """Knocks at every host from the control host, once in half a second. `silent` has since when a host is silent."""

    def __init__(self, bed, hosts):
        super().__init__(daemon=True)
        self.bed, self.hosts = bed, hosts
        self.silent = {}
        self.over = threading.Event()

    def run(self):
        # A thread can be in another network namespace than the others of its process.
        with open(f"/run/netns/{self.bed.namespace(CONTROL)}") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                return  # Cut links are then found by the steps that fail to come.
        while not self.over.wait(0.5):
            for host in self.hosts:
                if self.answers(host):
                    self.silent.pop(host.name, None)
                else:
                    self.silent.setdefault(host.name, time.monotonic())

    @staticmethod
    def answers(host):
        with socket.socket() as knock:
            knock.settimeout(1)
            try:
                knock.connect((host.address, 9))  # Nobody listens there: a host that is there refuses at once.
            except ConnectionRefusedError:
                return True
            except OSError:
                return False
            return True

    def lost(self, after=LOST_SECONDS):
        silent = dict(self.silent)
        return sorted(name for name, since in silent.items() if time.monotonic() - since >= after)


class StepLog:
    """The records that a training appends to its log: one JSON object a step, and one for all else that happens."""

    def __init__(self, path):
        self.path, self.offset, self.records, self.events = path, 0, [], []

    def read(self):
        try:
            with open(self.path, "rb") as file:
                file.seek(self.offset)
                lines = file.read()
        except FileNotFoundError:
            return 0
        whole = lines[:lines.rfind(b"\n") + 1]
        self.offset += len(whole)
        read = [json.loads(line) for line in whole.splitlines()]
        new = [record for record in read if "event" not in record]
        self.events += [record for record in read if "event" in record]
        self.records += new
        return len(new)


def machine_busy_seconds():
    """CPU time of all of this machine so far, what a hypervisor gave to others included."""
    with open("/proc/stat") as file:
        user, nice, system, _, _, interrupt, soft, steal = (int(word) for word in file.readline().split()[1:9])
    return (user + nice + system + interrupt + soft + steal) / os.sysconf("SC_CLK_TCK")


@dataclass
class Used:
    """What had been used at a moment: seconds of CPU time, of the machine, of the bed and of each host."""
    time: float
    machine: float
    bed: float
    hosts: dict

    @staticmethod
    def now(bed):
        groups = bed.groups
        # This process, which watches, counts as the bed's.
        return Used(time.monotonic(), machine_busy_seconds(), groups.used_seconds() + time.process_time(),
                     {host.name: groups.used_seconds(host.name) for host in bed.hosts})


@dataclass
class Watched:
    """One training: its steps after the first few, and what the machine did meanwhile."""
    records: list
    busy: dict = field(default_factory=dict)  # by host, the part of its quota that it used
    foreign: float = 0.0  # cores that others than the bed used
    resident_bytes: int = 0  # of the largest process, at its largest


def resident_bytes(groups):
    """Of the largest process of the bed, the most that it had in memory."""
    most = 0
    for pid in groups.processes():
        try:
            with open(f"/proc/{pid}/status") as file:
                most = max([most] + [int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:")])
        except OSError:
            pass  # The process has ended.
    return most


def tail(path, lines=15):
    try:
        with open(path, errors="replace") as file:
            return "".join("    " + line for line in file.readlines()[-lines:]).rstrip()
    except OSError:
        return ""


class Training:
    """`commands` run at the same time; together they make `steps` steps and write them to `log`."""

    def __init__(self, bed, title, commands, log, output, steps, warmup, start_seconds):
        self.bed, self.title, self.log, self.output = bed, title, StepLog(log), output
        self.commands, self.steps, self.warmup, self.start_seconds = commands, steps, warmup, start_seconds
        self.processes = []

    def fail(self, what, mend=""):
        raise BedFault(f"{self.title}: {what}\n  the end of its output:\n{tail(self.output)}", mend)

    def run(self):
        heart = Heart(self.bed, self.bed.hosts)
        heart.start()
        try:
            with open(self.output, "w") as output:
                for command in self.commands:
                    self.processes.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output,
                                                           stderr=output, start_new_session=True))
            return self.watch(heart)
        finally:
            heart.over.set()
            for process in self.processes:
                process.kill()  # It may not have joined its group yet.
            self.bed.groups.kill()
            for process in self.processes:
                process.wait()
            heart.join(3)

    def watch(self, heart):
        began = last_step = time.monotonic()
        # What was used before the steps that count, and after them. Where steps come faster than they are looked at,
        # all of the run stands for them.
        first, last = Used.now(self.bed), None
        resident, failed, warm = 0, None, False
        while True:
            ended = [process.poll() for process in self.processes]
            new = self.log.read()
            now = time.monotonic()
            if new:
                last_step = now
                count = len(self.log.records)
                if not warm and self.warmup <= count < self.steps:
                    first, warm = Used.now(self.bed), True
                elif count <= self.steps:
                    last = Used.now(self.bed)
                resident = max(resident, resident_bytes(self.bed.groups))
                self.at_step(count)
            if all(code == 0 for code in ended):
                break
            if lost := heart.lost():
                self.fail(f"host {', '.join(lost)} cannot be reached any more")
            if any(code not in (None, 0) for code in ended):
                failed = failed or now
                if None not in ended or now - failed > GRACE_SECONDS:
                    silent = heart.lost(after=0)
                    self.fail(f"it ended with exit code {next(code for code in ended if code)}" +
                              (f", and host {', '.join(silent)} does not answer" if silent else ""))
            self.check_progress(now, began, last_step)
            time.sleep(POLL_SECONDS)
        if len(self.log.records) != self.steps:
            self.fail(f"it ended after {len(self.log.records)} steps of {self.steps}")
        return self.watched(first, last or Used.now(self.bed), self.log.records[self.warmup:], resident)

    def at_step(self, count):
        """So many steps are done. For what is to happen during a training."""

    def check_progress(self, now, began, last_step):
        records = self.log.records
        if not records and now - began > self.start_seconds:
            self.fail(f"no step in {self.start_seconds:g} s", "give it longer: --start-seconds")
        if records:
            usual = sum(record["seconds"] for record in records) / len(records)
            limit = max(STALL_SECONDS, STALL_STEPS * usual)
            # After its last step a program may write and sum up for a while.
            if now - last_step > limit:
                self.fail(f"nothing happened for {limit:.0f} s after step {len(records)} of {self.steps}")

    def watched(self, first, last, records, resident):
        wall = last.time - first.time
        busy = {host.name: (last.hosts[host.name] - first.hosts[host.name]) / wall / host.quota
                for host in self.bed.hosts}
        foreign = (last.machine - first.machine - (last.bed - first.bed)) / wall
        return Watched(records, busy, max(0.0, foreign), resident)
