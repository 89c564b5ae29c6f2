#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# quick.sh BIN DIR benchmarks|bars|arguments: what `ayatori bench` does with tiny sizes and with wrong arguments.
set -u
bin=$1 dir=$2 what=$3
scratch=$(mktemp -d "$dir/bench.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}
# Series without a sample have a median of null.
complete() {
  [ -s "$scratch/out.json" ] || fail "no JSON"
  ! grep -q '"median": null' "$scratch/out.json" || fail "a series has no sample"
}
refused() {
  "$bin/ayatori" bench "$@" >"$scratch/log" 2>&1
  status=$?
  [ $status -eq 125 ] || fail "bench $*: status $status"
  [ "$(wc -l <"$scratch/log")" -eq 1 ] || fail "bench $*: not one line"
}

case $what in
  benchmarks)
    "$bin/ayatori" bench --quick --json="$scratch/out.json" >"$scratch/log" 2>&1 || fail "status $?"
    complete
    names=$("$bin/ayatori" bench --help | sed -n 's/^Benchmarks: *//p')
    [ -n "$names" ] || fail "--help names no benchmark"
    for name in $names; do grep -q "\"benchmark\": \"$name\"" "$scratch/out.json" || fail "no result of $name"; done
    ;;
  bars)
    "$bin/ayatori" bench --bars --quick --json="$scratch/out.json" >"$scratch/log" 2>&1 || fail "status $?"
    complete
    ! grep -q '"measured": null' "$scratch/out.json" || fail "a bar could not be measured"
    [ "$(grep -c '"kept": ' "$scratch/out.json")" -ge 14 ] || fail "bars are missing"
    ;;
  arguments)
    refused no_such_benchmark
    refused --no-such-option
    refused --repetitions=0
    refused --bars no_such_bar
    refused --json="$scratch/no-such-folder/out.json"
    refused --json="$scratch"
    "$bin/ayatori" bench --help >"$scratch/log" 2>&1 || fail "--help: status $?"
    ;;
esac
