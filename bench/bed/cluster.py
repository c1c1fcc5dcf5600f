"""Measures a bed and describes it as a cluster file.

`hetsynth probe` measures what this machine's cores deliver, all that the bed uses at the same time. It is run outside
of the quotas, and what it found is multiplied by each host's quota: a quota lets short work run at full speed until it
is used up, so that inside of it the median of many short calls, which is what probe takes, is that of a whole core.
Links between hosts are measured here, over TCP, outside of hetsynth. What messages cost a core `hetsynth probe --links`
measures on the hosts, in seconds of processors, which quotas do not change.
"""
import json
import os
import re
import subprocess
import sys
import tomllib

from faults import BedFault
from hosts import CONTROL, LEAST_BURST

OWN_FOLDER = os.path.dirname(os.path.abspath(__file__))
HOST_MEMORY = "2 GiB"  # Declared: nothing limits what a host of the bed uses.
FASTER_THAN_POSSIBLE = 1.05


def finish(words, what, **more):
    """The output of a command. Throws BedFault with what it said if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)
    if done.returncode:
        raise BedFault(f"{what} failed with exit code {done.returncode}:\n{(done.stderr or done.stdout).rstrip()}",
                       code=done.returncode if done.returncode in (2, 3, 4) else 1)
    return done.stdout


def quantity(text):
    """The number of a quantity of a cluster file, with its unit."""
    found = re.fullmatch(r"([0-9.eE+-]+) (\D.*)", text)
    return float(found.group(1)), found.group(2)


def probe_cores(bed, hetsynth, folder):
    """What a whole core delivers while the others that the bed uses work too: entries of `measured`."""
    cores = sorted({host.core for host in bed.hosts})
    before, after = os.path.join(folder, "cores.toml"), os.path.join(folder, "cores-measured.toml")
    with open(before, "w") as file:
        file.write('name = "cores"\n[[host]]\nname = "machine"\n'
                   'inside = { bandwidth = "10 GB/s", latency = "1 us" }\n  [[host.device]]\n  name = "core"\n'
                   f'  model = "core"\n  count = {len(cores)}\n  memory = "1 GiB"\n')
    finish(bed.enter(CONTROL) + ["taskset", "-c", ",".join(map(str, cores)), hetsynth, "probe", before, "-o", after],
           "hetsynth probe")
    with open(after, "rb") as file:
        return tomllib.load(file)["host"][0]["device"][0]["measured"]


def probe_messages(bed, hetsynth, folder, measured, links):
    """What `probe_cores` found, and for each host what messages cost it: entries of `measured`, by host."""
    if len(bed.hosts) < 2:
        return {host.name: measured for host in bed.hosts}
    before, after = os.path.join(folder, "links.toml"), os.path.join(folder, "links-measured.toml")
    with open(before, "w") as file:
        file.write(cluster_text(bed.hosts, {host.name: measured for host in bed.hosts}, links))
    try:
        finish(bed.mpirun(bed.hosts) + [hetsynth, "probe", before, "--links", "-o", after], "hetsynth probe --links",
               timeout=300)
    except subprocess.TimeoutExpired:
        raise BedFault("hetsynth probe --links has not ended after five minutes") from None
    with open(after, "rb") as file:
        found = {host["name"]: host["device"][0]["measured"]["messages"] for host in tomllib.load(file)["host"]}
    return {host.name: measured | {"messages": found[host.name]} for host in bed.hosts}


def scaled(measured, quota):
    """What a host of this quota delivers, as a table of TOML."""
    entries = []
    for name, text in measured.items():
        number, unit = quantity(text)
        number = number / quota if name.endswith("_call") else number * quota
        entries.append(f'{name} = "{number:.4g} {unit}"')
    return "{ " + ", ".join(entries) + " }"


def measure_link(bed, there, here):
    """Between two hosts, by tcp.py. Throws BedFault if the link carries more than it was given."""
    rate = min(there.link_bits, here.link_bits) / 8
    count = max(40 * LEAST_BURST, int(rate * 0.15))  # So much that bursts, which go at full speed, hardly count.
    script = os.path.join(OWN_FOLDER, "tcp.py")
    server = subprocess.Popen(bed.enter(there.name) + [sys.executable, script, "serve"], stdout=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, text=True, start_new_session=True)
    try:
        server.stdout.readline()
        out = json.loads(finish(bed.enter(here.name) + [sys.executable, script, "measure", there.address, str(count),
                                                        "3"], f"the measurement of {here.name}'s link", timeout=60))
    except subprocess.TimeoutExpired:
        raise BedFault(f"nothing comes through between {here.name} and {there.name}") from None
    finally:
        server.kill()
        server.wait()
    for direction in ("from_there", "to_there"):
        if out[direction] > FASTER_THAN_POSSIBLE * rate:
            raise BedFault(f"the link between {here.name} and {there.name} carries {out[direction] * 8e-6:.0f} Mb/s "
                           f"instead of {rate * 8e-6:.0f}: it is not limited")
    return out


def measure_links(bed):
    """Of every host, to the one with the fastest link: bytes a second, the slower direction; seconds of latency."""
    centre = max(bed.hosts, key=lambda host: host.link_bits)
    out = {}
    for host in bed.hosts:
        if host is not centre:
            found = measure_link(bed, centre, host)
            out[host.name] = {"bandwidth": min(found["from_there"], found["to_there"]), "latency": found["latency"]}
    out[centre.name] = {"bandwidth": max(link["bandwidth"] for link in out.values()),
                        "latency": min(link["latency"] for link in out.values())}
    return out


def link_text(bandwidth, latency):
    return f'bandwidth = "{bandwidth * 8 / 1e6:.4g} Mb/s", latency = "{latency * 1e6:.4g} us"'


def host_text(host, measured, link, faster):
    """`link`: None for a host alone."""
    outside = ""
    if link:
        outside = f'outside = {{ measured = {{ {link_text(link["bandwidth"] * faster, link["latency"] / faster)} }} }}\n'
    return (f'\n[[host]]\nname = "{host.name}"\n{outside}'
            f'  [[host.device]]\n  name = "cpu"\n  kind = "cpu"\n  cores = 1\n'
            f'  memory = "{HOST_MEMORY}"\n  measured = {scaled(measured, host.quota)}\n')


def cluster_text(hosts, measured, links, faster=1):
    """The cluster file of these hosts, as if links were so many times as fast; one host alone has no network.
    `measured`: by host."""
    text = ("# Made by bench/bed: speeds are what `hetsynth probe` measured on a whole core times the host's quota,\n"
            "# links are measured over TCP, memory is declared.\n")
    text += f'name = "bed-{len(hosts)}"\n'
    if len(hosts) > 1:
        bandwidth = min(links[host.name]["bandwidth"] for host in hosts) * faster
        latency = max(links[host.name]["latency"] for host in hosts) / faster
        declared = min(host.link_bits for host in hosts) / 1e6
        text += (f'\n[between]\nbandwidth = "{declared:g} Mb/s"\nlatency = "100 us"\n'
                 f'measured = {{ {link_text(bandwidth, latency)} }}\n')
    alone = len(hosts) == 1
    return text + "".join(host_text(host, measured[host.name], None if alone else links[host.name], faster)
                          for host in hosts)
