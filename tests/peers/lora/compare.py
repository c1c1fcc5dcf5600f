"""Trains adapters beside a GPT-2 and a Llama of transformers, and compares what hetsynth exports and trains with peft.

  compare.py HETSYNTH FOLDER

Models and data are tiny and random. Errors are relative to the largest element; float32 sums of some hundred terms, a
few layers deep, differ by about 1e-6. Gradients of scores as large as these weights make them differ by more, those of
PyTorch in float32 from its own in double precision too: three times that is allowed. Over several steps Adam divides
gradients by their own size, which carries the rounding of the small ones on.
"""

import dataclasses
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
BOUND_OF_STEPS = 1e-4
RANK, ALPHA, STEPS, RATE = 4, 6, 12, 0.02
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RULES = os.path.join(ROOT, "examples", "weights")


@dataclasses.dataclass
class Family:
    name: str
    example: str
    rules: str  # of the base; those of the adapters are called the same with "-lora"
    config: transformers.PretrainedConfig
    settings: list
    lora: dict  # of peft's LoraConfig


GPT2 = Family("GPT-2", "lora.cpp", "gpt2",
              transformers.GPT2Config(vocab_size=256, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0,
                                      embd_pdrop=0, attn_pdrop=0),
              [], {"target_modules": ["c_attn"], "fan_in_fan_out": True})
# Two queries to a key, rotary positions.
LLAMA = Family("Llama", "lora_llama.cpp", "llama",
               transformers.LlamaConfig(vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
                                        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
                                        rms_norm_eps=1e-5, rope_theta=1e4, tie_word_embeddings=False),
               ["--set", "adapters=all"],
               {"target_modules": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]})


def gradient_of_gpt2(name, moments):
    block = name.split(".h.")[1].split(".")[0]
    if ".lora_A." in name:
        return moments[f"h{block}.attention.lora_a"].T
    parts = [moments[f"h{block}.attention.{part}.lora_b"] for part in ("query", "key", "value")]
    return np.concatenate([part.reshape(RANK, -1) for part in parts], axis=1).T


def gradient_of_llama(name, moments):
    words = name.split(".layers.")[1].split(".")
    ours = {"q_proj": "query", "k_proj": "key", "v_proj": "value", "o_proj": "out"}
    part = ours.get(words[2], words[2].removesuffix("_proj"))
    place = f"layer{words[0]}.{'attention' if words[1] == 'self_attn' else 'mlp'}.{part}"
    if ".lora_A." in name:
        return moments[place + ".lora_a"].reshape(-1, RANK).T
    return moments[place + ".lora_b"].reshape(RANK, -1).T


def error(a, b):
    return float(np.abs(a - b).max() / np.abs(b).max())


def compare(hetsynth, folder, family, gradient_of):
    """Prints the errors, and returns whether all are below their bound."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "data"))
    at = lambda name: os.path.join(folder, name)

    def run(*words):
        done = subprocess.run([hetsynth, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"hetsynth {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    torch.manual_seed(7)
    base = transformers.AutoModelForCausalLM.from_config(family.config).eval()
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

    def saved(name):
        return transformers.AutoModelForCausalLM.from_pretrained(at(name)).eval()

    example = os.path.join(ROOT, "examples", family.example)
    map_of_base, map_of_adapters = f"{RULES}/{family.rules}.toml", f"{RULES}/{family.rules}-lora.toml"
    settings = ["--set", "size=tiny", "--set", f"rank={RANK}", "--set", f"alpha={ALPHA}", "--set", f"lr={RATE}",
                *family.settings]
    common = [example, *settings, "--data", at("data")]
    of_base = ["--init-from", at("base"), "--map", map_of_base]

    def export_adapters(checkpoint, name):
        os.makedirs(at(name), exist_ok=True)
        run("export", at(checkpoint), "--map", map_of_adapters, "-o", at(f"{name}/adapter_model.safetensors"))
        with open(at(f"{name}/adapter_config.json"), "w") as file:
            json.dump({"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": ALPHA, **family.lora},
                      file)

    run("run", *common, *of_base, "--sample", "0", "--steps", "30", "--checkpoint", at("tuned.st"))
    loss = json.loads(run("evaluate", example, at("tuned.st"), *settings, "--data", at("data"), "--json"))["loss"]
    export_adapters("tuned.st", "adapters")
    shutil.copytree(at("base"), at("merged"))
    run("export", at("tuned.st"), "--map", map_of_base, "--merge", map_of_adapters, "-o", at("whole.safetensors"))
    shutil.move(at("whole.safetensors"), at("merged/model.safetensors"))

    adapted = peft.PeftModel.from_pretrained(base, at("adapters"), is_trainable=True).eval()
    errors = {
        "loss, hetsynth and peft": abs(loss - loss_of(adapted).item()) / loss,
        "logits, merged and peft": error(logits_of(saved("merged")), logits_of(adapted)),
    }
    changed = error(logits_of(saved("base")), logits_of(adapted))

    # One step more: the first moments of AdamW, which begin at zero, are 0.1 times the clipped gradient. Both float32
    # gradients are held against those of PyTorch in double precision.
    run("run", *common, *of_base, "--init-from", at("adapters/adapter_model.safetensors"), "--map", map_of_adapters,
        "--sample", "0", "--steps", "1", "--checkpoint", at("step.st"))
    moments = {name[:-2]: value for name, value in load_file(at("step.st")).items() if name.endswith(".m")}

    def gradients_of(model):
        model.zero_grad()
        trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
        loss_of(model).backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), 1.0)
        return {name: p.grad.numpy().copy() for name, p in trained.items()}

    single, double = gradients_of(adapted), gradients_of(adapted.double())
    assert len(double) == sum(len(module.lora_A) + len(module.lora_B) for module in adapted.modules()
                              if isinstance(module, peft.tuners.lora.LoraLayer))
    worst = max(error(gradient_of(name, moments) / 0.1, value) for name, value in double.items())
    worst_of_pytorch = max(error(single[name], value) for name, value in double.items())
    whole = adapted.float().merge_and_unload().state_dict()
    errors["weights, merged and peft's merge_and_unload"] = max(
        error(value, whole[name].numpy()) for name, value in load_file(at("merged/model.safetensors")).items())

    # A training of both from the start that hetsynth makes: B is zero, so that it begins with the base.
    run("run", *common, *of_base, "--sample", "0", "--steps", "0", "--checkpoint", at("start.st"))
    export_adapters("start.st", "start")
    run("run", *common, *of_base, "--sample", "0", "--steps", str(STEPS), "--checkpoint", at("steps.st"), "--log-json",
        at("steps.json"))
    export_adapters("steps.st", "steps")
    with open(at("steps.json")) as file:
        ours = [json.loads(line)["loss"] for line in file]
    learner = peft.PeftModel.from_pretrained(saved("base"), at("start"), is_trainable=True).eval()
    errors["logits at the start, peft and the base"] = error(logits_of(learner), logits_of(saved("base")))
    parameters = [p for p in learner.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, weight_decay=0.01)
    warm_up = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))
    theirs = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(learner)
        theirs.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        warm_up.step()
    after = peft.PeftModel.from_pretrained(saved("base"), at("steps")).eval()
    of_steps = {f"losses of {STEPS} steps": error(np.array(ours), np.array(theirs)),
                f"logits after {STEPS} steps": error(logits_of(after), logits_of(learner))}
    print(f"{family.name}: adapters change logits by {changed:.2f} of the largest; {STEPS} steps from loss "
          f"{ours[0]:.4f} to {ours[-1]:.4f}, in PyTorch {theirs[-1]:.4f}")
    of_gradients = {f"gradients, the worst of {len(double)} (PyTorch's: {worst_of_pytorch:.1e})": worst}
    right = changed > 0.1 and len(ours) == STEPS and ours[-1] < ours[0] - 0.1
    for found, bound in ((errors, BOUND), (of_gradients, 3 * worst_of_pytorch), (of_steps, BOUND_OF_STEPS)):
        for name, value in found.items():
            right &= value < bound
            print(f"  {name:50} {value:.1e}{'' if value < bound else '   WRONG'}")
    return right


def main():
    hetsynth = os.path.abspath(sys.argv[1])
    right = [compare(hetsynth, os.path.join(sys.argv[2], "work", family.rules), family, gradient_of)
             for family, gradient_of in ((GPT2, gradient_of_gpt2), (LLAMA, gradient_of_llama))]
    sys.exit(not all(right))


if __name__ == "__main__":
    main()
