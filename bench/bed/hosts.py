"""A bed: hosts of unequal speed on one machine, joined by links of limited rate.

    host h0: network namespace, control group         switch: a namespace with a bridge
      eth0 10.77.0.1 -- tc tbf -->  veth pair  <-- tc tbf -- h0 --+
    host h1                                                       +-- bridge -- ctl: where launchers run, not limited
      eth0 10.77.0.2 -- tc tbf -->  veth pair  <-- tc tbf -- h1 --+

All of it is named after the bed and lies in namespaces of its own, so that beds, and a bed and the machine's network,
do not touch. `Bed.down` finds what is to be removed by these names, whatever became of the command that made it.
"""
import fcntl
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, dataclass

from faults import BedFault, CannotMakeBeds, Usage
from groups import groups_of

NETWORK = "10.77.0.0/24"
CONTROL = "ctl"  # The host that has no quota and no limit of its link.
FULLEST_CORE = 0.95  # A core whose hosts may use all of it has nothing left for the kernel's share of the network.
LEAST_BURST = 16_000  # bytes
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
STATE = "/run/hetsynth-bed"
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux", "unshare": "util-linux", "taskset": "util-linux"}


@dataclass
class Host:
    name: str
    address: str
    quota: float  # of one core
    link_bits: float  # a second, in each direction
    core: int


def run(*words, allow_failure=False):
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode and not allow_failure:
        raise BedFault(f"`{' '.join(words)}` failed: {done.stderr.strip() or done.returncode}")
    return done


def place_on_cores(quotas, cores):
    """By host, its core: the largest quota first, onto the core that has the least. Throws Usage where that is full."""
    load = [0.0] * cores
    out = [0] * len(quotas)
    for i in sorted(range(len(quotas)), key=lambda i: -quotas[i]):
        out[i] = min(range(cores), key=lambda core: load[core])
        load[out[i]] += quotas[i]
    if max(load) > FULLEST_CORE + 1e-9:
        raise Usage(f"hosts of {' + '.join(f'{q:g}' for q in quotas)} cores do not fit on {cores} cores, "
                    f"each filled up to {FULLEST_CORE:g}", "smaller quotas, or fewer hosts")
    return out


def describe(quotas, links):
    """The hosts of these quotas (cores) and links (bits a second)."""
    if not 2 <= len(quotas) <= 64:
        raise Usage(f"a bed has 2 to 64 hosts, not {len(quotas)}")
    if any(not 0.1 <= quota <= 1 for quota in quotas):
        raise Usage("a quota is 0.1 to 1 of a core")
    if len(links) == 1:
        links = links * len(quotas)
    if len(links) != len(quotas):
        raise Usage(f"{len(links)} links for {len(quotas)} hosts", "give one link for all, or one for each host")
    cores = place_on_cores(quotas, len(os.sched_getaffinity(0)))
    usable = sorted(os.sched_getaffinity(0))
    return [Host(f"h{i}", f"10.77.0.{i + 1}", quotas[i], links[i], usable[cores[i]]) for i in range(len(quotas))]


def check_machine():
    """Throws CannotMakeBeds if no bed can be made here, with the reason."""
    if os.geteuid() != 0:
        raise CannotMakeBeds("only root can make network namespaces", "run it as root")
    for tool, package in TOOLS.items():
        if not shutil.which(tool):
            raise CannotMakeBeds(f"there is no `{tool}` on this machine", f"install {package}")
    trial = ("ip link add br0 type bridge && ip link add port0 type veth peer name port1 && "
             "tc qdisc add dev port0 root tbf rate 1gbit burst 250000 latency 200ms")
    done = run("unshare", "--net", "--uts", "sh", "-ec", trial, allow_failure=True)
    if done.returncode:
        raise CannotMakeBeds(f"a namespace with a bridge and a limited link cannot be made: {done.stderr.strip()}",
                             "the kernel needs bridge, veth and sch_tbf; a container needs CAP_SYS_ADMIN and "
                             "CAP_NET_ADMIN")
    groups = groups_of("trial")
    for root in groups.roots():
        if not os.access(root, os.W_OK) or os.statvfs(root).f_flag & os.ST_RDONLY:
            raise CannotMakeBeds(f"the control groups in {root} cannot be written to",
                                 "a container needs them mounted for writing")


class Bed:
    def __init__(self, name):
        if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,23}", name):
            raise Usage(f"a bed cannot be called {name!r}", "use up to 24 small letters, digits and dashes")
        self.name = name
        self.folder = os.path.join(STATE, name)
        self.groups = groups_of(name)
        self.hosts = []

    # ----- names -----

    def namespace(self, host):
        return f"hetsynth-bed.{self.name}.{host}"  # A bed's name has no dot, so that none is the beginning of another.

    def enter(self, host):
        """The command that runs the words behind it on a host."""
        path = os.path.join(self.folder, f"enter-{host}")
        if not os.path.exists(path):
            raise Usage(f"the bed {self.name!r} has no host {host!r}" if self.is_up() else
                        f"there is no bed {self.name!r}", "`bed.py up` makes one, `bed.py ls` shows its hosts")
        return [path]

    def is_up(self):
        return os.path.exists(os.path.join(self.folder, "bed.json"))

    def load(self):
        """What a bed that is up consists of."""
        if not self.is_up():
            raise Usage(f"there is no bed {self.name!r}", "make it: bed.py up")
        with open(os.path.join(self.folder, "bed.json")) as file:
            self.hosts = [Host(**entry) for entry in json.load(file)]
        return self

    # ----- making and removing -----

    def lock(self):
        """Keeps the bed to this process until it ends. Throws BedFault if another one has it."""
        os.makedirs(STATE, exist_ok=True)
        self.lock_file = open(os.path.join(STATE, f"{self.name}.lock"), "w")
        try:
            fcntl.flock(self.lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BedFault(f"the bed {self.name!r} is in use by another command",
                           "wait for it, or take another name: --name") from None

    def up(self, hosts):
        """Makes the bed; what an earlier one of this name left is removed first. Leaves nothing behind if it fails.

        Signals wait until all is there: what is just being made could not be found to be removed.
        """
        self.down()
        self.hosts = hosts
        held = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            os.makedirs(os.path.join(self.folder, "tmp"))
            self.groups.make()
            self.make_switch()
            self.add(Host(CONTROL, "10.77.0.254", None, None, None))
            for host in hosts:
                self.add(host)
            self.write_agent()
            with open(os.path.join(self.folder, "bed.json"), "w") as file:
                json.dump([asdict(host) for host in hosts], file)
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        except OSError as error:
            self.down()
            raise BedFault(f"the bed cannot be made: {error}") from error
        except BaseException:
            self.down()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def make_switch(self):
        switch = self.namespace("switch")
        run("ip", "netns", "add", switch)
        run("ip", "-n", switch, "link", "set", "lo", "up")
        # Without a delay a port forwards as soon as it is there.
        run("ip", "-n", switch, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
        run("ip", "-n", switch, "link", "set", "br0", "up")

    def add(self, host):
        own, switch = self.namespace(host.name), self.namespace("switch")
        run("ip", "netns", "add", own)
        run("ip", "-n", switch, "link", "add", host.name, "type", "veth", "peer", "name", "eth0", "netns", own)
        run("ip", "-n", switch, "link", "set", host.name, "master", "br0", "up")
        for interface in ("lo", "eth0"):
            run("ip", "-n", own, "link", "set", interface, "up")
        run("ip", "-n", own, "addr", "add", f"{host.address}/24", "dev", "eth0")
        if host.link_bits is not None:
            for namespace, interface in ((own, "eth0"), (switch, host.name)):
                self.limit_link(namespace, interface, host.link_bits)
        # BBR, the default of many machines, is 10 to 20 % slower behind a token bucket.
        run("nsenter", f"--net=/run/netns/{own}", "sh", "-c",
            "echo reno > /proc/sys/net/ipv4/tcp_congestion_control", allow_failure=True)
        self.groups.add(host.name, host.quota)
        self.write_enter(host)

    @staticmethod
    def limit_link(namespace, interface, bits):
        # 2 ms of the rate, and no less than a large packet: less, and the rate is not reached.
        burst = max(LEAST_BURST, int(bits / 8 * 0.002))
        run("tc", "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", "rate", f"{int(bits)}bit", "burst",
            str(burst), "latency", "200ms")

    def write_enter(self, host):
        """A script that joins the groups, the namespaces and the core of a host, and becomes the command."""
        join = "".join(f"echo $$ > {shlex.quote(path)} && " for path in self.groups.process_files(host.name))
        pin = f"taskset -c {host.core} " if host.core is not None else ""
        inner = f'echo {host.name} > /proc/sys/kernel/hostname && exec "$@"'
        self.write_script(f"enter-{host.name}",
                          f"{join}exec nsenter --net=/run/netns/{self.namespace(host.name)} {pin}unshare --uts "
                          f"sh -c {shlex.quote(inner)} {host.name} \"$@\"")

    def write_agent(self):
        """Open MPI calls it as it would call ssh: with a host, which is an address, and a command line."""
        cases = "".join(f"  {host.address}|{host.name}) host={host.name} ;;\n" for host in self.hosts)
        self.write_script("agent", f'case $1 in\n{cases}  *) echo "there is no host $1 in the bed" >&2; exit 255 ;;\n'
                                   f"esac\nshift\nexec {shlex.quote(self.folder)}/enter-$host /bin/sh -c \"$*\"")

    def write_script(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as file:
            file.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)

    def down(self):
        """Ends all processes of the bed and removes all of it, as far as it is there. Signals wait until it is done."""
        held = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            self.groups.kill()
            prefix = self.namespace("")
            for line in run("ip", "netns", "list").stdout.splitlines():
                namespace = line.split()[0]
                if namespace.startswith(prefix):
                    self.remove_namespace(namespace)
            self.groups.remove()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.hosts = []
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    @staticmethod
    def remove_namespace(namespace):
        # Somebody may have entered it without joining the group.
        for pid in run("ip", "netns", "pids", namespace, allow_failure=True).stdout.split():
            try:
                os.kill(int(pid), signal.SIGKILL)
            except ProcessLookupError:
                pass
        for attempt in range(50):
            if run("ip", "netns", "del", namespace, allow_failure=attempt < 49).returncode == 0:
                return
            time.sleep(0.02)

    # ----- faults on purpose -----

    def set_link(self, host, state):
        """Cuts a host off (`down`) or joins it again (`up`)."""
        self.enter(host)
        run("ip", "-n", self.namespace("switch"), "link", "set", host, state)

    # ----- launching -----

    def mpirun(self, hosts):
        """The words that start a program on these hosts, one process each; its own words follow."""
        return self.enter(CONTROL) + [
            "env", f"TMPDIR={self.folder}/tmp", "mpirun", "--allow-run-as-root", "--bind-to", "none",
            "--mca", "plm", "rsh", "--mca", "plm_rsh_agent", f"{self.folder}/agent",
            "--mca", "oob_tcp_if_include", NETWORK, "--mca", "pml", "ob1", "--mca", "btl", "self,tcp",
            "--mca", "btl_tcp_if_include", NETWORK, "--host", ",".join(f"{host.address}:1" for host in hosts),
            "-np", str(len(hosts))]
