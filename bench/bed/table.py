"""The table of a run: medians over its repeats, as text, JSON or CSV."""
import csv
import json
import statistics

MEBI = 1 << 20


def median_of(results, key):
    values = [result[key] for result in results if result.get(key) is not None]
    return statistics.median(values) if values else None


def summary(row, base, hosts):
    """Figures of one row. Runs that were disturbed count only where all were."""
    valid = [result for result in row.results if result["valid"]]
    used = valid or row.results
    out = {"row": row.key, "title": row.title, "why_not": row.why_not, "unit": None, "per_second": None, "times": None,
           "step_seconds": None,
           "predicted_step_seconds": row.predicted.get("step_seconds"),
           "predicted_to_measured": None,
           "predicted_memory_bytes": row.predicted.get("memory_bytes"), "memory_bytes": None, "resident_bytes": None,
           "foreign_cores": None, "runs": len(row.results), "valid_runs": len(valid),
           "hosts": [host.name for host in row.hosts], "loss": None,
           "collectives": row.predicted.get("collectives"),
           "predicted_communication_seconds": row.predicted.get("communication_seconds")}
    if not used:
        return out
    for key in ("per_second", "step_seconds", "memory_bytes", "resident_bytes", "foreign_cores", "loss"):
        out[key] = median_of(used, key)
    out["unit"] = used[0]["unit"]
    out["busy"] = {host.name: statistics.median(result["busy"][host.name] for result in used) for host in hosts}
    if used[0]["parts"]:
        out["parts"] = {host: {part: statistics.median(result["parts"][host][part] for result in used)
                               for part in used[0]["parts"][host]} for host in used[0]["parts"]}
    if out["predicted_step_seconds"]:
        out["predicted_to_measured"] = out["predicted_step_seconds"] / out["step_seconds"]
    out["times"] = times(used, base)
    return out


def times(used, base):
    """How many times as fast as the first row: the median of what the repeats say, each of its own two runs."""
    of_base = {result["repeat"]: result for result in base.results}
    pairs = [(result, of_base[result["repeat"]]) for result in used if result["repeat"] in of_base]
    valid = [pair for pair in pairs if pair[1]["valid"]] or pairs
    return statistics.median(one["per_second"] / other["per_second"] for one, other in valid) if valid else None


def number(value, form="{:.0f}", scale=1):
    return "-" if value is None else form.format(value / scale)


def busy_text(row):
    return " ".join(f"{100 * share:.0f}" for share in row["busy"].values()) if row.get("busy") else "-"


def state(row):
    if row["why_not"] or not row["runs"]:
        return "see below" if len(row["why_not"]) > len("does not fit") else row["why_not"] or "not measured"
    return f"{row['valid_runs']} of {row['runs']}" + ("" if row["valid_runs"] else " INVALID")


def columns(rows, hosts):
    """Headings in two lines, and the cell of a row under each."""
    unit = next((row["unit"] for row in rows if row["unit"]), "tokens")
    first = next((row["row"] for row in rows if row["runs"]), "-")
    busy = "/".join([hosts[0].name, hosts[-1].name]) if hosts else ""
    return [("", "way", lambda r: r["title"]),
            (f"{unit}", "a second", lambda r: number(r["per_second"])),
            ("times", first, lambda r: number(r["times"], "{:.2f}")),
            ("step", "measured", lambda r: number(r["step_seconds"], "{:.1f} ms", 1e-3)),
            ("step", "predicted", lambda r: number(r["predicted_step_seconds"], "{:.1f} ms", 1e-3)),
            ("pred./", "meas.", lambda r: number(r["predicted_to_measured"], "{:.2f}")),
            ("memory", "predicted", lambda r: number(r["predicted_memory_bytes"], "{:.1f} MiB", MEBI)),
            ("memory", "arena", lambda r: number(r["memory_bytes"], "{:.1f} MiB", MEBI)),
            ("memory", "resident", lambda r: number(r["resident_bytes"], "{:.0f} MiB", MEBI)),
            ("busy %", busy, busy_text),
            ("other", "load", lambda r: number(r["foreign_cores"], "{:.2f}")),
            ("valid", "runs", state)]


def text(rows, hosts):
    shown = columns(rows, hosts)
    lines = [[head[0] for head in shown], [head[1] for head in shown]]
    lines += [[head[2](row) for head in shown] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(shown))]
    out = ""
    for line in lines:
        cells = [line[0].ljust(widths[0])] + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        out += "  ".join(cells).rstrip() + "\n"
    return out + "".join(remark(row, hosts) for row in rows)


def remark(row, hosts):
    """What there is to say of a row below the table: why it is empty, who was left out, where its step goes."""
    if row["why_not"]:
        return f"{row['title']}: {row['why_not']}\n"
    out = ""
    if row["row"] == "plan" and len(row["hosts"]) < len(hosts):
        out = f"{row['title']} leaves hosts out, which do not pay: it uses {', '.join(row['hosts'])}\n"
    return out + parts_text(row)


def parts_text(row):
    """Where the step of a row goes: what was planned, and what its hosts say of it."""
    if not row.get("collectives") or not row.get("parts"):
        return ""
    count = sum(row["collectives"].values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(row["collectives"].items()))
    out = (f"{row['title']}: {count} collectives a step ({kinds}), predicted to take "
           f"{1e3 * row['predicted_communication_seconds']:.0f} ms one by one\n")
    for host, parts in row["parts"].items():
        out += (f"  {host}: computes {100 * parts['computing']:.0f} % of the step, communicates "
                f"{100 * parts['communicating']:.0f} %, waits {100 * parts['waiting']:.0f} %\n")
    return out


def write(path, described, rows):
    """Everything as JSON, or the rows alone as CSV, by the end of the file's name."""
    with open(path, "w", newline="") as file:
        if not path.endswith(".csv"):
            json.dump(described | {"rows": rows}, file, indent=1)
            file.write("\n")
            return
        flat = [{key: json.dumps(value) if isinstance(value, (dict, list)) else value for key, value in row.items()
                 if key != "repeats"} for row in rows]
        names = list(dict.fromkeys(name for row in flat for name in row))
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(flat)
