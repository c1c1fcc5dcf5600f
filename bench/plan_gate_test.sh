#!/bin/sh
# plan_gate_test.sh BENCH_PLAN_GATE: the gate holds against the table of the same build, and not against faster steps, nor
# where nothing is compared; only tables are written to.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
rows='--only=mlp --clusters=two-equal --repeats=3'
"$1" $rows --out="$folder/table.tsv"
"$1" $rows --out="$folder/table.tsv" --against="$folder/table.tsv" | grep 'the gate holds'
awk 'BEGIN { FS = OFS = "\t" } NR > 1 { $5 = int($5 / 1.02) } { print }' "$folder/table.tsv" > "$folder/faster.tsv"
if "$1" $rows --out="$folder/table.tsv" --against="$folder/faster.tsv" > "$folder/printed"; then exit 1; fi
grep 'slower' "$folder/printed"
fails() {
  wanted=$1
  shift
  if "$@" > /dev/null 2> "$folder/told"; then exit 1; fi
  grep "$wanted" "$folder/told"
}
fails 'has no row for any' "$1" $rows --against="$folder/missing.tsv"
fails 'needs a gate' "$1" $rows --keep
fails 'cannot be written' "$1" $rows --out="$folder/missing/table.tsv"
echo 'a letter' > "$folder/letter"
fails 'is no table' "$1" $rows --out="$folder/letter"
[ "$(cat "$folder/letter")" = 'a letter' ]
