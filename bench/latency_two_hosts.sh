#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The case `latency` (ayatori bench latency) between two hosts: network namespaces joined by a veth pair, over tcp. Prints the
# samples, microseconds a step with 1 to 8 threads. Needs root; status 77 where there are no namespaces.
# Usage: latency_two_hosts.sh BUILD [--quick] [--repetitions=N]
build=$(cd "${1:-}" 2>/dev/null && [ -x bin/ayatori-bench-cases ] && pwd) || {
  echo "usage: latency_two_hosts.sh BUILD [--quick] [--repetitions=N]; BUILD has bin/ayatori-bench-cases" >&2
  exit 2
}
quick='' repetitions=5
for word in "$@"; do
  case $word in
    --quick) quick=--quick repetitions=1 ;;
    --repetitions=*) repetitions=${word#*=} ;;
  esac
done
folder=$(cd "$(dirname "$0")" && pwd)
set -- "$build/bin"
. "$folder/../tests/system/net/lib.sh"
two_hosts 10.213.91 || exit 77
while [ "$repetitions" -gt 0 ]; do
  repetitions=$((repetitions - 1))
  # shellcheck disable=SC2086  # none or one word
  call env AYATORI_BLOCK_SIZE=4K "$bin/ayatori" run --hosts "$one,$two" -n 2 -w 1 --rsh "$apart" -- \
    "$bin/ayatori-bench-cases" latency $quick
  is 0 && says '^sample.1 thread' && says '^sample.8 threads' && sed -n 's/^sample.//p' "$work/out"
done
finish
