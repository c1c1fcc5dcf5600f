"""Continues a text by a checkpoint of examples/gpt.cpp in PyTorch, keys and values remembered: the likeliest bytes.

    python3 bench/generation/pytorch_gpt.py gpt.st --prompt "The " --tokens 200

reads what `hetsynth run examples/gpt.cpp --checkpoint gpt.st` wrote, and prints the text and tokens per second; the
sizes are those of the checkpoint's tensors. Keys and values lie in tensors of the window's length, as PyTorch's own examples
have them. A window that is full ends the text: hetsynth would go on with its last half.
"""
import argparse
import sys
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file


def layer_norm(x, tensors, name):
    return F.layer_norm(x, x.shape[-1:], tensors[name + ".gain"], tensors[name + ".bias"])


class Gpt:
    def __init__(self, tensors):
        self.t = tensors
        self.layers = sum(name.endswith(".attn.query") for name in tensors)
        self.seq, width = tensors["wpe"].shape
        heads, head = tensors["h0.attn.query"].shape[1:]
        self.keys = torch.zeros(self.layers, 1, heads, self.seq, head)
        self.values = torch.zeros_like(self.keys)
        # One product for queries, keys and values, as it is usual.
        self.qkv = [torch.stack([tensors[f"h{i}.attn.{part}"] for part in ("query", "key", "value")], 1)
                    .reshape(width, -1) for i in range(self.layers)]
        self.shape = (1, 1, 3, heads, head)

    def logits(self, token, position):
        t = self.t
        x = t["wte"][token].view(1, 1, -1) + t["wpe"][position]
        for i in range(self.layers):
            query, key, value = (layer_norm(x, t, f"h{i}.norm1") @ self.qkv[i]).view(self.shape).permute(2, 0, 3, 1, 4)
            self.keys[i, :, :, position] = key[:, :, 0]
            self.values[i, :, :, position] = value[:, :, 0]
            seen = slice(0, position + 1)
            mixed = F.scaled_dot_product_attention(query, self.keys[i, :, :, seen], self.values[i, :, :, seen])
            out = t[f"h{i}.attn.out"]
            x = x + mixed.transpose(1, 2).reshape(1, 1, -1) @ out.reshape(-1, out.shape[-1])
            up = layer_norm(x, t, f"h{i}.norm2") @ t[f"h{i}.mlp.up.weight"] + t[f"h{i}.mlp.up.bias"]
            x = x + F.gelu(up, approximate="tanh") @ t[f"h{i}.mlp.down.weight"] + t[f"h{i}.mlp.down.bias"]
        return (layer_norm(x, t, "norm") @ t["wte"].t()).view(-1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = Gpt(load_file(options.checkpoint))
    text = list(options.prompt.encode())
    count = min(options.tokens, model.seq - len(text) + 1)
    with torch.inference_mode():
        for position, token in enumerate(text):
            logits = model.logits(token, position)
        text.append(int(logits.argmax()))
        begin = time.perf_counter()
        for _ in range(count - 1):
            text.append(int(model.logits(text[-1], len(text) - 1).argmax()))
        seconds = time.perf_counter() - begin
    print(bytes(text).decode(errors="replace"))
    print(f"{count} tokens in {1e3 * seconds:.4g} ms ({(count - 1) / seconds:.4g} tokens/s)", file=sys.stderr)


if __name__ == "__main__":
    main()
