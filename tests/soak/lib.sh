# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by run.sh and threads/run.sh: one job under a limit, what it leaves, where its threads wait.
limit_s=${AYT_SOAK_LIMIT_S:-60}
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failures=0

# Processes of this script's jobs: found by a variable in their environment.
AYATORI_TEST_SOAK=$$-$(date +%s)
export AYATORI_TEST_SOAK
members() {
  for file in $(grep -lszx "AYATORI_TEST_SOAK=$AYATORI_TEST_SOAK" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    pid=${pid%/environ}
    case $(readlink "/proc/$pid/exe" 2>/dev/null) in
      */ayatori | */soak_mixed | */soak_threads) echo "$pid" ;;
    esac
  done
}
names() { ls /dev/shm 2>/dev/null | sort; }
names >"$work/names.before"

where_they_wait() {
  echo "-- where its threads wait:"
  kill -QUIT "$1" 2>/dev/null && sleep 1
  if command -v gdb >/dev/null; then
    for pid in $(members); do
      echo "-- process $pid"
      timeout 30 gdb -p "$pid" -batch -ex 'thread apply all backtrace 12' </dev/null 2>/dev/null | grep -E '^(Thread|#)'
    done
  fi
}

# run_job COMMAND: its output goes to $work/out; $why is empty, or says what is wrong.
run_job() {
  $1 >"$work/out" 2>&1 </dev/null &
  job=$! ticks=0
  while kill -0 $job 2>/dev/null && [ $ticks -lt $((limit_s * 20)) ]; do
    sleep 0.05
    ticks=$((ticks + 1))
  done
  why=
  if kill -0 $job 2>/dev/null; then
    why="does not end within $limit_s s"
    where_they_wait $job >>"$work/out" 2>&1
    kill -KILL $job 2>/dev/null
  fi
  wait $job 2>/dev/null
  status=$?
  [ -n "$why" ] || [ $status = 0 ] || why="status $status"
  [ -n "$why" ] || [ "$(tail -n 1 "$work/out")" = "check: ok" ] || why="the last line is not 'check: ok'"
  left=$(members)
  if [ -n "$left" ]; then
    sleep 1
    left=$(members)
    # shellcheck disable=SC2086
    [ -z "$left" ] || {
      why="${why:+$why; }processes are left: $(echo $left)"
      kill -KILL $left 2>/dev/null
    }
  fi
}

# report COMMAND: after run_job, counts and prints the failure.
report() {
  failures=$((failures + 1))
  echo "FAILED: $1"
  echo "        $why"
  tail -n 200 "$work/out"
}

names_left() {
  names >"$work/names.after"
  cmp -s "$work/names.before" "$work/names.after" && return
  added=$(comm -13 "$work/names.before" "$work/names.after" | grep -iE 'ayatori|ucx')
  [ -z "$added" ] || {
    echo "FAILED: left in /dev/shm: $added"
    failures=$((failures + 1))
  }
}
