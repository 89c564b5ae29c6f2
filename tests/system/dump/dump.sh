#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# SIGQUIT prints where the threads stand, and the job goes on: starts the program, asks, looks for one line and one
# function of each state. Usage: dump.sh BIN PROGRAM WORK PROCESSES WORKERS HOW [unstopped]; HOW: launcher, command, alone,
# own; unstopped: workers cannot be stopped in this build, and the dump says so instead of a running thread's functions
bin=$1 program=$2 processes=$4 workers=$5 how=$6 running=${7:-}
work=$3/dump-$processes-$workers-$how
rm -rf "$work" && mkdir -p "$work" || exit 2
: >"$work/out" && : >"$work/err"
fail() {
  echo "FAILED: $*"
  cat "$work/out" "$work/err"
  touch "$work/go"
  wait
  exit 1
}
case $how in
  alone) AYATORI_WORKERS=$workers "$program" "$work/go" >"$work/out" 2>"$work/err" & ;;
  own) "$bin/ayatori" run -n "$processes" -w "$workers" "$program" "$work/go" --own >"$work/out" 2>"$work/err" & ;;
  *) "$bin/ayatori" run -n "$processes" -w "$workers" "$program" "$work/go" >"$work/out" 2>"$work/err" & ;;
esac
pid=$!
# await FILE PATTERN COUNT: until COUNT lines of it match
await() {
  tries=0
  while [ "$(grep -c -- "$2" "$1")" -lt "$3" ]; do
    kill -0 $pid 2>/dev/null || fail "the job has ended before '$2' ($3 times)"
    tries=$((tries + 1))
    [ $tries -lt 600 ] || fail "no '$2' ($3 times)"
    sleep 0.05
  done
}
await "$work/out" '^standing' 1
if [ "$how" = own ]; then
  kill -QUIT $pid
  wait $pid || fail "status $?"
  grep -q '^its own handler ran' "$work/out" || fail "the program's handler was not called"
  grep -q 'end of the dump' "$work/err" && fail "a dump although the program has its own handler"
  echo "ok" && exit 0
fi
if [ "$how" = command ]; then
  "$bin/ayatori" dump $pid 2>"$work/asked" || fail "ayatori dump: $(cat "$work/asked")"
else
  kill -QUIT $pid
fi
await "$work/err" 'end of the dump' "$processes"
# A second one while the job goes on.
kill -QUIT $pid
await "$work/err" 'end of the dump' $((2 * processes))
touch "$work/go"
wait $pid || fail "status $?"
[ "$(grep -c '^went on' "$work/out")" = "$processes" ] || fail "the job did not go on"
if [ "${AYATORI_TRANSPORT:-shm}" = shm ]; then
  set -- 'waits for mutex' 'waits for condition variable' 'waits at barrier [0-9]*: 1 of 2'
else # process 0 keeps the objects
  set -- 'waits for a mutex of process 0' 'waits at process 0, which keeps what it waits for'
fi
for line in 'running on worker 0\.' 'waits for the end of thread' 'sleeps for another' 'waits in poll, descriptor [0-9]*, pinned' "$@"; do
  grep -q "^ayatori\[[0-9]*\]: thread [0-9]*: .*$line" "$work/err" || fail "no thread that $line"
done
spinning=spin_here
if [ -n "$running" ]; then
  grep -q 'running on worker .* (it could not be stopped to look at its stack)' "$work/err" || fail "not said: not stopped"
  spinning=
fi
for function in $spinning lock_here wait_here arrive_here sleep_here poll_here join_here stand; do
  grep -q "^ayatori\[[0-9]*\]:     #[0-9]* .*$function" "$work/err" || fail "no backtrace with $function"
done
grep -v '^ayatori\[[0-9]*\]: ' "$work/err" | grep -q . && fail "lines without the prefix"
echo "ok"
