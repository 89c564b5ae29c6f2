# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the scripts of this folder with the folder of the programs as $1.
set -u
bin=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
bad=0
cases=0
# Copies, so that what a call leaves behind can be told from what other tests run.
mkdir "$work/bin"
cp "$bin/net_ring" "$bin/net_probe" "$work/bin"
ring=$work/bin/net_ring
probe=$work/bin/net_probe

complain() {
  echo "WRONG: $*"
  echo "--- output"
  cat "$work/out"
  echo "--- errors"
  cat "$work/err"
  bad=1
}

# call COMMAND...: sets status; output and errors are in $work. Nothing may take two minutes, on a machine that is busy, too.
call() {
  cases=$((cases + 1))
  called=$*
  timeout -k 5 120 "$@" >"$work/out" 2>"$work/err" </dev/null
  status=$?
}
# `ucx` where this build and this machine have it, else nothing.
ucx_if_here() {
  timeout 60 "$bin/ayatori" run -n 2 --transport ucx "$ring" 1 >/dev/null 2>"$work/err" </dev/null && echo ucx && return
  sed 's/^/not run over ucx: /' "$work/err" >&2
}
is() { [ "$status" = "$1" ] || complain "$called: status $status, expected $1"; }
says() { grep -qE -- "$1" "$work/out" || complain "$called: no '$1' in the output"; }
tells() { grep -qE -- "$1" "$work/err" || complain "$called: no '$1' in the errors"; }
# each_program COMMAND...: every program of apps/, small, started by that command.
each_program() {
  for program in fib nqueens uts cilksort matmul heat nbody locals psort; do cp "$bin/$program" "$work/bin"; done
  awk 'BEGIN { for (i = 0; i < 20000; ++i) printf "%d line %d\n", i * 7919 % 1000003, i }' >"$work/numbers"
  LC_ALL=C sort "$work/numbers" >"$work/numbers.sorted"
  while read -r program arguments; do
    # shellcheck disable=SC2086
    "$@" "$work/bin/$program" $arguments
    cat "$work/err" >>"$work/out" # psort says it there
    is 0 && says '^check: ok$' && lines 0
  done <<END
fib 30
nqueens 10
uts T1
cilksort 300000
matmul 256
heat 128
nbody 1024 --verify
locals 5
psort $work/numbers -o $work/numbers.out
END
  cmp "$work/numbers.out" "$work/numbers.sorted" >"$work/err" 2>&1 || complain "$* psort: differs from sort"
}
# How many lines of errors are Ayatori's?
lines() {
  count=$(grep -c '^ayatori' "$work/err")
  [ "$count" = "$1" ] || complain "$called: $count lines of errors, expected $1"
}
# The job's reason is told once, whatever its processes say of each other.
reasons() {
  count=$(grep -c '^ayatori: ' "$work/err")
  [ "$count" = "$1" ] || complain "$called: $count reasons, expected $1"
}
# No process of these programs is left.
nothing_left() {
  for try in $(seq 50); do
    left=$(find /proc -maxdepth 2 -name exe -lname "$work/*" 2>/dev/null)
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  complain "$called: left behind: $left"
}
# two_hosts NETWORK: two machines, as far as a network can tell: namespaces $one (NETWORK.1) and $two (NETWORK.2) joined by
# a veth pair, without loopback between them; $apart reaches them. Fails, and says so, where that is not to be had.
two_hosts() {
  one=ayt$$a two=ayt$$b
  if [ "$(id -u)" != 0 ] || ! ip netns add $one 2>/dev/null; then
    echo "not run: two network namespaces (needs root, and a kernel that lets it)"
    return 1
  fi
  trap 'ip netns del $one 2>/dev/null; ip netns del $two 2>/dev/null; rm -rf "$work"' EXIT
  ip netns add $two
  ip -n $one link add veth0 type veth peer name veth0 netns $two
  ip -n $one addr add "$1.1/24" dev veth0
  ip -n $two addr add "$1.2/24" dev veth0
  for name in $one $two; do ip -n $name link set veth0 up && ip -n $name link set lo up; done
  # shellcheck disable=SC2034 # for the caller
  apart='ip netns exec {host} sh -c {command}'
}
finish() {
  [ $bad = 0 ] && echo "$cases calls did as they should"
  exit $bad
}
