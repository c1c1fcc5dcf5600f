#!/usr/bin/env python3
"""Hosts of unequal speed on one machine, and what trains fastest on them (docs/benchmarks.md, "The unequal bed").

As root:
    bench/bed/bed.py run                      # makes a bed, measures, plans, trains, prints a table, removes it
    bench/bed/bed.py balance                  # one host becomes slower while a model trains, and fast again
    bench/bed/bed.py up --bed four             # a bed to work in by hand
    bench/bed/bed.py exec h0 COMMAND ...       # a command on one of its hosts
    bench/bed/bed.py mpirun COMMAND ...        # a process of it on every host
    bench/bed/bed.py down
"""
import argparse
import os
import signal
import subprocess
import sys
import time

if sys.version_info < (3, 11):
    print(f"error: [bed] this is Python {sys.version.split()[0]}, and 3.11 is needed", file=sys.stderr)
    sys.exit(77)

from balance import add_balance_options, balance, complete as complete_balance
from faults import BedFault, Stopped, Usage
from hosts import CONTROL, SIGNALS, Bed, check_machine, describe
from measure import add_run_options, complete, is_torch, measure
from torch_place import torch_python

BEDS = {  # Quotas of a core. All of a bed fit on two cores.
    "two": [0.6, 0.3],
    "four": [0.6, 0.5, 0.4, 0.3],
    "six": [0.5, 0.4, 0.3, 0.25, 0.2, 0.1],
}
UNITS = {"Gb/s": 1e9, "Mb/s": 1e6}


def quota_list(text):
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise Usage(f"{text!r} are no quotas", "numbers with commas between them: 0.6,0.5,0.4") from None


def link_list(text):
    out = []
    for part in text.split(","):
        for unit, factor in UNITS.items():
            if part.strip().endswith(unit):
                try:
                    out.append(float(part.strip()[:-len(unit)]) * factor)
                except ValueError:
                    pass
                break
    if len(out) != len(text.split(",")) or not all(1e7 <= bits <= 1e11 for bits in out):
        raise Usage(f"{text!r} are no links", "10 Mb/s to 100 Gb/s: 200Mb/s, or one for each host: 1Gb/s,1Gb/s,100Mb/s")
    return out


def hosts_of(options):
    return describe(quota_list(options.quotas) if options.quotas else BEDS[options.bed], link_list(options.links))


def add_shape(parser):
    named = "; ".join(f"{name}: {','.join(map(str, quotas))} of a core" for name, quotas in BEDS.items())
    parser.add_argument("--bed", choices=BEDS, default="four", help=f"{named}; default: four")
    parser.add_argument("--quotas", metavar="LIST", help="quotas of other hosts than the bed's: 0.9,0.45,0.45")
    parser.add_argument("--links", metavar="LIST", default="1Gb/s",
                        help="rate of all hosts' links in each direction, or a list by host: "
                             "1Gb/s,1Gb/s,200Mb/s,100Mb/s; default: 1Gb/s")


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name, help_text):
        out = commands.add_parser(name, help=help_text, description=help_text, allow_abbrev=False)
        out.add_argument("--name", default="bed", help="which bed; several may be up at once; default: bed")
        return out

    run_parser = command("run", "make a bed, train on it in several ways in turn, print a table, remove the bed")
    add_shape(run_parser)
    add_run_options(run_parser)
    balance_parser = command("balance", "make a bed, slow one of its hosts down while a model trains, print a table")
    add_shape(balance_parser)
    add_balance_options(balance_parser)
    add_shape(command("up", "make a bed, after removing one of that name"))
    command("down", "end all that runs on a bed, and remove it")
    command("ls", "the hosts of a bed")
    command("check", "whether beds can be made here; exit code 77 if not")
    on_host = command("exec", f"run a command on a host ({CONTROL}: the one without limits)")
    on_host.add_argument("host")
    on_host.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    command("mpirun", "run a command on every host under mpirun").add_argument(
        "words", nargs=argparse.REMAINDER, metavar="COMMAND")
    command("cut", "cut a host off, as if its cable were pulled").add_argument("host")
    command("mend", "undo cut").add_argument("host")
    command("guard", "remove the bed when standard input ends (used by run)")
    return parser.parse_args(arguments)


def become(launcher, words):
    if not words:
        raise Usage("there is no command to run")
    os.execvp(launcher[0], launcher + words)


def guard(bed):
    """Removes the bed if the command that made it dies without having done so, whatever killed it."""
    if sys.stdin.buffer.read() != b"done":
        bed.down()
        time.sleep(0.3)  # What that command had just started may have been made in the meantime.
        bed.down()


def start_guard(bed):
    """A process that watches this one. A signal that asks for the end lets it remove the bed, and then ends this one.

    A signal handler that raised an exception could do so anywhere in the standard library, and leave a lock behind.
    """
    watcher = subprocess.Popen([sys.executable, os.path.abspath(__file__), "guard", "--name", bed.name],
                               stdin=subprocess.PIPE, start_new_session=True)

    def stop(number, _):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        os.close(watcher.stdin.fileno())
        os.waitpid(watcher.pid, 0)
        os.write(2, b"stopped by a signal; the bed is removed\n")
        os._exit(128 + number)

    for number in SIGNALS:
        signal.signal(number, stop)
    return watcher


def run_in_bed(bed, options):
    """The rows of the table, trained in turn."""
    hosts, rows = hosts_of(options), complete(options)
    python = torch_python(options.cache) if any(map(is_torch, rows)) else ""
    while_up(bed, hosts, lambda: measure(bed, options, rows, python), options.keep)


def balance_in_bed(bed, options):
    hosts = hosts_of(options)
    complete_balance(options)
    while_up(bed, hosts, lambda: balance(bed, options))


def while_up(bed, hosts, work, keep=False):
    """A bed for as long as the work takes. It is removed whatever happens, unless `keep` says otherwise."""
    bed.lock()
    watcher = start_guard(bed)
    kept = False
    try:
        bed.up(hosts)
        work()
        kept = keep
    finally:
        if not kept:
            bed.down()
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        watcher.communicate(b"done")


def print_hosts(bed):
    for host in bed.load().hosts:
        print(f"{host.name}  {host.address}  {host.quota:g} of core {host.core}  {host.link_bits / 1e6:g} Mb/s")


def raise_stopped(number, _):
    raise Stopped(number)


def main(arguments):
    options = parse(arguments)
    if options.command == "guard":
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    if options.command not in ("ls", "exec", "mpirun", "guard"):
        check_machine()
    bed = Bed(options.name)
    if options.command == "run":
        run_in_bed(bed, options)
    elif options.command == "balance":
        balance_in_bed(bed, options)
    elif options.command == "up":
        bed.lock()
        for number in SIGNALS:
            signal.signal(number, raise_stopped)
        bed.up(hosts_of(options))
        print_hosts(bed)
    elif options.command == "down":
        bed.lock()
        bed.down()
    elif options.command == "ls":
        print_hosts(bed)
    elif options.command == "check":
        print("beds can be made here")
    elif options.command == "exec":
        become(bed.enter(options.host), options.words)
    elif options.command == "mpirun":
        become(bed.load().mpirun(bed.hosts), options.words)
    elif options.command in ("cut", "mend"):
        bed.set_link(options.host, "down" if options.command == "cut" else "up")
    elif options.command == "guard":
        guard(bed)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BedFault as fault:
        print(fault, file=sys.stderr)
        sys.exit(fault.code)
    except OSError as error:
        print(f"error: [bed] {error}", file=sys.stderr)
        sys.exit(1)
    except Stopped as stopped:
        print("stopped by a signal; the bed is removed", file=sys.stderr)
        sys.exit(stopped.code)
