"""Control groups of a bed: one for each host, with a quota of CPU time, below one for the whole bed.

Version 1 has a hierarchy for quotas (cpu) and one that counts (cpuacct), which may be mounted together or apart;
version 2 has one for both. Only folders `hetsynth-bed-NAME` are made, written to and removed; the uppermost group of
version 2 is told to hand the controller `cpu` down, where it does not yet.
"""
import os
import re
import signal
import time

from faults import BedFault, CannotMakeBeds

PERIOD_US = 10_000  # Short, so that a host works evenly: with 100 ms a product of 20 ms takes up to 1.6 times as long.
LEAST_QUOTA_US = 1_000  # The kernel refuses less.


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()


class Groups:
    """The groups of the bed `name`; a host's group has the host's name."""

    def __init__(self, name):
        self.folder = f"hetsynth-bed-{name}"

    def make(self):
        """The group of the whole bed. It outweighs what else runs on the machine, as far as the kernel lets it."""
        for root in self.roots():
            os.makedirs(os.path.join(root, self.folder), exist_ok=True)

    def add(self, host, quota):
        """A group that may use `quota` of a core, or as much as it likes if that is None."""
        for root in self.roots():
            os.mkdir(os.path.join(root, self.folder, host))
        if quota is not None:
            self.set_quota(host, quota)

    def set_quota(self, host, quota):
        """Gives a host another part of a core, while it works."""
        self.limit(os.path.join(self.roots()[0], self.folder, host), max(LEAST_QUOTA_US, round(quota * PERIOD_US)))

    def process_files(self, host):
        """Who writes its process id into all of these has joined the group."""
        return [os.path.join(root, self.folder, host, "cgroup.procs") for root in self.roots()]

    def members(self):
        """Folders of the bed's groups, from the bottom up."""
        out = []
        for root in self.roots():
            top = os.path.join(root, self.folder)
            if os.path.isdir(top):
                out += [entry.path for entry in os.scandir(top) if entry.is_dir()] + [top]
        return out

    def processes(self, host=None):
        """Ids of all processes of the bed, or of one host."""
        out = set()
        for folder in self.members():
            if host is None or os.path.basename(folder) == host:
                try:
                    out.update(int(pid) for pid in read(os.path.join(folder, "cgroup.procs")).split())
                except OSError:
                    pass  # The folder went away in the meantime.
        return out

    def kill(self):
        """Ends all processes of the bed. Those that are being started join in the meantime, so it is done again."""
        deadline = time.monotonic() + 5
        while pids := self.processes():
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if time.monotonic() > deadline:
                raise BedFault(f"processes {sorted(pids)} of the bed do not end after SIGKILL")
            time.sleep(0.01)

    def remove(self):
        deadline = time.monotonic() + 5
        while folders := self.members():
            for folder in folders:
                try:
                    os.rmdir(folder)
                except OSError as error:
                    # A group stays busy for a moment after its last process has ended.
                    if time.monotonic() > deadline:
                        raise BedFault(f"the control group {folder} cannot be removed: {error.strerror}") from error
            time.sleep(0.01)


class Version1(Groups):
    def __init__(self, name, cpu, account):
        super().__init__(name)
        self.cpu, self.account = cpu, account

    def roots(self):
        return [self.cpu] if os.path.realpath(self.cpu) == os.path.realpath(self.account) else [self.cpu, self.account]

    def make(self):
        super().make()
        write(os.path.join(self.cpu, self.folder, "cpu.shares"), "262144")

    def limit(self, folder, quota_us):
        write(os.path.join(folder, "cpu.cfs_period_us"), str(PERIOD_US))
        write(os.path.join(folder, "cpu.cfs_quota_us"), str(quota_us))

    def used_seconds(self, host=""):
        return int(read(os.path.join(self.account, self.folder, host, "cpuacct.usage"))) / 1e9


class Version2(Groups):
    def __init__(self, name, root):
        super().__init__(name)
        self.root = root

    def roots(self):
        return [self.root]

    def make(self):
        # A group hands its controllers down only if it is told to. One that has processes of its own refuses.
        self.hand_down_cpu(self.root)
        super().make()
        write(os.path.join(self.root, self.folder, "cpu.weight"), "10000")
        self.hand_down_cpu(os.path.join(self.root, self.folder))

    @staticmethod
    def hand_down_cpu(folder):
        path = os.path.join(folder, "cgroup.subtree_control")
        if "cpu" in read(path).split():
            return
        try:
            write(path, "+cpu")
        except OSError as error:
            raise CannotMakeBeds(
                f"the control group {folder} does not let its children have CPU quotas: {error.strerror}",
                "give this machine or container the controller `cpu`; a group that hands it down has no processes") \
                from error

    def limit(self, folder, quota_us):
        write(os.path.join(folder, "cpu.max"), f"{quota_us} {PERIOD_US}")

    def used_seconds(self, host=""):
        for line in read(os.path.join(self.root, self.folder, host, "cpu.stat")).splitlines():
            key, _, value = line.partition(" ")
            if key == "usage_usec":
                return int(value) / 1e6
        raise BedFault("the control group does not say how much CPU time it used")


def groups_of(name, mounts_file="/proc/self/mounts"):
    """The groups of this machine, of version 1 where that one has the controller `cpu`. Throws CannotMakeBeds."""
    by_controller, unified = {}, []
    for line in read(mounts_file).splitlines():
        _, folder, kind, options = line.split()[:4]
        folder = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal.group(1), 8)), folder)
        if kind == "cgroup":
            for option in options.split(","):
                by_controller.setdefault(option, folder)
        elif kind == "cgroup2":
            unified.append(folder)
    if "cpu" in by_controller:
        if "cpuacct" not in by_controller:
            raise CannotMakeBeds("control groups of version 1 are mounted without cpuacct, which counts CPU time",
                                 "mount it: mount -t cgroup -o cpuacct cgroup /sys/fs/cgroup/cpuacct")
        return Version1(name, by_controller["cpu"], by_controller["cpuacct"])
    for root in unified:
        try:
            if "cpu" in read(os.path.join(root, "cgroup.controllers")).split():
                return Version2(name, root)
        except OSError:
            pass
    raise CannotMakeBeds("there is no control group with the controller `cpu`, which gives hosts their speeds",
                         "mount control groups; in a container, let it have a cgroup namespace that can be written to")
