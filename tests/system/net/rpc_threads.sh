#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Handlers on user-level threads: over shm, over tcp between threads that share memory and between such that share none, with
# few turns and few workers, with one turn for a handler whose child asks back or while an OS thread asks, and by offloading; an exception in one; an RPC
# that comes too late, and one that the end of the run leaves behind; too many bytes of questions, too long an answer, a
# handler that exits its thread.
# Usage: rpc_threads.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"
cp "$bin/net_rpc_threads" "$work/bin"
threads=$work/bin/net_rpc_threads

call "$threads"
is 0 && says '^check: ok$' && lines 0
for transport in shm tcp; do
  for workers in 1 2; do
    call "$bin/ayatori" run -n 3 -w $workers --transport $transport "$threads"
    is 0 && says '^check: ok$' && lines 0
  done
done
call env AYATORI_RPC_THREADS=4 "$bin/ayatori" run -n 2 -w 1 "$threads"
is 0 && says '^check: ok$' && lines 0
for held in turn outside; do
  call env AYATORI_RPC_THREADS=1 "$bin/ayatori" run -n 2 "$threads" $held
  is 0 && says '^check: ok$' && lines 0
done
for mode in offload worker; do
  for transport in shm tcp; do
    call env AYATORI_NET_OFFLOAD=$mode "$bin/ayatori" run -n 2 --transport $transport "$threads"
    is 0 && says '^check: ok$' && lines 0
  done
done
call "$bin/ayatori" run -n 2 "$threads" inside
is 0 && lines 0
call "$bin/ayatori" run -n 2 "$threads" throws
is 134 && tells 'an exception left the handler 198 of ayatori::on_rpc: no such planet'
call "$bin/ayatori" run -n 2 "$threads" late
is 0 && says '^check: ok$'
call "$bin/ayatori" run -n 3 "$bin/rpc_threads"
is 0 && says '^check: ok$' && lines 0
# Nothing goes on with the handler that the run left behind.
for mode in direct offload worker; do
  call env ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" AYATORI_NET_OFFLOAD=$mode \
    "$bin/ayatori" run -n 2 "$threads" left
  is 0 && says '^check: ok$' && lines 0
done
for transport in shm tcp; do
  call env AYATORI_RPC_THREADS=1 "$bin/ayatori" run -n 2 --transport $transport "$threads" flood
  is 0 && says '^check: ok$' && lines 0
done
call "$bin/ayatori" run -n 2 "$threads" long
is 134 && tells 'the handler 207 of ayatori::on_rpc answers an RPC of the transport with [0-9]+ bytes, [0-9]+ are possible'
call "$bin/ayatori" run -n 2 "$threads" exits
is 134 && tells 'the handler 208 of ayatori::on_rpc exits its thread, which it may not'
call "$bin/ayatori" run -n 3 "$threads" bogus
is 0 && says '^check: ok$' && tells 'sent a question or an answer of 7 bytes that is none: it is dropped'
nothing_left
finish
