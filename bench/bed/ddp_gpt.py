"""The GPT of examples/gpt.cpp in PyTorch, trained by one process of a group, as a person would write it.

Every process takes `batches[rank]` windows of text a step. Gradients are averaged by DistributedDataParallel over Gloo;
a loss that is weighted by the number of windows makes this the mean over all of them. The first process writes a log of
steps in the form of `hetsynth run --log-json`.
"""
import argparse
import json
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 256
TEXTS = "/usr/share/common-licenses"


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, seq, width = x.shape
        query, key, value = self.qkv(self.norm1(x)).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, seq, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, width, seq):
        super().__init__()
        self.wte = nn.Embedding(VOCABULARY, width)
        self.wpe = nn.Parameter(torch.randn(seq, width) * 0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe
        for block in self.blocks:
            x = block(x)
        logits = self.norm(x) @ self.wte.weight.t()
        return F.cross_entropy(logits.view(-1, VOCABULARY), targets.reshape(-1))


def text():
    paths = [os.path.join(TEXTS, name) for name in sorted(os.listdir(TEXTS))]
    whole = b"".join(open(path, "rb").read() for path in paths if os.path.isfile(path))
    return torch.frombuffer(bytearray(whole), dtype=torch.uint8)


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--batches", required=True, help="windows a step of every process: 16,13,11,8")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--master", required=True, help="address of the first process")
    parser.add_argument("--log", required=True)
    for name, default in (("layers", 4), ("heads", 4), ("width", 128), ("seq", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    return parser.parse_args()


def main():
    options = parse()
    batches = [int(part) for part in options.batches.split(",")]
    own, total, processes = batches[options.rank], sum(batches), len(batches)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = network = Gpt(options.layers, options.heads, options.width, options.seq)
    if processes > 1:
        dist.init_process_group("gloo", init_method=f"tcp://{options.master}:29500", rank=options.rank,
                                world_size=processes)
        model = nn.parallel.DistributedDataParallel(network, gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    data = text()
    torch.manual_seed(options.rank)  # The parameters are equal on all, the samples are not.
    log = open(options.log, "a") if options.rank == 0 else None
    for step in range(options.steps):
        began = time.perf_counter()
        starts = torch.randint(0, len(data) - options.seq - 1, (own,))
        windows = torch.stack([data[start:start + options.seq + 1] for start in starts]).long()
        optimizer.zero_grad(set_to_none=True)
        loss = model(windows[:, :-1], windows[:, 1:])
        (loss * (own * processes / total)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warm_up.step()
        if log:
            seconds = time.perf_counter() - began
            log.write(json.dumps({"step": step, "loss": loss.item(), "seconds": seconds,
                                  "tokens_per_second": total * options.seq / seconds}) + "\n")
            log.flush()
    if processes > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
