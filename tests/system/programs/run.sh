#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh BIN DIR serial|ENGINE N W PROGRAM ARGS...: one run of a program. Right are: status 0, a line `time: X s`, a last
# line `check: ok`, and with N >= 2 statistics that prove that the job was shared: steals between processes, faults,
# joins (`locals` places its threads itself: joins and fetched blocks). @OUT@ in ARGS is a scratch file.
set -u
bin=$1 dir=$2 engine=$3 n=$4 w=$5 program=$6
shift 6
scratch=$(mktemp -d "$dir/run.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT

fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  [ ! -s "$scratch/stats.json" ] || cat "$scratch/stats.json"
  exit 1
}

count=$#
while [ "$count" -gt 0 ]; do
  argument=$1
  shift
  [ "$argument" != "@OUT@" ] || argument=$scratch/out
  set -- "$@" "$argument"
  count=$((count - 1))
done

if [ "$engine" = serial ]; then
  "$bin/$program" "$@" --serial > "$scratch/log" 2>&1
else
  "$bin/ayatori" run -n "$n" -w "$w" --engine "$engine" --stats="$scratch/stats.json" -- "$bin/$program" "$@" \
    > "$scratch/log" 2>&1
fi
status=$?
[ "$status" -eq 0 ] || fail "status $status"
[ "$(tail -n 1 "$scratch/log")" = "check: ok" ] || fail "the last line is not 'check: ok'"
grep -Eq '^time: [0-9]+\.[0-9]+ s$' "$scratch/log" || fail "no line 'time: X s'"
if [ "$program" = psort ]; then
  cmp "$scratch/out" "$dir/numbers.sorted" || fail "differs from sort"
fi
cat "$scratch/log"
if [ "$engine" = serial ] || [ "$n" -lt 2 ]; then exit 0; fi

# counter NAME: of the job's total.
counter() {
  tr -d ' \n\t' < "$scratch/stats.json" | sed 's/.*"total":{//; s/}.*//' | tr ',' '\n' | sed -n "s/^\"$1\"://p"
}
proved() {
  value=$(counter "$1")
  [ "${value:-0}" -gt 0 ] || fail "$1 is ${value:-missing} with $n processes"
}
proved joins_remote
if [ "$program" = locals ]; then
  proved blocks_fetched
else
  proved steals_remote
  [ $(($(counter read_faults) + $(counter write_faults))) -gt 0 ] || fail "no faults with $n processes"
fi
