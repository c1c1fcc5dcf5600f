"""Trains adapters beside a GPT-2 of transformers, and compares what hetsynth exports with peft.

  compare.py HETSYNTH FOLDER

Model and data are tiny and random. Errors are relative to the largest element; float32 sums of some hundred terms, a
few layers deep, differ by about 1e-6.
"""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.numpy import load_file

BOUND = 1e-5
RANK, ALPHA = 4, 6
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RULES = os.path.join(ROOT, "examples", "weights")


def error(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def main():
    hetsynth, folder = os.path.abspath(sys.argv[1]), os.path.join(sys.argv[2], "work")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "data"))
    at = lambda name: os.path.join(folder, name)

    def run(*words):
        done = subprocess.run([hetsynth, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"hetsynth {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    torch.manual_seed(7)
    config = transformers.GPT2Config(vocab_size=256, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0,
                                     embd_pdrop=0, attn_pdrop=0)
    base = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, parameter in base.named_parameters():  # weights that matter: the default ones are too small
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.3) + float(is_gain))
    base.save_pretrained(at("base"))
    tokens = np.random.default_rng(3).integers(0, 256, (6, 17), dtype=np.int32)
    np.save(at("data/tokens.npy"), tokens)
    x = torch.from_numpy(tokens.astype(np.int64))

    def loss_of(model):
        return torch.nn.functional.cross_entropy(model(input_ids=x[:, :-1]).logits.flatten(0, 1), x[:, 1:].flatten())

    def logits_of(model):
        with torch.no_grad():
            return model(input_ids=x[:, :-1]).logits.numpy()

    example = os.path.join(ROOT, "examples", "lora.cpp")
    settings = ["--set", "size=tiny", "--set", f"rank={RANK}", "--set", f"alpha={ALPHA}", "--set", "lr=0.02"]
    common = [example, *settings, "--data", at("data")]
    of_base = ["--init-from", at("base"), "--map", f"{RULES}/gpt2.toml"]
    run("run", *common, *of_base, "--sample", "0", "--steps", "30", "--checkpoint", at("tuned.st"))
    loss = json.loads(run("evaluate", example, at("tuned.st"), *settings, "--data", at("data"), "--json"))["loss"]

    os.makedirs(at("adapters"))
    run("export", at("tuned.st"), "--map", f"{RULES}/gpt2-lora.toml", "-o", at("adapters/adapter_model.safetensors"))
    with open(at("adapters/adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA,
                   "target_modules": ["c_attn"], "fan_in_fan_out": True}, file)
    shutil.copytree(at("base"), at("merged"))
    run("export", at("tuned.st"), "--map", f"{RULES}/gpt2.toml", "--merge", f"{RULES}/gpt2-lora.toml", "-o",
        at("whole.safetensors"))
    shutil.move(at("whole.safetensors"), at("merged/model.safetensors"))

    adapted = peft.PeftModel.from_pretrained(base, at("adapters"), is_trainable=True).eval()
    merged = transformers.GPT2LMHeadModel.from_pretrained(at("merged")).eval()
    untouched = transformers.GPT2LMHeadModel.from_pretrained(at("base")).eval()
    errors = {
        "loss, hetsynth and peft": abs(loss - loss_of(adapted).item()) / loss,
        "logits, merged and peft": error(logits_of(merged), logits_of(adapted)),
    }
    changed = error(logits_of(untouched), logits_of(adapted))

    # One step more: the first moments of AdamW, which begin at zero, are 0.1 times the clipped gradient.
    run("run", *common, *of_base, "--init-from", at("adapters/adapter_model.safetensors"), "--map",
        f"{RULES}/gpt2-lora.toml", "--sample", "0", "--steps", "1", "--checkpoint", at("step.st"))
    moments = {name[:-2]: value for name, value in load_file(at("step.st")).items() if name.endswith(".m")}
    trained = {name: p for name, p in adapted.named_parameters() if p.requires_grad}
    loss_of(adapted).backward()
    torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
    for name, parameter in trained.items():
        block = name.split(".h.")[1].split(".")[0]
        theirs = parameter.grad.numpy()
        if ".lora_A." in name:
            ours = moments[f"h{block}.attention.lora_a"].T
        else:
            parts = [moments[f"h{block}.attention.{part}.lora_b"] for part in ("query", "key", "value")]
            ours = np.concatenate([part.reshape(RANK, -1) for part in parts], axis=1).T
        errors[f"gradient, {name.split('transformer.')[1]}"] = error(ours / 0.1, theirs)

    whole = adapted.merge_and_unload().state_dict()
    errors["weights, merged and peft's merge_and_unload"] = max(
        error(value, whole[name].numpy()) for name, value in load_file(at("merged/model.safetensors")).items())

    print(f"adapters change logits by {changed:.2f} of the largest; loss {loss:.4f}")
    for name, value in errors.items():
        print(f"{name:55} {value:.1e}{'' if value < BOUND else '   WRONG'}")
    sys.exit(changed < 0.1 or len(errors) != 7 or max(errors.values()) >= BOUND)


if __name__ == "__main__":
    main()
