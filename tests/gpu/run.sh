#!/bin/bash
# Everything that needs a GPU, unattended:
#   tests/gpu/run.sh BUILD_DIR [RESULTS.md]        default: docs/gpu-results.md
# Writes date, device, versions, tests, speeds beside PyTorch's (if present), and predicted against measured step times.
# Without a GPU it says so and ends with 0: nothing was wrong.
set -u
build=${1:?name the build folder}
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${2:-$root/docs/gpu-results.md}
hetsynth=$build/hetsynth
if ! "$hetsynth" doctor | grep -q '^GPU '; then
  echo "SKIPPED: no GPU here"
  "$hetsynth" doctor | grep '^CUDA'
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HETSYNTH_CACHE_DIR=$work/cache
failed=0

gpu=$("$hetsynth" doctor --json | python3 -c 'import json,sys; print(next(f["detail"] for f in json.load(sys.stdin) if f["name"] == "GPU"))')
cat > "$work/gpu.toml" <<TOML
name = "one GPU"
[[host]]
  [[host.device]]
  name = "gpu"
  model = "${HETSYNTH_GPU_MODEL:-H100}"
TOML

{
  echo "# On a GPU"
  echo
  echo "By \`tests/gpu/run.sh\`, $(date -u +%Y-%m-%d), on $gpu."
  echo
  echo '```'
  "$hetsynth" doctor | grep -E '^(CUDA|GPU)'
  echo '```'
  echo
  echo "## Tests"
  echo
  echo '```'
  "$build/tests/test_gpu" 2>&1 | grep -vE '^\[ RUN' | cut -c1-400
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
  echo '```'
  echo
  echo "## Training steps"
  echo
  echo "| model | batch | tokens or samples per second | step measured | step predicted | PyTorch |"
  echo "|---|---|---|---|---|---|"
} > "$results"

# speed NAME FILE BATCH STEPS [--set ...]: one line of the table.
speed() {
  local name=$1 file=$2 batch=$3 steps=$4
  shift 4
  local other="-"
  if ! "$hetsynth" run "$root/examples/$file" --cluster "$work/gpu.toml" --batch "$batch" --steps "$steps" --sample 0 \
      --data synthetic --log-json "$work/log" "$@" > "$work/out" 2>&1; then
    echo "| $name | $batch | failed: $(tail -n 1 "$work/out" | tr '|' ' ') | | | |" >> "$results"
    failed=1
    return
  fi
  "$hetsynth" plan "$root/examples/$file" --cluster "$work/gpu.toml" --batch "$batch" "$@" --json > "$work/plan" 2> /dev/null
  if [ "$name" = "GPT-2 124M bf16" ] && python3 -c 'import torch' 2> /dev/null; then
    other=$(python3 "$root/tests/gpu/gpt2_pytorch.py" "$batch" 30 2> /dev/null || echo failed)
  fi
  python3 - "$name" "$batch" "$work/log" "$work/plan" "$other" >> "$results" <<'PY'
import json, statistics, sys
name, batch, log, plan, other = sys.argv[1:]
rows = [json.loads(line) for line in open(log)]
rows = rows[len(rows) // 3:]
rate = statistics.median(r.get("tokens_per_second") or r["samples_per_second"] for r in rows)
seconds = statistics.median(r["seconds"] for r in rows)
try:
    predicted = f'{json.load(open(plan))["step_seconds"] * 1e3:.2f} ms'
except (ValueError, KeyError, TypeError):
    predicted = "-"
print(f"| {name} | {batch} | {rate:,.0f} | {seconds * 1e3:.2f} ms | {predicted} | {other} |")
PY
  rm -f "$work/log"
}

speed "GPT (examples/gpt.cpp)" gpt.cpp 12 30
speed "MLP" mlp.cpp 256 30
speed "GPT-2 124M bf16" gpt2.cpp 64 30 --set precision=bf16
speed "GPT-2 124M float32" gpt2.cpp 16 20
speed "VGG-19" vgg19.cpp 64 20

cat "$results"
exit $failed
