#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A Slurm of this machine alone, two nodes, in a folder of its own: no service of the system is started or touched. srun
# --mpi=pmix joins its tasks to one job; without PMIx they refuse; a task that dies ends the job. Status 77, skipped, where
# Slurm is not installed or this is not root's (munge and slurmd want that).
# Usage: slurm.sh FOLDER_OF_PROGRAMS
# Where it may, in namespaces of its own: no port is taken, no process is left. Names are resolved only where there is another
# address than loopback.
apart='unshare --pid --fork --kill-child --mount-proc --net'
lan='ip link set lo up && ip link add veth0 type veth peer name veth1 && ip addr add 10.213.78.1/24 dev veth0 &&
  ip link set veth0 up && ip link set veth1 up'
if [ -z "${AYT_INSIDE:-}" ] && $apart sh -c "$lan" 2>/dev/null; then
  exec env AYT_INSIDE=1 $apart sh "$0" "$@"
fi
[ -z "${AYT_INSIDE:-}" ] || sh -c "$lan"
. "$(dirname "$0")/lib.sh"
PATH=$PATH:/usr/sbin
for program in slurmctld slurmd srun munged; do
  command -v $program >/dev/null || {
    echo "not run: $program is not installed (scripts/setup.sh --full)"
    exit 77
  }
done
[ "$(id -u)" = 0 ] || {
  echo "not run: slurmd and munged want root"
  exit 77
}

# Ends what this script has started, and that alone.
started=
stop_all() {
  for file in "$work"/*.pid; do
    [ -s "$file" ] || continue
    pid=$(cat "$file")
    [ "$pid" -gt 1 ] && kill "$pid" 2>/dev/null
  done
  for pid in $started; do kill "$pid" 2>/dev/null; done
  for try in 1 2 3 4 5 6 7 8 9 10; do
    alive=
    for pid in $(cat "$work"/*.pid 2>/dev/null) $started; do
      [ "$pid" -gt 1 ] && kill -0 "$pid" 2>/dev/null && alive="$alive $pid"
    done
    [ -n "$alive" ] || break
    sleep 0.3
  done
  for pid in $alive; do kill -9 "$pid" 2>/dev/null; done
  rm -rf "$work"
}
trap stop_all EXIT

chmod 755 "$work"
mkdir "$work/munge" "$work/state" "$work/spool" "$work/tmp-n1" "$work/tmp-n2"
# munged: its own socket and key.
dd if=/dev/urandom of="$work/munge/key" bs=1024 count=1 2>/dev/null
chmod 400 "$work/munge/key"
chmod 711 "$work/munge"
chown -R munge: "$work/munge"
setpriv --reuid=munge --regid=munge --clear-groups munged --force --foreground --key-file="$work/munge/key" \
  --socket="$work/munge/socket" --pid-file="$work/munge/pid" --log-file="$work/munge/log" \
  --seed-file="$work/munge/seed" >"$work/munged.out" 2>&1 &
started=$!

host=$(hostname -s)
# Ports that nobody uses now.
port=$((20000 + $$ % 20000))
cat >"$work/slurm.conf" <<END
ClusterName=scratch
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$work/munge/socket
CredType=cred/munge
SlurmctldPort=$port
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool/%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
TmpFS=$work/tmp-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
CommunicationParameters=NoInAddrAny
ReturnToService=2
MpiDefault=none
KillWait=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 1)) CPUs=2
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((port + 2)) CPUs=2
PartitionName=all Nodes=n1,n2 Default=YES OverSubscribe=FORCE MaxTime=INFINITE State=UP
END
export SLURM_CONF="$work/slurm.conf"
for try in $(seq 50); do
  [ -S "$work/munge/socket" ] && break
  sleep 0.1
done
slurmctld -D -f "$SLURM_CONF" -c >"$work/slurmctld.out" 2>&1 &
started="$started $!"
for node in n1 n2; do
  mkdir -p "$work/spool/$node"
  slurmd -D -f "$SLURM_CONF" -N $node >"$work/slurmd-$node.out" 2>&1 &
  started="$started $!"
done
idle_nodes() { timeout 5 sinfo -h -N -o %t 2>/dev/null | grep -c idle; }
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  [ "$(idle_nodes)" = 2 ] && break
  sleep 1
done
[ "$(idle_nodes)" = 2 ] || {
  for file in "$work"/*.log "$work"/*.out; do
    echo "--- $file"
    tail -n 20 "$file"
  done
  echo "Slurm did not start"
  exit 1
}

srun --mpi=list 2>&1 | grep -q pmix || {
  srun --mpi=list
  echo "not run: this Slurm has no PMIx (Debian's needs libpmix-dev)"
  exit 77
}
slurm() { call srun --immediate=30 --time=2 "$@"; }
slurm --mpi=pmix -N 2 -n 4 "$ring" 50
is 0 && says 'counter 200, 4 processes' && says '^check: ok$'
slurm --mpi=pmix -N 1 -n 1 "$ring" 50
is 0 && says 'counter 50, 1 processes'
slurm --mpi=none -N 2 -n 4 "$ring" 50
is 125 && tells 'srun --mpi=pmix' && lines 1
slurm --mpi=none -N 2 -n 4 "$bin/hello" 10
is 125 && tells 'srun --mpi=pmix' && lines 1
slurm --mpi=pmix -N 2 -n 4 "$probe" '*:near'
is 0 && says '^near 3, some by memory$'
for program in ayatori hello fib cilksort ordinary apart_ends; do cp "$bin/$program" "$work/bin"; done
slurm --mpi=pmix -N 2 -n 4 "$work/bin/hello" 10
is 0 && says 'on 4 processes'
slurm --mpi=pmix -N 2 -n 4 "$work/bin/apart_ends" near
is 0 && says '^most by memory$'
each_program slurm --mpi=pmix -N 2 -n 3
slurm --mpi=pmix -N 2 -n 4 "$work/bin/cilksort" 300000
is 0 && says '^check: ok$'
slurm --mpi=pmix -N 2 -n 3 "$work/bin/ordinary"
is 0 && says '^check: ok$'
slurm --mpi=pmix -N 1 -n 1 "$work/bin/hello" 10
is 0 && says 'on 1 processes'
slurm --mpi=none -N 1 -n 1 "$bin/ayatori" run -n 2 "$bin/hello" 10
is 0 && says 'on 2 processes'
slurm --mpi=pmix -K -N 2 -n 4 "$probe" 3:kill-joined
[ "$status" != 0 ] || complain "$called: status 0"
slurm --mpi=pmix -K -N 2 -n 4 "$probe" 3:exit-before:5
[ "$status" != 0 ] || complain "$called: status 0"
nothing_left
finish
