"""Trains examples/llama.cpp at its smallest size, exports it as GGUF, and compares losses.

  compare.py HETSYNTH FOLDER

Prints the loss of `hetsynth evaluate` and that of the file, computed here in float64: rotary pairs are neighbours, as
llama.cpp turns them for this architecture, and a group of heads shares a key. They may differ by what float32 rounds
and by the four digits that are told.
"""

import pathlib
import re
import subprocess
import sys

import gguf
import numpy as np

LENGTH, WINDOWS, BOUND = 16, 6, 2e-4


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True).stdout


def normalised(x, gain, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gain


def rotated(x, base):
    """x: positions, heads, features. Features 2 i and 2 i + 1 are turned by position * base^(-2 i / features)."""
    features = x.shape[-1]
    angle = np.arange(x.shape[0])[:, None] * base ** (-2 * np.arange(features // 2)[None] / features)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = x.copy()
    out[..., 0::2] = x[..., 0::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 0::2] * sin + x[..., 1::2] * cos
    return out


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def loss_of(reader, tokens):
    """Mean cross-entropy of a window: LENGTH tokens, each followed by the next."""
    weights = {tensor.name: np.array(tensor.data, dtype=np.float64) for tensor in reader.tensors}
    entry = {name: field.parts[-1][0] for name, field in reader.fields.items() if name.startswith("llama.")}
    heads, keys = int(entry["llama.attention.head_count"]), int(entry["llama.attention.head_count_kv"])
    features, base = int(entry["llama.rope.dimension_count"]), float(entry["llama.rope.freq_base"])
    epsilon = float(entry["llama.attention.layer_norm_rms_epsilon"])
    x = weights["token_embd.weight"][tokens[:-1]]
    hidden = np.triu_indices(LENGTH, 1)
    for block in range(int(entry["llama.block_count"])):
        def of(name, block=block):
            return weights[f"blk.{block}.{name}.weight"]
        h = normalised(x, of("attn_norm"), epsilon)
        query = rotated((h @ of("attn_q").T).reshape(LENGTH, heads, features), base)
        key = rotated((h @ of("attn_k").T).reshape(LENGTH, keys, features), base)
        value = (h @ of("attn_v").T).reshape(LENGTH, keys, features)
        mixed = np.zeros((LENGTH, heads, features))
        for head in range(heads):
            shared = head // (heads // keys)
            scores = query[:, head] @ key[:, shared].T / np.sqrt(features)
            scores[hidden] = -np.inf
            mixed[:, head] = softmax(scores) @ value[:, shared]
        x = x + mixed.reshape(LENGTH, -1) @ of("attn_output").T
        h = normalised(x, of("ffn_norm"), epsilon)
        gate = h @ of("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ of("ffn_up").T)) @ of("ffn_down").T
    logits = normalised(x, weights["output_norm.weight"], epsilon) @ weights["output.weight"].T
    return -np.log(softmax(logits)[np.arange(LENGTH), tokens[1:]]).mean()


def main():
    hetsynth, folder = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    size = ["--set", "size=tiny"]
    checkpoint, exported, data = folder / "llama.safetensors", folder / "llama.gguf", folder / "tokens.npy"
    tokens = np.random.default_rng(1).integers(0, 256, WINDOWS * LENGTH + 1)
    np.save(data, tokens.astype(np.uint16))
    run(hetsynth, "run", "examples/llama.cpp", *size, "--steps", 30, "--sample", 0, "--checkpoint", checkpoint)
    run(hetsynth, "export", checkpoint, "--map", "examples/weights/llama-gguf.toml", "-o", exported,
        "--metadata", f"llama.context_length={LENGTH}", "--metadata", "llama.rope.freq_base=10000")
    told = run(hetsynth, "evaluate", "examples/llama.cpp", checkpoint, *size, "--data", data)
    ours = float(re.search(r"^loss ([0-9.]+)", told, re.MULTILINE)[1])
    reader = gguf.GGUFReader(exported)
    theirs = np.mean([loss_of(reader, tokens[w * LENGTH:w * LENGTH + LENGTH + 1]) for w in range(WINDOWS)])
    print(f"loss {ours:.4f} by hetsynth, {theirs:.4f} by the GGUF file")
    if abs(ours - theirs) > BOUND:
        sys.exit("they differ")


main()
