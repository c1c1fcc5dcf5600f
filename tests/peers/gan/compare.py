"""Trains tests/peers/gan/model.cpp with hetsynth, and the same networks with two optimizers of PyTorch.

  compare.py HETSYNTH

Parameters after 25 steps are compared, on one device and on three uneven ones; PyTorch computes in float64. The data
are one batch, whose order does not matter.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from safetensors.numpy import load_file

BOUND, STEPS, BATCH = 1e-5, 25, 8
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))


def judge(x, p):
    return (torch.nn.functional.leaky_relu(x @ p["d.1"], 0.2) @ p["d.2"])[:, 0]


def train(start, data, d_steps, g_steps):
    p = {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in start.items()}
    group = lambda first: [p[name] for name in sorted(p) if name.startswith(first)]
    of_d = torch.optim.Adam(group("d."), lr=0.01, betas=(0.5, 0.999))
    of_g = torch.optim.Adam(group("g."), lr=0.02, betas=(0.5, 0.999))
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    for step in range(STEPS):
        real, noise = (torch.tensor(data[name], dtype=torch.float64) for name in ("real", "noise"))
        made = torch.tanh(noise @ p["g.1"]) @ p["g.2"]
        yes, no = torch.ones(BATCH, dtype=torch.float64), torch.zeros(BATCH, dtype=torch.float64)
        d_loss = loss_of(judge(real, p), yes) + loss_of(judge(made.detach(), p), no)
        g_loss = loss_of(judge(made, p), yes)
        d_gradients = torch.autograd.grad(d_loss, group("d."))
        g_gradients = torch.autograd.grad(g_loss, group("g."))
        phase = step % (d_steps + g_steps) if d_steps else None
        for optimizer, gradients, due in ((of_d, d_gradients, phase is None or phase < d_steps),
                                          (of_g, g_gradients, phase is None or phase >= d_steps)):
            if not due:
                continue
            for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients):
                parameter.grad = gradient
            optimizer.step()
    return {name: value.detach().numpy() for name, value in p.items()}


def main():
    hetsynth = os.path.abspath(sys.argv[1])
    random = np.random.default_rng(4)
    worst = 0.0
    with tempfile.TemporaryDirectory() as folder:
        data = {"real": random.standard_normal((BATCH, 4), dtype=np.float32) + 1,
                "noise": random.standard_normal((BATCH, 3), dtype=np.float32)}
        os.makedirs(os.path.join(folder, "data"))
        for name, array in data.items():
            np.save(os.path.join(folder, "data", name + ".npy"), array)

        def run(steps, checkpoint, *more):
            words = [hetsynth, "run", os.path.join(HERE, "model.cpp"), "--data", os.path.join(folder, "data"),
                     "--steps", str(steps), "--checkpoint", os.path.join(folder, checkpoint), *more]
            done = subprocess.run(words, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(words)}\n{done.stdout}{done.stderr}")
            return load_file(os.path.join(folder, checkpoint))

        for d_steps, g_steps in ((0, 0), (1, 1), (3, 2)):
            settings = ["--set", f"d_steps={d_steps}", "--set", f"g_steps={g_steps}"]
            start = {name: value for name, value in run(0, "start.st", *settings).items() if name[-1].isdigit()}
            theirs = train(start, data, d_steps, g_steps)
            cluster = ["--cluster", os.path.join(ROOT, "examples", "clusters", "three-unequal.toml")]
            alone = [*cluster, "--without", "middle", "--without", "slow"]
            uneven = [*cluster, "--ratio", "3,1,2"]
            for where, more in (("one device", alone), ("three", uneven)):
                ours = run(STEPS, "end.st", *settings, *more)
                error = max(float(np.abs(ours[name] - value).max() / np.abs(value).max())
                            for name, value in theirs.items())
                moved = min(float(np.abs(theirs[name] - start[name]).max()) for name in start)
                worst = max(worst, error) if moved > 0.01 else 1.0
                print(f"d_steps={d_steps} g_steps={g_steps} on {where:12} {error:.1e}{'' if error < BOUND else '   WRONG'}")
    sys.exit(worst >= BOUND)


if __name__ == "__main__":
    main()
