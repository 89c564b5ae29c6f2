#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# net.sh BIN DIR figures|arguments|ends: `ayatori bench net` with tiny sizes, with wrong arguments, and interrupted.
set -u
bin=$1 dir=$2 what=$3
scratch=$(mktemp -d "$dir/net.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
ulimit -c 0
fail() {
  echo "FAILED: $*"
  cat "$scratch/log"
  exit 1
}
one_line() { [ "$(wc -l <"$scratch/log")" -eq 1 ] || fail "$*: not one line"; }
refused() {
  "$bin/ayatori" bench net "$@" >"$scratch/log" 2>&1
  status=$?
  [ $status -eq 125 ] || fail "bench net $*: status $status"
  one_line "bench net $*"
}
# Pids of the processes that carry the mark, the driver first.
AYATORI_TEST_NET=$$-$(date +%s)
export AYATORI_TEST_NET
running() {
  for file in $(grep -lszx "AYATORI_TEST_NET=$AYATORI_TEST_NET" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    pid=${pid%/environ}
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in */ayatori-bench-net) echo "$pid" ;; esac
  done | sort -n
}
# until_holds TEST...: repeats a test until it holds, for a minute at most.
until_holds() {
  end=$(($(date +%s) + 60))
  until "$@"; do
    [ "$(date +%s)" -lt $end ] || return 1
    sleep 0.02
  done
}
are_running() { [ "$(running | wc -l)" -eq "$1" ]; }
# Starts a measurement of a minute; `driver` and `members` are its processes.
start() {
  "$bin/ayatori" bench net --sizes=8 --threads=1 --processes=2 --time=20000 --json="$scratch/out.json" \
    >"$scratch/log" 2>&1 </dev/null &
  driver=$!
  until_holds are_running 3 || fail "no two members"
  members=$(running | grep -vx $driver)
}
ended() {
  wait $driver
  status=$?
  [ $status -eq "$1" ] || fail "$2: status $status"
  until_holds are_running 0 || fail "$2: a process is left"
  [ ! -e "$scratch/out.json" ] || fail "$2: a file is left"
}

case $what in
  figures)
    "$bin/ayatori" bench net --quick --transport=shm --json="$scratch/out.json" --plot="$scratch/plots" \
      --sim-params="$scratch/sim.txt" >"$scratch/log" 2>&1 || fail "status $?"
    "$bin/bench_net_check" "$scratch/out.json" "$scratch/sim.txt" || fail "wrong files"
    [ -s "$scratch/plots/plots.gp" ] || fail "no script"
    for figure in latency overhead rate bandwidth write round-trip threads-overhead threads-rate; do
      grep -q '^8 \|^1 ' "$scratch/plots/$figure.dat" || fail "no data of $figure"
      grep -q "'$figure.dat'" "$scratch/plots/plots.gp" || fail "$figure is not drawn"
    done
    if command -v gnuplot >/dev/null; then
      for figure in "$scratch"/plots/*.dat; do
        picture=${figure%.dat}
        head -c 4 "$picture.png" | grep -q PNG || fail "no PNG of $figure"
        grep -q '</svg>' "$picture.svg" || fail "no SVG of $figure"
      done
    else
      grep -q 'gnuplot-nox' "$scratch/log" || fail "the package with gnuplot is not named"
      echo "not checked: the pictures (gnuplot is not installed)"
    fi
    ;;
  arguments)
    refused --no-such-option
    refused shm
    refused --transport=pigeon
    refused --transport=
    refused --processes=1
    refused --processes=2,65
    refused --threads=0
    refused --threads=1,,2
    refused --sizes=7
    refused --sizes=1G
    refused --sizes=8,big
    refused --repetitions=0
    refused --time=1.5
    refused --window=-1
    refused --json="$scratch/no-such-folder/out.json"
    refused --sim-params="$scratch"
    refused --plot="$scratch/no-such-folder/plots"
    refused --plot=/dev/null
    "$bin/ayatori" bench net --help >"$scratch/log" 2>&1 || fail "--help: status $?"
    grep -q -- '--sim-params' "$scratch/log" || fail "--help"
    # One size: a transport is measured, but nothing can be fitted.
    "$bin/ayatori" bench net --quick --transport=shm --sizes=8 --threads=1 --processes=2 \
      --sim-params="$scratch/sim.txt" >"$scratch/out" 2>"$scratch/log"
    status=$?
    [ $status -eq 3 ] || fail "one size: status $status"
    one_line "one size"
    ;;
  ends)
    for victim in 1 2; do
      start
      kill -KILL "$(echo "$members" | sed -n ${victim}p)"
      ended 3 "a killed member"
      one_line "a killed member"
      grep -q 'process [01] of 2 was killed by signal 9 (Killed) during ' "$scratch/log" || fail "not told"
    done
    start
    kill -TERM $driver
    ended 143 "SIGTERM"
    start
    kill -KILL $driver
    ended 137 "a killed driver"
    ;;
esac
