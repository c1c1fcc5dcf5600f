#!/bin/sh
# plan_gate_test.sh BENCH_PLAN_GATE: the gate holds against the table of the same build, and not against faster steps.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
rows='--only=mlp --clusters=two-equal --repeats=3'
"$1" $rows --out="$folder/table.tsv"
"$1" $rows --out="$folder/table.tsv" --against="$folder/table.tsv" | grep 'the gate holds'
awk 'BEGIN { FS = OFS = "\t" } NR > 1 { $5 = int($5 / 1.02) } { print }' "$folder/table.tsv" > "$folder/faster.tsv"
if "$1" $rows --out="$folder/table.tsv" --against="$folder/faster.tsv" > "$folder/printed"; then exit 1; fi
grep 'slower' "$folder/printed"
