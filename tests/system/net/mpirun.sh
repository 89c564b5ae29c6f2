#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Open MPI's mpirun, which serves PMIx: programs of the communication library and programs with threads join, ends at the
# wrong time end the job. Status 77, skipped, where mpirun is not installed.
# Usage: mpirun.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"
if ! command -v mpirun >/dev/null || ! mpirun --version 2>/dev/null | grep -q 'Open MPI'; then
  echo "not run: Open MPI's mpirun is not installed (openmpi-bin)"
  exit 77
fi
# Its own folder for sockets, no remote shells, loopback alone.
export TMPDIR="$work" OMPI_MCA_orte_tmpdir_base="$work" OMPI_MCA_plm_rsh_agent=false OMPI_MCA_oob_tcp_if_include=lo
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # libpmix leaves memory behind
mpi() { call mpirun --allow-run-as-root --oversubscribe "$@"; }

mpi -n 1 "$ring" 50
is 0 && says 'counter 50, 1 processes' && says '^check: ok$'
mpi -n 4 "$ring" 50
is 0 && says 'counter 200, 4 processes' && says '^check: ok$' && lines 0
for name in $(ucx_if_here); do
  mpi -n 3 -x AYATORI_TRANSPORT=$name "$ring" 50
  is 0 && says 'counter 150, 3 processes' && says '^check: ok$' && lines 0
done
mpi -n 1 -x AYATORI_TRANSPORT=shm "$ring" 50
is 0 && says 'counter 50, 1 processes'
# Processes of one machine share memory: what they write, and the memory that they allocate.
mpi -n 3 "$probe" '*:memory' '*:near'
is 0 && says '^near 2, some by memory$' && ! grep -q 'none by memory' "$work/out" || complain "$called: over the network"
lines 0
mpi -n 3 -x AYATORI_TRANSPORT=tcp "$probe" '*:memory' '*:near'
is 0 && says '^near 2, none by memory$' && lines 0
# One that has another size of memory stays out, and says so.
mpi -n 2 "$probe" '*:near' : -n 1 -x AYATORI_NET_MEMORY=100M "$probe" '*:near'
is 0 && says '^near 2, some by memory$' && tells 'process 2: no memory is shared .*AYATORI_NET_MEMORY'
mpi -n 2 -x AYATORI_TRANSPORT=shm "$ring" 5
is 125 && tells 'use shm[+]tcp'
# Programs with threads: each process is started again by `ayatori`, which lies beside it or in PATH.
if [ -z "${AYT_SANITIZED:-}" ]; then
  for program in hello fib locals cilksort ordinary apart_ends ayatori; do cp "$bin/$program" "$work/bin"; done
  mpi -n 2 "$work/bin/hello" 10
  is 0 && says 'on 2 processes' && lines 0
  each_program mpi -n 3
  mpi -n 2 -x AYATORI_WORKERS=2 "$work/bin/cilksort" 300000
  is 0 && says '^check: ok$' && lines 0
  mpi -n 3 "$work/bin/ordinary"
  is 0 && says '^check: ok$' && lines 0
  for name in $(ucx_if_here); do
    mpi -n 3 -x AYATORI_TRANSPORT=$name "$work/bin/fib" 30
    is 0 && says '^check: ok$' && lines 0
  done
  mpi -n 3 "$work/bin/apart_ends" near
  is 0 && says '^most by memory$' && lines 0
  mpi -n 3 -x AYATORI_TRANSPORT=tcp "$work/bin/apart_ends" near
  is 0 && says '^none by memory$' && lines 0
  for case in many late quick statics; do
    mpi -n 3 "$work/bin/apart_ends" $case
    is 0 && lines 0
  done
  mpi -n 3 "$work/bin/apart_ends" early
  # Those who wait say it, unless mpirun, which tells the status itself, has ended them before.
  is 4 && tells 'process 1 on host .* exited with status 4 without calling ayatori::run|Exit code: +4'
  mpi -n 3 "$work/bin/apart_ends" killed-after
  is 134 && tells 'process 1 .* was killed by signal 6'
  mpi -n 2 -x AYATORI_TRANSPORT=shm "$work/bin/hello" 10
  is 125 && tells 'does not reach'
  mkdir "$work/alone"
  cp "$bin/hello" "$work/alone"
  mpi -n 2 "$work/alone/hello" 10
  is 125 && tells 'need the command .ayatori., which is neither in .*alone nor in PATH' && lines 1
  mpi -n 2 -x PATH="$work/bin:$PATH" "$work/alone/hello" 10
  is 0 && says 'on 2 processes' && lines 0
  mpi -n 1 "$bin/hello" 10
  is 0 && says 'on 1 processes' && lines 0
  mpi -n 1 "$bin/ayatori" run -n 2 "$bin/hello" 10
  is 0 && says 'on 2 processes' && lines 0
fi
mpi -n 3 "$probe" 1:exit-before:5
is 5
mpi -n 3 "$probe" 1:kill-before
[ "$status" != 0 ] || complain "$called: status 0"
mpi -n 3 -x AYATORI_START_TIMEOUT=4 "$probe" 1:hang-before
is 125 && tells 'did not all join within 4 s'
mpi -n 3 "$probe" 2:kill-joined
[ "$status" != 0 ] || complain "$called: status 0"
nothing_left
finish
