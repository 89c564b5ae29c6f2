#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Threads of one job on several hosts: `ayatori run --hosts` with shells instead of ssh, for three hosts that are this machine,
# started one by one with addresses of the kernel's choice unless the launcher sees to it; where this is root's, for two hosts
# that are network namespaces joined by a veth pair, with the link cut in the midst of a run. What cannot be one job says why.
# Usage: hosts_threads.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../../../scripts/lib.sh"
for program in fib nqueens uts cilksort nbody locals ordinary c_api from_main apart_ends; do cp "$bin/$program" "$work/bin"; done
here='exec sh -c {command} # {host}'
stats=$work/stats.json
hosts() { call "$bin/ayatori" run --hosts "$@"; }
# runs HOSTS_AND_OPTIONS... PROGRAM...: right, and threads went to other processes
runs() {
  hosts "$@"
  is 0 && says '^check: ok$' && lines 0
}
moved() {
  [ "$(stat_total "$stats" steals_remote)" -gt 0 ] || complain "$called: no thread was stolen by another process"
}

# Five processes on three hosts: some have a neighbour, with whom they share memory, the others are reached by the network.
shared() {
  by_memory=$(stat_total "$stats" messages_by_memory)
  sent=$(stat_total "$stats" messages_sent)
  { [ "$by_memory" -gt 0 ] && [ "$by_memory" -lt "$sent" ]; } ||
    complain "$called: $by_memory of $sent messages went by memory"
}
ucx=$(ucx_if_here)
for transport in auto ${ucx:+shm+ucx}; do
  set -- a,b,c -n 5 --rsh "$here" --transport "$transport" --stats="$stats" --
  runs "$@" "$work/bin/fib" 36 && moved && shared
  runs "$@" "$work/bin/cilksort" 8000000 && moved && shared
  runs "$@" "$work/bin/locals" 20
done
for transport in tcp $ucx; do
  set -- a,b,c -n 5 --rsh "$here" --transport "$transport" --stats="$stats" --
  runs "$@" "$work/bin/fib" 36 && moved
  runs "$@" "$work/bin/cilksort" 8000000 && moved
  runs "$@" "$work/bin/locals" 20
done
# Three processes a host: idle workers ask those of their own first. If they asked at random, three steals of five would come
# from the other host.
all=0 beyond=0
for run in 1 2 3 4; do
  runs a,b --rsh "$here" -n 6 --stats="$stats" -- "$work/bin/uts" T1
  all=$((all + $(stat_total "$stats" steals_remote)))
  beyond=$((beyond + $(stat_total "$stats" steals_beyond)))
done
{ [ $beyond -gt 0 ] && [ $((2 * beyond)) -lt $all ]; } ||
  complain "$beyond of $all steals came from another host"
hosts a,b,c --rsh "$here" -w 2 --stats -- "$work/bin/nqueens" 11
is 0 && says '^check: ok$' && tells 'statistics of .*nqueens .3 processes.' && tells 'steals_remote'
runs a,b --rsh "$here" -w 2 -- "$work/bin/uts" T1
runs a,b --rsh "$here" -n 4 -- "$work/bin/nbody" 1024 --verify
hosts a,b,c --rsh "$here" -n 3 -w 2 -- "$work/bin/ordinary"
is 0 && lines 0
hosts a,b,c --rsh "$here" -n 3 -w 2 -- "$work/bin/c_api"
is 0 && lines 0
hosts a,b --rsh "$here" -n 3 -w 2 -- "$work/bin/from_main"
is 0 && lines 0

# What cannot be one job.
hosts a,b --rsh "$here" --transport shm "$work/bin/fib" 20
is 125 && tells 'does not reach' && lines 1
mkdir "$work/a" "$work/b"
cp "$work/bin/fib" "$work/a/prog"
cp "$work/bin/nqueens" "$work/b/prog"
hosts a,b --rsh "PATH='$work'/{host}; export PATH; exec /bin/sh -c {command}" prog 10
is 125 && tells 'process 1 on host b: the programs differ' && lines 1
hosts a,b --rsh "case {host} in b) export AYATORI_STACK_SIZE=128K ;; esac; exec sh -c {command}" "$work/bin/fib" 20
is 125 && tells 'AYATORI_STACK_SIZE' && lines 1
hosts a,b --rsh "case {host} in b) ulimit -s unlimited ;; esac; exec sh -c {command}" "$work/bin/fib" 20
is 125 && tells 'their addresses differ' && lines 1
hosts a,b --rsh "exec '$bin/confine' --seccomp /bin/sh -c {command} # {host}" "$work/bin/fib" 20
is 125 && tells 'their addresses differ; is personality' && lines 1
hosts a,b --rsh "exec '$bin/confine' --no-ptrace /bin/sh -c {command} # {host}" "$work/bin/fib" 20
is 125 && tells 'stack protectors have different secrets' && lines 1
# An exit inside the run, on the other host, is the end of the job.
for status_asked in 0 3; do
  hosts a,b --rsh "$here" "$work/bin/apart_ends" "exit$status_asked"
  is $status_asked
done

if two_hosts 10.213.79; then
  for transport in auto tcp $ucx; do
    set -- "$one,$two" -n 4 --rsh "$apart" --transport "$transport" --stats="$stats" --
    runs "$@" "$work/bin/fib" 36 && moved
    runs "$@" "$work/bin/cilksort" 8000000 && moved
    runs "$@" "$work/bin/nbody" 8192 --verify && moved
    runs "$@" "$work/bin/nqueens" 11
    runs "$@" "$work/bin/locals" 10
  done
  hosts "$one,$two" -n 3 -w 2 --rsh "$apart" -- "$work/bin/ordinary"
  is 0 && lines 0
  # The link is cut in the midst of a run: each side misses the other by its heartbeat, and the job ends.
  (
    until ip netns exec "$one" grep -q ' 01 ' /proc/net/tcp; do sleep 0.1; done # they are connected
    ip -n "$two" link set veth0 down
  ) &
  cutter=$!
  hosts "$one,$two" -n 2 --rsh "$apart" "$work/bin/fib" 55
  wait $cutter
  is 134 && tells 'process [01] on host ayt.* is not reached any more|a process of the job is gone' && reasons 1
fi
nothing_left
finish
