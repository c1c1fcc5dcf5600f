"""Holds what peer_dump wrote against PyTorch, in float64, and prints the largest relative error of each case.

  samples  every sample of the operator list: PyTorch executes the operator from its iteration space and body, and
           torch.autograd differentiates it; compared with hetsynth's value and hetsynth's own gradient
  cases    functions of the DSL against the function of PyTorch of the same meaning (tests/peers/cases.cpp)
  optimizers  five steps against torch.optim
  models   the forward pass of each example, operator by operator, and the gradients of all parameters

The relative error of a tensor is max |a - b| / max |b|. The bound allows for sums in another order.
"""

import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F

import functions
import graph

BOUND = 1e-9


class Comparison:
    def __init__(self, folder):
        self.folder = folder
        self.failures = []
        self.rows = []

    def load(self, name, integer=False, gradient=False):
        array = numpy.load(self.folder / name)
        tensor = torch.from_numpy(array.astype(numpy.int64) if integer else array)
        return tensor.requires_grad_() if gradient and not integer else tensor

    @staticmethod
    def error(found, expected, least_scale=1e-30):
        if found is None:
            return float(expected.abs().max()) if expected.numel() else 0.0
        if found.shape != expected.shape:
            return float("inf")
        if not found.numel():
            return 0.0
        scale = max(float(expected.detach().abs().max()), least_scale)
        return float((found.detach() - expected.detach()).abs().max()) / scale

    def report(self, group, name, forward, gradient, bound=BOUND):
        wrong = not (forward <= bound and gradient <= bound)
        self.rows.append((group, name, forward, gradient))
        if wrong:
            self.failures.append(name)
        print(f"{group:9} {name:28} {forward:10.1e} {gradient:10.1e}{'  WRONG' if wrong else ''}", flush=True)

    def gradients(self, group, name, out, weight, inputs, theirs, result):
        """Autograd of sum(out * weight) against hetsynth's gradients."""
        forward = self.error(out, result)
        wanted = [i for i in inputs if i.requires_grad]
        found = torch.autograd.grad((out * weight).sum(), wanted, allow_unused=True) if out.requires_grad else []
        by_input = dict(zip(map(id, wanted), found))
        worst = 0.0
        for i, gradient in zip(inputs, theirs):
            ours = by_input.get(id(i))
            if gradient is None:
                worst = max(worst, float(ours.abs().max()) if ours is not None and ours.numel() else 0.0)
            else:
                ours = torch.zeros_like(gradient) if ours is None else ours
                scale = max(float(ours.abs().max()), float(gradient.abs().max()), 1e-30) if ours.numel() else 1.0
                worst = max(worst, float((ours - gradient).abs().max()) / scale if ours.numel() else 0.0)
        self.report(group, name, forward, worst)

    def sample(self, entry):
        leaves = {}
        for node in entry["nodes"]:
            if node["leaf"]:
                leaves[node["id"]] = self.load(entry["values"][str(node["id"])], node["integer"], True)
        theirs = entry.get("gradients") or {}
        try:
            out = graph.run(entry["nodes"], leaves)[entry["output"]]
        except NotImplementedError as reason:
            return print(f"sample    {entry['name']:28} left out: {reason}")
        weight = self.load(entry["values"][str(entry["weight"])])
        pairs = [(leaf, theirs.get(str(i))) for i, leaf in leaves.items()]
        self.gradients("sample", entry["name"], out, weight, [leaf for leaf, _ in pairs],
                       [self.load(g) if g else None for _, g in pairs], self.load(entry["result"]))

    def case(self, entry):
        inputs = [self.load(a, i, True) for a, i in zip(entry["arguments"], entry["integer"])]
        scope = {f"x{i}": x for i, x in enumerate(inputs)}
        scope |= {"torch": torch, "F": F} | vars(functions)
        out = eval(entry["torch"], scope)
        theirs = [self.load(g) if g else None for g in entry["gradients"]]
        self.gradients("case", entry["name"], out, self.load(entry["weight"]), inputs, theirs,
                       self.load(entry["result"]))

    def optimizer(self, entry):
        w, x = self.load(entry["w"], gradient=True), self.load(entry["x"])
        optimizer = eval(entry["torch"], {"torch": torch, "p": [w], "Lamb": functions.Lamb})
        factor = eval(entry["schedule"] or "lambda s: 1", {"math": math})
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
        for _ in range(5):
            optimizer.zero_grad()
            ((w - x) ** 4).mean().backward()
            if entry["clip_norm"]:
                torch.nn.utils.clip_grad_norm_([w], entry["clip_norm"])
            optimizer.step()
            schedule.step()
        bound = 1e-5 if entry["clip_norm"] else BOUND  # PyTorch divides by the norm + 1e-6
        self.report("optimizer", entry["name"], self.error(w, self.load(entry["result"])), 0.0, bound)

    def model(self, entry):
        leaves = {}
        for node in entry["nodes"]:
            if node["leaf"]:
                leaves[node["id"]] = self.load(entry["values"][str(node["id"])], node["integer"],
                                               str(node["id"]) in entry["gradients"])
        try:
            loss = graph.run(entry["nodes"], leaves, set(entry.get("stopped") or []))[entry["loss"]]
        except NotImplementedError as reason:
            return print(f"model     {entry['name']:28} left out: {reason}")
        forward = abs(float(loss) - entry["result"]) / abs(entry["result"])
        names = list(entry["gradients"])
        found = torch.autograd.grad(loss, [leaves[int(i)] for i in names], allow_unused=True)
        expected = [self.load(entry["gradients"][i]) for i in names]
        # Some gradients are zero but for rounding (a bias of keys, which softmax does not see): no smaller scale than
        # this part of the largest one.
        least = 1e-4 * max(float(e.abs().max()) for e in expected)
        worst = max(self.error(f, e, least) for f, e in zip(found, expected))
        self.report("model", entry["name"], forward, worst)


def table(rows):
    """The largest errors by operator, optimizer and model, as Markdown."""
    worst = {}
    for group, name, forward, gradient in rows:
        key = (group, name.split()[0])
        old = worst.get(key, (0.0, 0.0))
        worst[key] = (max(old[0], forward), max(old[1], gradient))
    cell = lambda key, i: f"{worst[key][i]:.0e}" if key in worst else ""
    operators = sorted({name for group, name in worst if group in ("sample", "case")})
    out = ["| operator | samples: forward | gradient | function of PyTorch: forward | gradient |",
           "|---|---|---|---|---|"]
    for name in operators:
        cells = [cell((group, name), i) for group in ("sample", "case") for i in (0, 1)]
        out.append(f"| `{name}` | " + " | ".join(cells) + " |")
    out += ["", "| optimizer | parameters after 5 steps |", "|---|---|"]
    out += [f"| `{name}` | {cell((group, name), 0)} |" for group, name in worst if group == "optimizer"]
    out += ["", "| model, tiny | loss | gradients of all parameters |", "|---|---|---|"]
    out += [f"| {name} | {cell((group, name), 0)} | {cell((group, name), 1)} |"
            for group, name in sorted(worst) if group == "model"]
    return "\n".join(out) + "\n"


def write_result(document, text):
    """Replaces the tables of a document, which are all that stands below its heading "Result" and the line there."""
    lines = document.read_text().split("\n")
    first = next(i for i, line in enumerate(lines) if i > lines.index("## Result") and line.startswith("|"))
    document.write_text("\n".join(lines[:first]) + "\n" + text)


def main():
    folder = pathlib.Path(sys.argv[1])
    dump = json.loads((folder / "dump.json").read_text())
    comparison = Comparison(folder)
    torch.set_default_dtype(torch.float64)  # what integers times a number become
    print(f"PyTorch {torch.__version__}, float64; largest relative error\n"
          f"{'':9} {'':28} {'forward':>10} {'gradient':>10}")
    for group in ("sample", "case", "optimizer", "model"):
        for entry in dump[group + "s"]:
            getattr(comparison, group)(entry)
    have = {entry["name"].split()[0] for entry in dump["cases"]} | {entry["name"].split()[0] for entry in dump["samples"]}
    print(f"{len(dump['samples'])} samples, {len(dump['cases'])} cases, {len(dump['optimizers'])} optimizers, "
          f"{len(dump['models'])} models, {len(have)} operators; {len(comparison.failures)} beyond {BOUND:g}")
    (folder / "table.md").write_text(table(comparison.rows))
    if len(sys.argv) > 2:
        write_result(pathlib.Path(sys.argv[2]), table(comparison.rows))
    return 1 if comparison.failures else 0


if __name__ == "__main__":
    sys.exit(main())
