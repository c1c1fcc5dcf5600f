#!/bin/bash
# Everything that needs a GPU, unattended:
#   tests/gpu/run.sh BUILD_DIR [RESULTS.md]        default: docs/gpu-results.md
# Writes date, device, versions, tests, what `probe` measures, several NCCL ranks on this one GPU (under mpirun, if there
# is one), speeds beside PyTorch's (if present), and predicted against measured step times: predicted from data sheets and
# from the probe.
# Without a GPU it says so and ends with 0: nothing was wrong. With HETSYNTH_GPU_DOUBLES set it runs on doubles, small
# models for a few steps: the same lines, so that they have run before they come to a GPU; its numbers mean nothing.
set -u
doubles=${HETSYNTH_GPU_DOUBLES:-}
build=${1:?name the build folder}
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${2:-$root/docs/gpu-results.md}
hetsynth=$build/hetsynth
[ -z "$doubles" ] || hetsynth=$build/tests/hetsynth_on_doubles
if [ -z "$doubles" ] && ! "$hetsynth" doctor | grep -q '^GPU '; then
  echo "SKIPPED: no GPU here"
  "$hetsynth" doctor | grep '^CUDA'
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HETSYNTH_CACHE_DIR=$work/cache
failed=0
for ((i = 0; i < 4000; ++i)); do printf 'line %d of a text that models of bytes read\n' "$((i * i % 997))"; done > "$work/text"

gpu=$("$hetsynth" doctor --json | python3 -c 'import json,sys; print(next((f["detail"] for f in json.load(sys.stdin) if f["name"] == "GPU"), "doubles of a GPU: no number here means anything"))')
# Its data sheet: with the memory of another one plans would make values again that there is room for.
case $gpu in
  *H200*) known=H200 ;;
  *H100*PCIe*) known=H100-PCIe ;;
  *A100*80GB*) known=A100-80GB ;;
  *A100*) known=A100 ;;
  *V100*32GB*) known=V100-32GB ;;
  *V100*) known=V100 ;;
  *P100*) known=P100 ;;
  *T4*) known=T4 ;;
  *"RTX 4090"*) known=RTX-4090 ;;
  *"RTX 3090"*) known=RTX-3090 ;;
  *"RTX 3060"*) known=RTX-3060 ;;
  *) known=H100 ;;
esac
model=${HETSYNTH_GPU_MODEL:-$known}
cat > "$work/gpu.toml" <<TOML
name = "one GPU"
[[host]]
  [[host.device]]
  name = "gpu"
  model = "$model"
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
  "$build/tests/test_gpu" ${doubles:+--gtest_filter=*Mlp} 2>&1 | grep -vE '^\[ RUN' | cut -c1-400
  [ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
  echo '```'
  echo
  echo "## Probe"
  echo
  echo '```'
  if [ -n "$doubles" ]; then
    echo "SKIPPED: doubles are slow"
    cp "$work/gpu.toml" "$work/probed.toml"
  else
    "$hetsynth" probe "$work/gpu.toml" -o "$work/probed.toml" 2>&1 || { failed=1; cp "$work/gpu.toml" "$work/probed.toml"; }
    grep measured "$work/probed.toml"
  fi
  echo '```'
  echo
} > "$results"

# ranks_on_one_gpu SHARES...: as many processes as shares, each a rank of NCCL that takes itself for another host, against
# one rank. Good for what is computed, worth nothing for time.
ranks_on_one_gpu() {
  local count=$# shares commands=() i
  shares=$(IFS=,; echo "$*")
  printf 'name = "ranks"\nbetween = { bandwidth = "50 GB/s", latency = "10 us" }\n' > "$work/ranks.toml"
  for ((i = 0; i < count; ++i)); do
    printf '[[host]]\nname = "h%d"\n  [[host.device]]\n  name = "gpu"\n  model = "%s"\n' "$i" "$model" >> "$work/ranks.toml"
  done
  local run=("$hetsynth" run "$root/examples/mlp.cpp" --steps 20 --sample 0 --data "$work/text")
  for ((i = 0; i < count; ++i)); do
    [ "$i" -gt 0 ] && commands+=(:)
    commands+=(-np 1 -x "NCCL_HOSTID=h$i" "${run[@]}" --cluster "$work/ranks.toml" --plan "$work/ranks.plan" --log-json "$work/ranks.json")
  done
  rm -f "$work/ranks.json" "$work/one.json"
  if "$hetsynth" plan "$root/examples/mlp.cpp" --cluster "$work/ranks.toml" --ratio "$shares" -o "$work/ranks.plan" > "$work/out" 2>&1 &&
      "${run[@]}" --cluster "$work/gpu.toml" --log-json "$work/one.json" > "$work/out" 2>&1 &&
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun --oversubscribe "${commands[@]}" > "$work/out" 2>&1; then
    python3 - "$work/one.json" "$work/ranks.json" <<'PY' && return
import json, sys
one, ranks = ([json.loads(line)["loss"] for line in open(path)] for path in sys.argv[1:])
worst = max(abs(a - b) / (1 + abs(a)) for a, b in zip(one, ranks))
print(f"| {len(one)} steps, losses differ by at most {worst:.2g} |")
sys.exit(len(one) != len(ranks) or worst > 2e-3)
PY
  else
    echo "| failed: $(tail -n 1 "$work/out" | tr '|' ' ') |"
  fi
  failed=1
}

{
  echo "## Several ranks of NCCL on this GPU"
  echo
  if [ -n "$doubles" ]; then
    echo "SKIPPED: doubles of NCCL live in one process"
  elif command -v mpirun > /dev/null; then
    echo "| shares | against one rank |"
    echo "|---|---|"
    printf '| 3,1 '; ranks_on_one_gpu 3 1
    printf '| 4,2,1,1 '; ranks_on_one_gpu 4 2 1 1
  else
    echo "SKIPPED: no mpirun here"
  fi
  echo
  echo "## Training steps"
  echo
  echo "| model | batch | tokens or samples per second | step measured | predicted from data sheet | predicted from probe | PyTorch |"
  echo "|---|---|---|---|---|---|---|"
} >> "$results"

# With what was measured, attention is left to cuDNN.
sed 's/^\( *\)model = .*/&\n\1declared = { attention = "cudnn" }/' "$work/probed.toml" > "$work/cudnn.toml"
trained_with=probed

# speed NAME FILE BATCH STEPS [--set ...]: one line of the table, trained with the cluster file that the probe wrote, so
# that what it measured decides about epilogues, or with $trained_with.toml.
speed() {
  local name=$1 file=$2 batch=$3 steps=$4
  shift 4
  local other="-" data=()
  case $file in gpt.cpp | mlp.cpp) data=(--data "$work/text") ;; esac
  if [ -n "$doubles" ]; then
    batch=4 steps=3
    case $file in
      gpt.cpp) set -- "$@" --set layers=1 --set heads=2 --set width=8 --set seq=6 ;;
      mlp.cpp) set -- "$@" --set context=3 --set width=4 --set hidden=10 ;;
      *) set -- "$@" --set size=tiny ;;
    esac
  fi
  if ! "$hetsynth" run "$root/examples/$file" --cluster "$work/$trained_with.toml" --batch "$batch" --steps "$steps" --sample 0 \
      --log-json "$work/log" "${data[@]}" "$@" --profile > "$work/out" 2>&1; then
    echo "| $name | $batch | failed: $(tail -n 1 "$work/out" | tr '|' ' ') | | | | |" >> "$results"
    failed=1
    return
  fi
  {
    echo "$name, batch $batch:"
    sed -n '/^profile of /,/^sample: /p' "$work/out" | grep -v '^sample: '
    echo
  } >> "$work/profiles"
  local cluster
  for cluster in gpu probed; do
    "$hetsynth" plan "$root/examples/$file" --cluster "$work/$cluster.toml" --batch "$batch" "$@" --json > "$work/$cluster.plan" 2> /dev/null
  done
  if [ "$name" = "GPT-2 124M bf16" ] && python3 -c 'import torch' 2> /dev/null; then
    other=$(python3 "$root/tests/gpu/gpt2_pytorch.py" "$batch" 30 2> /dev/null || echo failed)
  fi
  python3 - "$name" "$batch" "$work/log" "$work/gpu.plan" "$work/probed.plan" "$other" >> "$results" <<'PY'
import json, statistics, sys
name, batch, log, *plans, other = sys.argv[1:]
rows = [json.loads(line) for line in open(log)]
rows = rows[len(rows) // 3:]
rate = statistics.median(r.get("tokens_per_second") or r["samples_per_second"] for r in rows)
seconds = statistics.median(r["seconds"] for r in rows)
def predicted(plan):
    try:
        return f'{json.load(open(plan))["step_seconds"] * 1e3:.2f} ms'
    except (ValueError, KeyError, TypeError):
        return "-"
print(f"| {name} | {batch} | {rate:,.0f} | {seconds * 1e3:.2f} ms | {predicted(plans[0])} | {predicted(plans[1])} | {other} |")
PY
  rm -f "$work/log"
}

speed "GPT (examples/gpt.cpp)" gpt.cpp 12 30
speed "MLP" mlp.cpp 256 30
# PyTorch's has as many rows, so that tensor cores are used well.
vocabulary=${doubles:+256}
speed "GPT-2 124M bf16" gpt2.cpp 64 30 --set precision=bf16 --set "vocabulary=${vocabulary:-50304}"
if "$hetsynth" doctor | grep -q '^CUDA cuDNN *good'; then
  trained_with=cudnn
  speed "GPT-2 124M bf16, attention by cuDNN" gpt2.cpp 64 30 --set precision=bf16 --set "vocabulary=${vocabulary:-50304}"
  trained_with=probed
fi
speed "GPT-2 124M float32" gpt2.cpp 16 20
speed "VGG-19" vgg19.cpp 64 20

{
  echo
  echo "## Where the time of a step goes"
  echo
  echo '```'
  cat "$work/profiles"
  echo '```'
} >> "$results"

cat "$results"
exit $failed
