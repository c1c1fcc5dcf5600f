"""What cases are held against where PyTorch has no function of its own: its layers with hetsynth's weights, and formulas
of the papers written in PyTorch."""

import math

import torch
import torch.nn.functional as F


def recurrent(kind, x, weight, recurrent_weight, bias, candidate_bias, state):
    """A layer of torch.nn with hetsynth's weights: [features, gates, hidden] there, [gates * hidden, features] here."""
    hidden = recurrent_weight.shape[0]
    layer = kind(x.shape[-1], hidden, batch_first=True, dtype=torch.float64)
    flat = lambda w: w.permute(1, 2, 0).reshape(-1, w.shape[0])
    second = torch.zeros_like(bias)
    if candidate_bias is not None:
        second = torch.cat([second[:2], candidate_bias[None]])
    parameters = {"weight_ih_l0": flat(weight), "weight_hh_l0": flat(recurrent_weight),
                  "bias_ih_l0": bias.reshape(-1), "bias_hh_l0": second.reshape(-1)}
    if isinstance(state, tuple):
        state = tuple(s[None] for s in state)
    elif state is not None:
        state = state[None]
    return torch.func.functional_call(layer, parameters, (x, state))[0]


def rotary(x, base=10000.0):
    """Su et al. 2021 over dimension 1, features in halves."""
    half = x.shape[-1] // 2
    angle = torch.arange(x.shape[1]).double()[:, None] * base ** (-2 * torch.arange(half).double() / x.shape[-1])
    cos, sin = angle.cos()[:, None], angle.sin()[:, None]
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def scan(step, state, x):
    outputs = []
    for t in range(x.shape[1]):
        state = step(state, x[:, t])
        outputs.append(state)
    return torch.stack(outputs, 1)


def attention(q, k, v, bias=None, causal=False):
    """[batch, length, heads, width] as scaled_dot_product_attention wants it, heads before length."""
    out = F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), bias,
                                         is_causal=causal, enable_gqa=True)
    return out.transpose(1, 2)


def window_partition(x, size):
    """Swin's, as published (Liu et al. 2021)."""
    b, h, w, c = x.shape
    return x.view(b, h // size, size, w // size, size, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, size * size, c)


def window_position_bias(table, size):
    """Swin's index of an offset between two places of a window."""
    place = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")).flatten(1)
    offset = place[:, :, None] - place[:, None, :] + size - 1
    return table[offset[0] * (2 * size - 1) + offset[1]].permute(2, 0, 1)


def relative_position_bias(table, queries, keys, bidirectional=True, max_distance=128):
    """T5's buckets as published with it (Raffel et al. 2020)."""
    buckets = table.shape[0]
    relative = torch.arange(keys)[None, :] - torch.arange(queries)[:, None]
    bucket = torch.zeros_like(relative)
    if bidirectional:
        buckets //= 2
        bucket = (relative > 0).long() * buckets
        relative = relative.abs()
    else:
        relative = -relative.clamp(max=0)
    exact = buckets // 2
    large = exact + (torch.log(relative.clamp(min=1).double() / exact) / math.log(max_distance / exact)
                     * (buckets - exact)).long()
    bucket = bucket + torch.where(relative < exact, relative, large.clamp(max=buckets - 1))
    return table[bucket].permute(2, 0, 1)


def routing(logits, choices, capacity_factor):
    """GShard's and Switch's queues, token by token: [(group, token, expert, place, weight)] of who found a place, and
    the loss that evens the load."""
    groups, tokens, experts = logits.shape
    probabilities = logits.softmax(-1)
    top = probabilities.topk(choices, -1)
    weights = top.values / top.values.sum(-1, keepdim=True) if choices > 1 else top.values
    capacity = min(tokens, math.floor(choices * capacity_factor * tokens / experts))
    taken, out = torch.zeros(groups, experts, dtype=torch.long), []
    for choice in range(choices):
        for g in range(groups):
            for t in range(tokens):
                e = int(top.indices[g, t, choice])
                if taken[g, e] < capacity:
                    out.append((g, t, e, int(taken[g, e]), weights[g, t, choice]))
                taken[g, e] += 1
    load = F.one_hot(top.indices[..., 0], experts).double().mean(1)
    return out, capacity, experts * (load * probabilities.mean(1)).sum(-1).mean()


def mixture(tokens, logits, scales, choices, capacity_factor):
    """Tokens to their experts, times one number per expert and place, and back by weight; plus the balance loss."""
    seats, _, balance = routing(logits, choices, capacity_factor)
    out = torch.zeros_like(tokens)
    for g, t, e, place, weight in seats:
        hit = torch.zeros(tokens.shape[:2])
        hit[g, t] = 1
        out = out + hit[..., None] * weight * scales[e, place] * tokens
    return out + balance


def queues(tokens, logits, choices, capacity_factor):
    """What each expert is given: [groups, experts, capacity, width]."""
    seats, capacity, _ = routing(logits, choices, capacity_factor)
    rows = {(g, e, place): tokens[g, t] for g, t, e, place, _ in seats}
    empty = torch.zeros(tokens.shape[-1])
    return torch.stack([torch.stack([torch.stack([rows.get((g, e, c), empty) for c in range(capacity)])
                                     for e in range(logits.shape[-1])]) for g in range(tokens.shape[0])])


class Lamb(torch.optim.Optimizer):
    """You et al. 2020, algorithm 2, for matrices."""

    def __init__(self, params, lr, weight_decay, betas=(0.9, 0.999), eps=1e-6):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state.setdefault(p, {"t": 0, "m": torch.zeros_like(p), "v": torch.zeros_like(p)})
                (beta1, beta2), state["t"] = group["betas"], state["t"] + 1
                state["m"] = beta1 * state["m"] + (1 - beta1) * p.grad
                state["v"] = beta2 * state["v"] + (1 - beta2) * p.grad**2
                m, v = state["m"] / (1 - beta1 ** state["t"]), state["v"] / (1 - beta2 ** state["t"])
                direction = m / (v.sqrt() + group["eps"]) + group["weight_decay"] * p
                p -= group["lr"] * p.norm() / direction.norm() * direction
