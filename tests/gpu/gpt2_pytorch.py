#!/usr/bin/env python3
"""Tokens per second of GPT-2 124M in PyTorch (bf16, compiled where that works, gradients clipped as examples/gpt2.cpp
does), on random tokens: what tests/gpu/run.sh sets beside hetsynth's.  gpt2_pytorch.py BATCH STEPS"""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

WIDTH, HEADS, LAYERS, LENGTH, VOCABULARY = 768, 12, 12, 1024, 50304
CLIP_NORM = 1.0


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = (t.view(batch, length, HEADS, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, VOCABULARY).float(), targets.view(-1))


def step(model, forward, optimizer, tokens):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = forward(tokens, tokens)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def main():
    batch, steps = int(sys.argv[1]), int(sys.argv[2])
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    tokens = torch.randint(0, VOCABULARY, (batch, LENGTH), device="cuda")
    how, forward = "compiled", torch.compile(model)
    try:
        step(model, forward, optimizer, tokens)
    except Exception as problem:  # of any kind: without a C compiler, for one, nothing is compiled
        print(f"not compiled: {problem}", file=sys.stderr)
        how, forward = "eager", model
        optimizer.zero_grad(set_to_none=True)
    seconds = []
    for _ in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step(model, forward, optimizer, tokens)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    median = sorted(seconds[steps // 3:])[len(seconds[steps // 3:]) // 2]
    print(f"{batch * LENGTH / median:,.0f} ({how})")


main()
