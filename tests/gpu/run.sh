#!/bin/bash
# Everything that needs a GPU, unattended:
#   tests/gpu/run.sh BUILD_DIR [RESULTS.md]        default: $HETSYNTH_GPU_RESULTS, or docs/gpu-results.md
# Writes date, device, versions, what `probe` measures, speeds beside PyTorch's (if present), predicted against measured
# step times (from data sheets and from the probe), tests, and several NCCL ranks on this one GPU (under mpirun, if there
# is one). What matters most comes first, and every line is in the results, and on the screen, as soon as it is known: what
# a time limit cuts off is the end alone.
# Without a GPU it says so and ends with 0: nothing was wrong. With HETSYNTH_GPU_DOUBLES set it runs on doubles, small
# models for a few steps: the same lines, so that they have run before they come to a GPU; its numbers mean nothing.
# HETSYNTH_LIBRARIES: a folder of libraries for hetsynth's programs alone (a bundle's): Python must find its own.
set -u
doubles=${HETSYNTH_GPU_DOUBLES:-}
build=${1:?name the build folder}
root=$(cd "$(dirname "$0")/../.." && pwd)
results=${2:-${HETSYNTH_GPU_RESULTS:-$root/docs/gpu-results.md}}
with_libraries=()
[ -z "${HETSYNTH_LIBRARIES:-}" ] ||
  with_libraries=(env "LD_LIBRARY_PATH=$HETSYNTH_LIBRARIES${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}")
hetsynth=("${with_libraries[@]}" "$build/hetsynth")
[ -z "$doubles" ] || hetsynth=("${with_libraries[@]}" "$build/tests/hetsynth_on_doubles")
if [ -z "$doubles" ] && ! "${hetsynth[@]}" doctor | grep -q '^GPU '; then
  echo "SKIPPED: no GPU here"
  "${hetsynth[@]}" doctor | grep '^CUDA'
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HETSYNTH_CACHE_DIR=$work/cache
failed=0
for ((i = 0; i < 4000; ++i)); do printf 'line %d of a text that models of bytes read\n' "$((i * i % 997))"; done > "$work/text"

# To the results and to the screen, line by line.
report() { tee -a "$results"; }
say() { printf '%s\n' "$*" | report; }
: > "$results"

# Name, architecture and bytes as the driver tells them.
gpu=$("${hetsynth[@]}" doctor --json | python3 -c 'import json,sys; print(next((f["detail"] for f in json.load(sys.stdin) if f["name"] == "GPU"), "doubles of a GPU: no number here means anything"))')
IFS=, read -r model architecture memory <<< "$gpu"
architecture=${architecture# }
[ -z "$doubles" ] || model=A100 architecture=sm_80 memory="8 GiB"
model=${HETSYNTH_GPU_MODEL:-$model}
# Its data sheet, if the name is one that hetsynth knows; else what the driver tells, and speeds that are no more than a
# place for the measured ones: nothing is predicted from them.
described() {
  printf 'name = "one GPU"\n[[host]]\n  [[host.device]]\n  name = "gpu"\n  model = "%s"\n%s' "$model" "$1"
}
knows_sheet=yes
described '' > "$work/gpu.toml"
if ! "${hetsynth[@]}" plan "$root/examples/mlp.cpp" --cluster "$work/gpu.toml" > "$work/out" 2>&1; then
  knows_sheet=
  memory=$(python3 -c 'import sys; print(f"{float(sys.argv[1].split()[0]) * 0.97:.2f} {sys.argv[1].split()[1]}")' "$memory")
  by_hand="  kind = \"cuda\"
  architecture = \"$architecture\"
  memory = \"$memory\"
  declared = { matmul = \"10 TFLOP/s\", memory_bandwidth = \"500 GB/s\" }
"
  described "$by_hand" > "$work/gpu.toml"
fi

say "# On a GPU"
say
say "By \`tests/gpu/run.sh\`, $(date -u +%Y-%m-%d), on $gpu."
[ -n "$knows_sheet" ] || say "No data sheet of a \"$model\" is known: nothing is predicted from one."
say
say '```'
"${hetsynth[@]}" doctor | grep -E '^(CUDA|GPU)' | report
say '```'
say
say "## Probe"
say
say '```'
if [ -n "$doubles" ]; then
  say "SKIPPED: doubles are slow"
  cp "$work/gpu.toml" "$work/probed.toml"
else
  "${hetsynth[@]}" probe "$work/gpu.toml" -o "$work/probed.toml" 2>&1 | report
  [ "${PIPESTATUS[0]}" -eq 0 ] || { failed=1; cp "$work/gpu.toml" "$work/probed.toml"; }
  grep measured "$work/probed.toml" | report
fi
say '```'
say

# ranks_on_one_gpu SHARES...: as many processes as shares, each a rank of NCCL that takes itself for another host, against
# one rank. Good for what is computed, worth nothing for time.
ranks_on_one_gpu() {
  local count=$# shares commands=() i
  shares=$(IFS=,; echo "$*")
  printf 'name = "ranks"\nbetween = { bandwidth = "50 GB/s", latency = "10 us" }\n' > "$work/ranks.toml"
  for ((i = 0; i < count; ++i)); do
    sed "1d; s/^\\[\\[host\\]\\]/&\\nname = \"h$i\"/" "$work/gpu.toml" >> "$work/ranks.toml"
  done
  local run=("${hetsynth[@]}" run "$root/examples/mlp.cpp" --steps 20 --sample 0 --data "$work/text")
  for ((i = 0; i < count; ++i)); do
    [ "$i" -gt 0 ] && commands+=(:)
    commands+=(-np 1 -x "NCCL_HOSTID=h$i" "${run[@]}" --cluster "$work/ranks.toml" --plan "$work/ranks.plan" --log-json "$work/ranks.json")
  done
  rm -f "$work/ranks.json" "$work/one.json"
  if "${hetsynth[@]}" plan "$root/examples/mlp.cpp" --cluster "$work/ranks.toml" --ratio "$shares" -o "$work/ranks.plan" > "$work/out" 2>&1 &&
      "${run[@]}" --cluster "$work/gpu.toml" --log-json "$work/one.json" > "$work/out" 2>&1 &&
      OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 300 mpirun --oversubscribe "${commands[@]}" > "$work/out" 2>&1; then
    python3 - "$work/one.json" "$work/ranks.json" <<'PY'
import json, sys
one, ranks = ([json.loads(line)["loss"] for line in open(path)] for path in sys.argv[1:])
worst = max(abs(a - b) / (1 + abs(a)) for a, b in zip(one, ranks))
bad = len(one) != len(ranks) or worst > 2e-3
print(f"| {'failed: ' if bad else ''}{len(one)} steps, losses differ by at most {worst:.2g} |")
PY
  else
    echo "| failed: $(tail -n 1 "$work/out" | tr '|' ' ') |"
  fi
}

# With what was measured, attention is left to cuDNN.
if [ -n "$knows_sheet" ]; then
  sed 's/^\( *\)model = .*/&\n\1declared = { attention = "cudnn" }/' "$work/probed.toml" > "$work/cudnn.toml"
else
  sed 's/^\( *\)declared = {/& attention = "cudnn",/' "$work/probed.toml" > "$work/cudnn.toml"
fi
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
  if ! "${hetsynth[@]}" run "$root/examples/$file" --cluster "$work/$trained_with.toml" --batch "$batch" --steps "$steps" --sample 0 \
      --log-json "$work/log" "${data[@]}" "$@" --profile > "$work/out" 2>&1; then
    say "| $name | $batch | failed: $(tail -n 1 "$work/out" | tr '|' ' ') | | | | |"
    failed=1
    return
  fi
  local cluster
  rm -f "$work/gpu.plan"
  for cluster in ${knows_sheet:+gpu} probed; do
    "${hetsynth[@]}" plan "$root/examples/$file" --cluster "$work/$cluster.toml" --batch "$batch" "$@" --json > "$work/$cluster.plan" 2> /dev/null
  done
  if [ "$name" = "GPT-2 124M bf16" ] && python3 -c 'import torch' 2> /dev/null; then
    other=$(python3 "$root/tests/gpu/gpt2_pytorch.py" "$batch" 30 2> "$work/pytorch" || { echo failed; tail -n 1 "$work/pytorch" | cut -c1-200 | tr '|' ' '; })
    other=${other//$'\n'/: }
  fi
  python3 - "$name" "$batch" "$work/log" "$work/gpu.plan" "$work/probed.plan" "$other" <<'PY' | report
import json, statistics, sys
name, batch, log, *plans, other = sys.argv[1:]
rows = [json.loads(line) for line in open(log)]
rows = rows[len(rows) // 3:]
rate = statistics.median(r.get("tokens_per_second") or r["samples_per_second"] for r in rows)
seconds = statistics.median(r["seconds"] for r in rows)
def predicted(plan):
    try:
        return f'{json.load(open(plan))["step_seconds"] * 1e3:.2f} ms'
    except (OSError, ValueError, KeyError, TypeError):
        return "-"
print(f"| {name} | {batch} | {rate:,.0f} | {seconds * 1e3:.2f} ms | {predicted(plans[0])} | {predicted(plans[1])} | {other} |")
PY
  rm -f "$work/log"
  # Where the time goes, below its line.
  {
    echo
    echo "Where the time of a step goes, $name, batch $batch:"
    echo
    echo '```'
    sed -n '/^profile of /,/^sample: /p' "$work/out" | grep -v '^sample: '
    echo '```'
    echo
  } | report
}

# A line of a table of its own, and below it where the time went.
table() {
  say "| model | batch | tokens or samples per second | step measured | predicted from data sheet | predicted from probe | PyTorch |"
  say "|---|---|---|---|---|---|---|"
  speed "$@"
}

say "## Training steps"
say
# PyTorch's has as many rows, so that tensor cores are used well.
vocabulary=${doubles:+256}
gpt2=(gpt2.cpp 64 30 --set precision=bf16 --set "vocabulary=${vocabulary:-50304}")
table "GPT-2 124M bf16" "${gpt2[@]}"
if "${hetsynth[@]}" doctor | grep -q '^CUDA cuDNN *good'; then
  trained_with=cudnn
  table "GPT-2 124M bf16, attention by cuDNN" "${gpt2[@]}"
  trained_with=probed
fi
table "GPT-2 124M float32" gpt2.cpp 16 20
table "GPT (examples/gpt.cpp)" gpt.cpp 12 30
table "MLP" mlp.cpp 256 30

say "## Several ranks of NCCL on this GPU"
say
if [ -n "$doubles" ]; then
  say "SKIPPED: doubles of NCCL live in one process"
elif command -v mpirun > /dev/null; then
  say "| shares | against one rank |"
  say "|---|---|"
  say "| 3,1 $(ranks_on_one_gpu 3 1)"
  say "| 4,2,1,1 $(ranks_on_one_gpu 4 2 1 1)"
  grep -q '^| [34],[0-9,]* | failed' "$results" && failed=1
else
  say "SKIPPED: no mpirun here"
fi
say
say "## Tests"
say
say '```'
"${with_libraries[@]}" "$build/tests/test_gpu" ${doubles:+--gtest_filter=*Mlp} 2>&1 | grep --line-buffered -vE '^\[ RUN' |
  cut -c1-400 | report
[ "${PIPESTATUS[0]}" -eq 0 ] || failed=1
say '```'
say
say "## A long step"
say
# Its convolutions are plain loops: a step takes seconds.
table "VGG-19" vgg19.cpp 64 3

exit $failed
