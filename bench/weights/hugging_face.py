"""Holds hetsynth against Hugging Face's models: weights that it saves are loaded by `run --init-from`, the loss and the
gradients of a step are those of PyTorch, and what `export` writes loads there again.

    python3 -m venv venv && venv/bin/pip install torch "transformers<5" safetensors numpy
    venv/bin/python bench/weights/hugging_face.py --hetsynth build/hetsynth

Models have the size `tiny` of the examples and random weights. Gradients are read from the first moments of AdamW after
one step, which are (1 - beta1) times the clipped gradient.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors.numpy import load_file, save_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOLERANCE = 1e-5  # relative to the largest element of a tensor: float32 sums of some hundred terms, a few layers deep


class Family:
    """A model of Hugging Face, the example that computes the same, and data for both."""

    def __init__(self, name, example, options, make, save_data, loss, untouched=()):
        self.name, self.example, self.options = name, example, options
        self.make, self.save_data, self.loss = make, save_data, loss
        self.untouched = untouched  # parameters that the loss does not depend on


def randomise(model):
    """Weights that matter: the default ones are so small that all losses are alike."""
    torch.manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            is_gain = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * (0.1 if parameter.dim() == 1 else 0.3) + float(is_gain))
    return model


def tokens(batch, length, vocabulary):
    return np.random.default_rng(3).integers(0, vocabulary, (batch, length), dtype=np.int32)


def next_token_loss(model, data):
    x = torch.from_numpy(data["tokens"].astype(np.int64))
    logits = model(input_ids=x[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


def families():
    def gpt2():
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            vocab_size=256, n_positions=16, n_embd=32, n_layer=2, n_head=2, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))

    def bert():
        return transformers.BertForPreTraining(transformers.BertConfig(
            vocab_size=256, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128,
            max_position_embeddings=16, hidden_act="gelu_new", hidden_dropout_prob=0, attention_probs_dropout_prob=0,
            layer_norm_eps=1e-12, pad_token_id=None))

    def bert_loss(model, data):
        x = torch.from_numpy(data["tokens"].astype(np.int64))
        segments = torch.arange(16).ge(8).long().expand_as(x)
        answer = model(input_ids=x, token_type_ids=segments).seq_relationship_logits
        return torch.nn.functional.cross_entropy(answer, torch.from_numpy(data["labels"].astype(np.int64)))

    def llama():
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-5, rope_theta=1e4,
            tie_word_embeddings=False))

    def mixtral():
        return transformers.MixtralForCausalLM(transformers.MixtralConfig(
            vocab_size=256, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=16, rms_norm_eps=1e-5, rope_theta=1e6,
            num_local_experts=4, num_experts_per_tok=2, tie_word_embeddings=False, sliding_window=None))

    def t5():
        return transformers.T5ForConditionalGeneration(transformers.T5Config(
            vocab_size=64, d_model=32, d_kv=16, d_ff=64, num_layers=1, num_heads=2, dropout_rate=0,
            relative_attention_num_buckets=32, relative_attention_max_distance=128, layer_norm_epsilon=1e-6,
            feed_forward_proj="relu", decoder_start_token_id=1, pad_token_id=0))

    def t5_loss(model, data):
        source, targets = (torch.from_numpy(data[key].astype(np.int64)) for key in ("source", "targets"))
        return model(input_ids=source, labels=targets).loss

    def vit():
        return transformers.ViTForImageClassification(transformers.ViTConfig(
            hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=128, hidden_act="gelu_new",
            hidden_dropout_prob=0, attention_probs_dropout_prob=0, image_size=12, patch_size=4, num_labels=10,
            layer_norm_eps=1e-6))

    def vit_loss(model, data):
        answer = model(pixel_values=torch.from_numpy(data["samples"])).logits
        return torch.nn.functional.cross_entropy(answer, torch.from_numpy(data["labels"].astype(np.int64)))

    rng = np.random.default_rng(5)
    windows = {"tokens": tokens(6, 17, 256)}
    return [
        Family("gpt2", "gpt2.cpp", ["dropout=0"], gpt2, windows, next_token_loss),
        Family("bert", "bert.cpp", ["dropout=0", "masked=0"], bert,
               {"tokens": tokens(6, 16, 256), "labels": rng.integers(0, 2, 6, dtype=np.int32)}, bert_loss,
               untouched=("cls.predictions",)),
        Family("llama", "llama.cpp", [], llama, windows, next_token_loss),
        Family("mixtral", "mixtral.cpp", ["capacity_factor=4", "balance=0"], mixtral, windows, next_token_loss),
        Family("t5", "t5.cpp", ["dropout=0"], t5,
               {"source": tokens(6, 20, 64), "targets": rng.integers(1, 64, (6, 12), dtype=np.int32)}, t5_loss),
        Family("vit", "vit.cpp", ["dropout=0"], vit,
               {"samples": rng.standard_normal((6, 3, 12, 12), dtype=np.float32),
                "labels": rng.integers(0, 10, 6, dtype=np.int32)}, vit_loss),
    ]


def moments_as_weights(checkpoint, suffix, path):
    """A checkpoint whose parameters are the moments, so that `export` gives them the other names and layouts."""
    tensors = {name[: -len(suffix)]: value for name, value in load_file(checkpoint).items() if name.endswith(suffix)}
    save_file(tensors, path, {"format": "hetsynth checkpoint 1", "next_step": "0", "seed": "0"})
    return len(tensors)


def check(family, hetsynth, folder):
    """Relative errors of loss, gradients and weights that went there and back."""
    model = randomise(family.make()).eval()
    place = lambda name: os.path.join(folder, f"{family.name}-{name}")
    model.save_pretrained(place("hf"))
    os.makedirs(place("data"))
    for name, array in family.save_data.items():
        np.save(os.path.join(place("data"), name + ".npy"), array)
    loss = family.loss(model, family.save_data)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    rules = os.path.join(ROOT, "examples", "weights", family.name + ".toml")

    def run(*words):
        done = subprocess.run([hetsynth, *words], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"hetsynth {' '.join(words)}\n{done.stdout}{done.stderr}")
        return done.stdout

    settings = [word for option in family.options for word in ("--set", option)]
    common = [os.path.join(ROOT, "examples", family.example), "--set", "size=tiny", *settings, "--data", place("data"),
              "--init-from", place("hf"), "--map", rules, "--sample", "0"]
    run("run", *common, "--steps", "0", "--checkpoint", place("start.st"))
    told = run("run", *common, "--steps", "1", "--checkpoint", place("step.st"), "--log-json", place("log"))
    print("  " + "\n  ".join(line for line in told.splitlines() if line.startswith(("weights:", "  left", "  keep"))))
    found = json.loads(open(place("log")).readline())["loss"]

    run("export", place("start.st"), "--map", rules, "-o", place("back.safetensors"))
    back = load_file(place("back.safetensors"))
    state = {name: value.detach().numpy() for name, value in model.state_dict().items()}
    weights = max(float(np.abs(value.reshape(state[name].shape) - state[name]).max()) for name, value in back.items())

    moments_as_weights(place("step.st"), ".m", place("moments.st"))
    run("export", place("moments.st"), "--map", rules, "-o", place("gradients.safetensors"))
    worst, count = 0.0, 0
    gradients = load_file(place("gradients.safetensors"))
    largest = max(float(parameter.grad.abs().max()) for parameter in model.parameters() if parameter.grad is not None)
    for name, parameter in model.named_parameters():
        if name not in gradients or name.startswith(family.untouched or ("-",)):
            continue
        wanted = parameter.grad.numpy()
        ours = gradients[name].reshape(wanted.shape) / 0.1
        # That of a key's bias is zero but for rounding: it shifts all scores of a query alike.
        scale = largest if name.endswith("key.bias") else np.abs(wanted).max()
        worst = max(worst, float(np.abs(ours - wanted).max() / scale))
        count += 1
    return {"loss": loss.item(), "loss_error": abs(found - loss.item()) / loss.item(), "gradients": count,
            "gradient_error": worst, "round_trip": len(back), "round_trip_error": weights}


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--hetsynth", default="build/hetsynth")
    words.add_argument("--only")
    given = words.parse_args()
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for family in families():
            if given.only and family.name != given.only:
                continue
            print(family.name)
            r = check(family, os.path.abspath(given.hetsynth), folder)
            good = r["loss_error"] < TOLERANCE and r["gradient_error"] < TOLERANCE and r["round_trip_error"] == 0
            failed |= not good
            print(f"  loss {r['loss']:.6f}, off by {r['loss_error']:.1e}; {r['gradients']} gradients off by at most "
                  f"{r['gradient_error']:.1e}; {r['round_trip']} tensors there and back off by {r['round_trip_error']}"
                  f"{'' if good else '   WRONG'}")
    sys.exit(failed)


if __name__ == "__main__":
    main()
