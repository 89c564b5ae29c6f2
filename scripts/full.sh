#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the claims of scripts/full/ one after the other and prints one line a claim; called by ./check --full, which has
# set up and built build/release. Leaves the two counts in build/full/{passed,failed} and a log of each claim.
# Usage: full.sh [NN...]      only the claims whose names begin with one of these
#
# A claim is a script NN-name.sh: its first comment after the licence is the claim, its last line of output the verdict,
# its status 0 (shown), 77 (what it needs is not there: missing, which counts as failed) or another (failed).
cd "$(dirname "$0")/.." || exit 2
. scripts/lib.sh
mkdir -p build/full
passed=0 failed=0
for script in scripts/full/[0-9]*.sh; do
  claim=$(basename "$script" .sh)
  if [ $# -gt 0 ]; then
    wanted=no
    for prefix in "$@"; do case $claim in "$prefix"*) wanted=yes ;; esac; done
    [ $wanted = yes ] || continue
  fi
  began=$(now_s)
  sh "$script" >"build/full/$claim.log" 2>&1
  case $? in
    0) state=shown passed=$((passed + 1)) ;;
    77) state=missing failed=$((failed + 1)) ;;
    *) state=FAILED failed=$((failed + 1)) ;;
  esac
  printf '%-8s %-20s %6d s  %s\n' $state "$claim" $(($(now_s) - began)) "$(tail -n 1 "build/full/$claim.log")"
done
echo $passed >build/full/passed
echo $failed >build/full/failed
