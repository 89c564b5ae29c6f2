#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# listed.sh BIN: README.md lists the kinds that there are, at least 24; a plan covers every valid pair; the same arguments
# give the same plan.
set -eu
bin=$1
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$bin/soak_threads" --list | sort >"$work/kinds"
sed -n 's/^| `\([a-z_]*\)` |.*/\1/p' "$here/README.md" | sort >"$work/listed"
diff "$work/kinds" "$work/listed" || {
  echo "README.md lists other kinds"
  exit 1
}
[ "$(wc -l <"$work/kinds")" -ge 24 ]
for again in 1 2; do "$bin/soak_plan" 300 5 <"$work/kinds" >"$work/plan.$again" 2>"$work/covered"; done
cmp "$work/plan.1" "$work/plan.2"
grep -Eq '^([0-9]+) of \1 valid pairs' "$work/covered" || {
  cat "$work/covered"
  exit 1
}
# Counted once more, here: the pairs of two columns in the plan.
pairs=0
for a in 1 4 5 6 7; do
  for b in 1 4 5 6 7; do
    [ $a -lt $b ] || continue
    pairs=$((pairs + $(awk "{ print \$$a, \$$b }" "$work/plan.1" | sort -u | wc -l)))
  done
done
grep -q "^$pairs of $pairs " "$work/covered" || {
  echo "the plan has $pairs pairs, but: $(cat "$work/covered")"
  exit 1
}
! awk '$5 == 1 && $4 != "shm"' "$work/plan.1" | grep . # one process has one transport
echo "check: ok"
