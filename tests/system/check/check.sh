#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `ayatori run --check` names each mistake of the program and nothing else; a correct run is silent; the exit status is
# the program's. Usage: check.sh BIN PROGRAM WORK
bin=$1 program=$2 work=$3/check
rm -rf "$work" && mkdir -p "$work" || exit 2
fail() {
  echo "FAILED: $*"
  cat "$work/err"
  exit 1
}
"$bin/ayatori" run --check -n 3 -w 1 "$program" >"$work/out" 2>"$work/err"
[ $? = 3 ] || fail "the exit status is not the program's"
named() { grep -q "^ayatori: check: $1" "$work/err" || fail "not named: $1"; }
silent() { grep -q "$1" "$work/err" && fail "named though right: $1"; return 0; }
named "global 'counted_everywhere' (4 bytes): changed differently by processes 0, 1, 2 (0: 0x1, 1: 0x2, 2: 0x3)"
named "global 'changed_alone' (8 bytes): changed by process 1 only (0: 0x0, 1: 0xb, 2: 0x0)"
named "global 'large_table' (10000 bytes): changed by process 1 only;"
named "global '(anonymous namespace)::hidden_vector'"
named "function-local static '(anonymous namespace)::static_counter()::calls' (4 bytes): changed differently by"
named "pthread_mutex_lock on an object in the space, called by (anonymous namespace)::lock_std"
named "pthread_cond_[a-z]* on an object in the space, called by (anonymous namespace)::wait_std"
named "pthread_once on an object in the space, called by (anonymous namespace)::call_std.*use ayatori_once"
for right in changed_alike set_by_main constant shared_counter hidden_number static_table outside cout stdout 'ayatori::' \
  'guard variable'; do
  [ "$right" = ayatori:: ] || silent "'[^']*$right[^']*'"
done
silent "'ayatori::"
silent "called by .*main"
"$bin/ayatori" run --check -n 3 -w 1 "$program" --clean >"$work/out" 2>"$work/err"
[ $? = 3 ] || fail "the exit status is not the program's (--clean)"
[ ! -s "$work/err" ] || fail "a correct run is not silent"
"$bin/ayatori" run -n 3 -w 1 "$program" >"$work/out" 2>"$work/err"
[ $? = 3 ] || fail "the exit status without --check"
[ ! -s "$work/err" ] || fail "a line without --check"
for status in 0 7; do # exit() inside the run: what the process that calls it knows
  "$bin/ayatori" run --check -n 3 -w 1 "$program" --exit $status >"$work/out" 2>"$work/err"
  [ $? = $status ] || fail "the exit status of --exit $status"
  named "processes 0, 1 did not report: not compared"
  named "pthread_mutex_lock on an object in the space, called by (anonymous namespace)::lock_std"
  [ "$(grep -c "did not report" "$work/err")" = 1 ] || fail "told twice"
done
AYATORI_CHECK=1 "$program" >"$work/out" 2>"$work/err"
[ $? = 3 ] || fail "the exit status of one process"
grep -q "^ayatori: check: one process: globals cannot differ" "$work/err" || fail "one process is not told apart"
echo "ok"
