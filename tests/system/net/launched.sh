#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs of the communication library alone and under `ayatori run`, over shm, tcp and ucx; what processes that end at the wrong
# time do to the job.
# Usage: launched.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"

ucx=$(ucx_if_here)
leaks=${ASAN_OPTIONS:-}
for name in auto shm tcp $ucx; do
  # LeakSanitizer does not survive an exit beside UCX's memory, which a transport that was not closed goes on using.
  if [ "$name" = ucx ]; then export ASAN_OPTIONS="$leaks:detect_leaks=0"; fi
  call env AYATORI_TRANSPORT=$name "$ring" 50
  is 0 && says '^sum 1275, counter 50, 1 processes' && says '^check: ok$' && lines 0
  call "$bin/ayatori" run -n 4 --transport $name "$ring" 50
  is 0 && says 'counter 200, 4 processes' && says '^check: ok$' && lines 0
  call "$bin/ayatori" run -n 3 --transport $name "$probe" '*:memory' '*:twice'
  is 0 && says '^joined 2 of 3$' && says '^bye 1$' && lines 0
  call "$bin/ayatori" run -n 2 --transport $name "$probe" 1:return:7
  is 7 && lines 0

  call "$bin/ayatori" run -n 3 --transport $name "$probe" 1:exit-before:5
  is 5 && tells 'process 1 .*exited .*without calling ayatori::net::open' && lines 1
  call "$bin/ayatori" run -n 3 --transport $name "$probe" 2:exit-before:0
  is 125 && tells 'process 2 .*exited .*without calling ayatori::net::open' && lines 1
  call "$bin/ayatori" run -n 3 --transport $name "$probe" 0:kill-before
  is 137 && tells 'process 0 .*was killed by signal 9' && lines 1
  call env AYATORI_START_TIMEOUT=3 "$bin/ayatori" run -n 3 --transport $name "$probe" 1:hang-before
  is 125 && tells 'process.* 1.* did not call ayatori::net::open within 3 s' && lines 1
  call "$bin/ayatori" run -n 3 --transport $name "$probe" 1:exit-joined:6
  is 6 && tells 'process 1 .*status 6 while it held a transport'
  call "$bin/ayatori" run -n 3 --transport $name "$probe" 1:kill-joined
  is 137 && tells 'process 1 .*was killed by signal 9'
  call "$bin/ayatori" run -n 2 --transport $name "$probe" 1:forget
  is 0 && says '^bye 0$'
done

for name in shm tcp $ucx; do
  call "$bin/ayatori" run -n 2 --transport $name --stats="$work/stats.json" "$ring" 50
  is 0
  # Each process writes 50 words and gets some.
  sed -n '/"total"/,$p' "$work/stats.json" | grep -qE '"bytes_sent": *[1-9][0-9]{2,}' ||
    { cp "$work/stats.json" "$work/out" && complain "no bytes in the statistics over $name"; }
done

# Requests by offloading.
for mode in offload worker; do
  for name in shm tcp $ucx; do
    call env AYATORI_NET_OFFLOAD=$mode "$bin/ayatori" run -n 3 --transport $name "$ring" 50
    is 0 && says 'counter 150, 3 processes' && says '^check: ok$' && lines 0
  done
  call env AYATORI_NET_OFFLOAD=$mode AYATORI_NET_EXECUTORS=3 AYATORI_NET_TAGS=16 "$bin/ayatori" run -n 4 --transport tcp "$ring" 50
  is 0 && says '^check: ok$' && lines 0
  call env AYATORI_NET_OFFLOAD=$mode "$ring" 50
  is 0 && says '^check: ok$' && lines 0
  call env AYATORI_NET_OFFLOAD=$mode "$bin/ayatori" run -n 2 "$probe" 1:kill-joined
  is 137 && tells 'process 1 .*was killed by signal 9'
  call env AYATORI_NET_OFFLOAD=$mode "$bin/ayatori" run -n 2 "$probe" 1:forget
  is 0 && says '^bye 0$'
done
for wrong in AYATORI_NET_OFFLOAD=sometimes AYATORI_NET_EXECUTORS=0 AYATORI_NET_EXECUTORS=9 AYATORI_NET_TAGS=15; do
  call env $wrong "$ring"
  is 125 && tells "$wrong" && lines 1
done

# Members that use the library, and one binary that has all of it.
call "$bin/ayatori" run -n 3 -w 1 "$bin/net_both"
is 0 && says '^check: ok$'
call "$bin/net_both"
is 0 && says '^check: ok$'

call env AYATORI_TRANSPORT=pigeon "$ring"
is 125 && tells 'AYATORI_TRANSPORT=pigeon' && lines 1
call env AYATORI_NET_MEMORY=1M "$bin/ayatori" run -n 2 "$ring" 100000
is 0 && says '^check: ok$'
call "$bin/ayatori" run -n 2 --transport tcp "$bin/fib" 10
is 0 && says '^check: ok$'
nothing_left
finish
