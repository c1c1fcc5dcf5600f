"""Executes a forward program of hetsynth with PyTorch: every operator from its iteration space and body."""

import ast
import math

import torch


def _truth(x):
    return x.double() if torch.is_tensor(x) else float(x)


def select(condition, if_true, if_false):
    one = lambda x: x if torch.is_tensor(x) else torch.tensor(float(x), dtype=torch.float64)
    condition = condition if torch.is_tensor(condition) else torch.tensor(bool(condition))
    return torch.where(condition != 0, one(if_true), one(if_false))


def _function(name):
    def call(x):
        return getattr(torch, name)(x) if torch.is_tensor(x) else float(getattr(torch, name)(torch.tensor(float(x))))

    return call


def _pair(name):
    def call(a, b):
        one = lambda x: x if torch.is_tensor(x) else torch.tensor(float(x), dtype=torch.float64)
        return getattr(torch, name)(one(a), one(b))

    return call


FUNCTIONS = {name: _function(name) for name in ("exp", "log", "sqrt", "tanh", "erf", "sin", "cos", "floor", "abs")}
FUNCTIONS |= {"maximum": _pair("maximum"), "minimum": _pair("minimum"), "power": _pair("pow"), "select": select,
              "truth": _truth, "inf": math.inf, "nan": math.nan, "step": 3.0}


class _Comparisons(ast.NodeTransformer):
    """Comparisons give 1 or 0, not truth values."""

    def visit_Compare(self, node):
        self.generic_visit(node)
        return ast.Call(ast.Name("truth", ast.Load()), [node], [])


def _body(text, scope):
    tree = ast.fix_missing_locations(_Comparisons().visit(ast.parse(text, mode="eval")))
    return eval(compile(tree, "<body>", "eval"), {"__builtins__": {}}, scope)


def _index(dim, factors):
    """The index of one dimension over the iteration space."""
    index = torch.tensor(dim["offset"])
    for factor, stride, divide, modulo in dim["terms"]:
        term = factors[factor].div(divide, rounding_mode="floor")
        index = index + (term % modulo if modulo else term) * stride
    return index


def _read(value, access, factors):
    if not access["dims"]:
        return value
    index = [_index(dim, factors) for dim in access["dims"]]
    inside = torch.tensor(True)
    for i, (at, extent) in enumerate(zip(index, value.shape)):
        if access["zero_outside"]:
            inside = inside & (at >= 0) & (at < extent)
            index[i] = at.clamp(0, extent - 1)
    out = value[tuple(torch.broadcast_tensors(*index))]
    return torch.where(inside, out, torch.zeros((), dtype=out.dtype)) if access["zero_outside"] else out


def evaluate(node, inputs):
    """The value of one operator."""
    if node["tag"] == "einsum" and "->" in node["attributes"]:
        return torch.einsum(node["attributes"].replace(" ", ""), *inputs)
    if "random(" in node["body"]:
        raise NotImplementedError(f"{node['tag']} draws random numbers")
    sizes = [size for size, _ in node.get("factors") or []]
    factors = [torch.arange(size).reshape([size if i == j else 1 for j in range(len(sizes))])
               for i, size in enumerate(sizes)]
    scope = dict(FUNCTIONS)
    scope |= {f"f{i}": factor for i, factor in enumerate(factors)}
    for j, (value, access) in enumerate(zip(inputs, node.get("accesses") or [])):
        scope[f"in{j}"] = _read(value, access, factors)
    out = _body(node["body"], scope)
    out = torch.as_tensor(out).broadcast_to(sizes)
    if not node["integer"]:
        out = out.to(torch.float64)
    kinds = [kind for _, kind in node.get("factors") or []]
    reduced = [i for i, kind in enumerate(kinds) if kind]
    if reduced:
        out = out.amax(reduced, keepdim=True) if kinds[reduced[0]] == "max" else out.sum(reduced, keepdim=True)
    if not node["shape"]:
        return out.reshape([])
    index = [_index(dim, factors) for dim in node["output"]["dims"]]
    shape = list(out.shape)
    index = [at.broadcast_to(torch.broadcast_shapes(at.shape, shape)) for at in index]
    return torch.zeros(node["shape"], dtype=out.dtype).index_put(tuple(index), out.broadcast_to(index[0].shape))


def run(nodes, leaves, stopped=()):
    """Values of all nodes, given those of the leaves."""
    values = {}
    for node in nodes:
        if node["leaf"]:
            values[node["id"]] = leaves[node["id"]]
        else:
            values[node["id"]] = evaluate(node, [values[i] for i in node["inputs"]])
        if node["id"] in stopped:
            values[node["id"]] = values[node["id"]].detach()
    return values
