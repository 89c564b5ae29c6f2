#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The gdb commands of tools/gdb, of processes and of a core file: every thread is listed with what it waits for and where,
# stacks are whole, what is not there is said, and the program goes on. 77: no gdb with Python, or it may not trace, or there
# are no core files in the working folder.
# Usage: gdb.sh BIN PROGRAM WORK HOW ENGINE; HOW: breakpoint (1 process), attach (2, both), one (2, of which one), core (2)
bin=$1 program=$2 how=$4 AYATORI_ENGINE=$5
export AYATORI_ENGINE
work=$3/gdb-$how-$5
unset DEBUGINFOD_URLS
gdb -nx -batch -ex 'python import gdb.unwinder' >/dev/null 2>&1 || exit 77
rm -rf "$work" && mkdir -p "$work" && cd "$work" || exit 2
: >out && : >err
pid=
fail() {
  echo "FAILED: $*"
  cat out err got
  touch go
  [ -z "$pid" ] || wait $pid
  rm -f core*
  exit 1
}
gdb_() { timeout 100 gdb -nx -batch -x "$bin/../share/ayatori/ayatori.gdb" "$@" >got 2>&1 || fail "gdb: status $?"; }
start() {
  "$bin/ayatori" run -n 2 -w 1 "$program" go >out 2>err &
  pid=$!
  tries=0
  until grep -q '^standing' out; do
    kill -0 $pid 2>/dev/null || fail "the job has ended"
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "it does not stand"
    sleep 0.05
  done
  members=$(pgrep -P $pid -f "^$program" | sort -n)
  first=$(echo "$members" | head -n 1) second=$(echo "$members" | tail -n 1)
}
goes_on() {
  touch go
  wait $pid || fail "status $?"
  grep -q '^went on' out || fail "it did not go on"
}
# has PATTERN COUNT: so many lines match
has() { [ "$(grep -c -- "$1" got)" = "$2" ] || fail "not $2 lines with '$1'"; }
here='[^ ]*program.cpp:[0-9]*$'

case $how in
  breakpoint)
    AYATORI_WORKERS=2 gdb_ -ex 'break stop_here' -ex run -ex 'ayatori threads' -ex 'ayatori bt all' \
      -ex 'python sleeper = next(t.number for _, t in each_thread() if t.state == "sleeping")' \
      -ex 'python gdb.execute("ayatori thread %d" % sleeper)' -ex 'echo selected:\n' -ex bt -ex 'ayatori thread off' \
      -ex 'echo own:\n' -ex bt -ex 'shell touch go' -ex continue --args "$program" go
    where=0
    grep -q '^went on' got || fail "it did not go on"
    sed -n '/^selected:/,/^own:/p' got | grep -q '^#[0-9]* .*sleep_here' || fail "the thread was not selected"
    sed -n '/^own:/,$p' got | grep -q '^#0 .*stop_here' || fail "the selection stays"
    sed -i '/^#1 .*on_native/,$d' got
    ;;
  attach)
    start
    gdb_ -p "$first" -ex add-inferior -ex 'inferior 2' -ex "attach $second" -ex 'ayatori threads' -ex 'ayatori bt all'
    where=1
    ;;
  one)
    start
    gdb_ -p "$first" -ex 'ayatori threads' -ex 'ayatori bt all'
    where=
    has 'waits for the end of thread [0-9]*, process 1: its stack is with process 1$' 1
    has '^    (its stack is with process 1)' 1
    ;;
  core)
    case $(cat /proc/sys/kernel/core_pattern) in
      core*) ;;
      *) exit 77 ;;
    esac
    ulimit -c unlimited 2>/dev/null || exit 77
    "$bin/ayatori" run -n 2 -w 1 "$program" go abort >out 2>err && fail "it did not abort"
    file=$(ls core* 2>/dev/null | head -n 1)
    [ -n "$file" ] || exit 77
    gdb_ "$program" "$file" -ex 'ayatori threads' -ex 'ayatori bt all'
    rm -f core*
    where=
    has 'waits for the end of thread [0-9]*, process 1: its stack is with process 1$' 1
    ;;
esac
grep -qi 'ptrace: Operation not permitted\|ptrace.*not permitted' got && exit 77
grep -q '^not moved' out && fail "the sleeper was not stolen"
has "^thread [0-9]*: running on worker 0.[01], process 0: stop_here () at $here" 1
has "^thread [0-9]*: waits for mutex [0-9]*, held by thread [0-9]*, process 0: lock_here () at $here" 1
has "^thread [0-9]*: sleeps, process 0: sleep_here () at $here" 1
has "^thread [0-9]*: waits for the end of thread [0-9]*, process 0: operator() () at $here" 1
[ -z "$where" ] || has "^thread [0-9]*: waits for the end of thread [0-9]*, process $where: join_here () at $here" 1
has '^5 threads$' 1
# Stacks are whole: all of the deep one, the bottom of each, and nothing that gdb has no name for.
whole=5
[ -n "$where" ] || whole=4
has '^    #[0-9]* .* in deep_here ()' 11
has '^    #[0-9]* .* in ayt_thread_entry ()$' $whole
grep -q '^    #.*??\|corrupt\|Python Exception\|rror:\|cannot be read\|not in this core' got && fail "a stack is not whole"
[ -z "$pid" ] || goes_on
echo "ok"
