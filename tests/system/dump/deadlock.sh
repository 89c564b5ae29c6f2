#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A dump names threads that wait for each other in a cycle, once, with what each holds; and no others.
# Usage: deadlock.sh BIN PROGRAM WORK PROCESSES CASE (of deadlock.cpp)
bin=$1 program=$2 processes=$4 which=$5
work=$3/deadlock-$processes-$which
rm -rf "$work" && mkdir -p "$work" || exit 2
: >"$work/out" && : >"$work/err"
"$bin/ayatori" run -n "$processes" -w 2 "$program" "$which" "$work/go" >"$work/out" 2>"$work/err" &
pid=$!
end() {
  touch "$work/go"
  kill -TERM $pid 2>/dev/null
  wait $pid
}
fail() {
  echo "FAILED: $*"
  cat "$work/out" "$work/err"
  end
  exit 1
}
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
"$bin/ayatori" dump $pid 2>"$work/asked" || fail "ayatori dump: $(cat "$work/asked")"
await "$work/err" 'end of the dump' "$processes"
dumps=1
while [ "$which" = busy ] && [ $dumps -lt 60 ]; do
  "$bin/ayatori" dump $pid 2>"$work/asked" || fail "ayatori dump: $(cat "$work/asked")"
  dumps=$((dumps + 1))
  await "$work/err" 'end of the dump' $((dumps * processes))
done
# The lines of the cycle, without process prefixes: "thread N at process P ...".
sed -n '/: deadlock: /,/^ayatori\[[0-9]*\]: [^ ]/p' "$work/err" | sed 's/^ayatori\[[0-9]*\]: //' >"$work/cycle"
heads=$(grep -c '^deadlock: ' "$work/cycle")
last=$((processes - 1))
n='\([0-9][0-9]*\)'
# pair FIRST SECOND: both patterns match a line each, and the numbers that they find are the same, crosswise:
# holder, held, wanted, wanted's holder
pair() {
  a=$(sed -n "s/^    $1\$/\\1 \\2 \\3 \\4/p" "$work/cycle" | head -n 1)
  b=$(sed -n "s/^    $2\$/\\4 \\3 \\2 \\1/p" "$work/cycle" | tail -n 1)
  [ -n "$a" ] && [ "$a" = "$b" ] || fail "the cycle is not $1 ... $2"
}
case $which in
  chain | busy)
    [ "$heads" = 0 ] || fail "a cycle where there is none"
    [ $which = busy ] || grep -q "waits for mutex [0-9]*, held by thread [0-9]*, which is at process $last" "$work/err" || fail "no holder"
    touch "$work/go"
    wait $pid || fail "status $?"
    echo "ok"
    exit 0
    ;;
  locks | writers)
    what=mutex
    [ $which = locks ] || what='read-write lock'
    [ "$heads" = 1 ] || fail "$heads cycles instead of one"
    grep -q '^deadlock: 2 threads wait for each other' "$work/cycle" || fail "not two threads"
    pair "thread $n at process 0 holds $what $n and waits for $what $n, held by thread $n at process $last" \
      "thread $n at process $last holds $what $n and waits for $what $n, held by thread $n at process 0"
    ;;
  join)
    [ "$heads" = 1 ] || fail "$heads cycles instead of one"
    grep -q "^    thread [0-9]* at process 0 holds mutex [0-9]* and waits for the end of thread [0-9]* at process $last\$" \
      "$work/cycle" || fail "not the holder that joins"
    grep -q "^    thread [0-9]* at process $last waits for mutex [0-9]*, held by thread [0-9]* at process 0\$" \
      "$work/cycle" || fail "not the child that locks"
    ;;
  self)
    [ "$heads" = 1 ] || fail "$heads cycles instead of one"
    grep -q "^    thread $n at process $last holds mutex $n and waits for mutex \\2, held by thread \\1 at" \
      "$work/cycle" || fail "not itself"
    ;;
esac
end
echo "ok"
