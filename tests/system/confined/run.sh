#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh CONFINE BIN: programs of the main job in a confinement like a default container's: right results, statistics
# that prove work between processes, and `ayatori info` that names the fault engine in force.
set -u
confine=$1
bin=$2
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
# The build may lie where an unprivileged user cannot look.
cp "$bin"/ayatori "$bin"/fib "$bin"/nqueens "$bin"/cilksort "$bin"/locals "$bin"/nbody "$dir"/ || exit 1
chmod 755 "$dir" "$dir"/*
cd "$dir" || exit 1
failed=0
try() { # WHAT COMMAND...
  what=$1
  shift
  if out=$(timeout 120 "$@" 2>&1) && printf '%s\n' "$out" | grep -q '^check: ok'; then
    echo "ok: $what"
  else
    echo "FAILED: $what"
    printf '%s\n' "$out" | tail -5
    failed=1
  fi
}
for how in "--seccomp" "--user" "--limits" "--user --seccomp --limits"; do
  for program in "fib 24" "nqueens 9" "cilksort 300000" "locals 20" "nbody 2048"; do
    # shellcheck disable=SC2086
    try "$how $program -n 3 -w 2" "$confine" $how ./ayatori run -n 3 -w 2 ./$program
  done
done
# shellcheck disable=SC2086
try "limits, 64 processes" "$confine" --limits ./ayatori run -n 64 -w 1 ./fib 20
if "$confine" --seccomp ./ayatori info | grep -qi mprotect; then echo "ok: info names the fallback"; else
  echo "FAILED: info does not name the fallback"
  failed=1
fi
# The doctor agrees: jobs run in each confinement; without userfaultfd it warns and says what to do.
for how in "--seccomp" "--user" "--limits" "--user --seccomp --limits"; do
  # shellcheck disable=SC2086
  out=$("$confine" $how ./ayatori doctor 2>&1)
  status=$?
  case $how in *seccomp*) advice=$(echo "$out" | grep -A1 'warning *engine uffd' | grep -c -- '-> Let') ;; *) advice=1 ;; esac
  if [ $status = 0 ] && [ "$advice" = 1 ]; then echo "ok: $how doctor"; else
    echo "FAILED: $how doctor, status $status"
    printf '%s\n' "$out"
    failed=1
  fi
done
exit $failed
