#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `ayatori run --hosts` with shells instead of ssh: three hosts that are this machine; where this is root's, two hosts that are
# network namespaces joined by a veth pair, without loopback between them. What happens when hosts, commands, programs and
# members fail, and that nothing is left behind.
# Usage: hosts.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"
here='exec sh -c {command} # {host}'
hosts() { call "$bin/ayatori" run --hosts "$@"; }

hosts a,b,c --rsh "$here" "$ring" 50
is 0 && says 'counter 150, 3 processes' && says '^check: ok$' && lines 0
hosts a,b -n 5 --rsh "$here" -- "$ring" 50
is 0 && says 'counter 250, 5 processes' && lines 0
hosts a --rsh "$here" "$ring" 50
is 0 && says 'counter 50, 1 processes' && lines 0
call env AYATORI_HOSTS=a,b AYATORI_RSH="$here" AYATORI_PROCESSES=4 "$bin/ayatori" run "$ring" 50
is 0 && says 'counter 200, 4 processes' && lines 0
hosts a,b -n 4 --label --rsh "$here" "$probe"
is 0 && says '^\[3\] joined 3 of 4$' && says '^\[0\] bye 0$' && lines 0
hosts a,b -n 4 --rsh "$here" "$probe" 3:return:9
is 9 && lines 0
# A login shell that talks, a name with a quote in the folder, an argument with blanks and quotes.
mkdir "$work/it's here"
cp "$probe" "$work/it's here/p p"
cd "$work/it's here" || exit 1
hosts a,b --rsh "echo welcome to {host}; $here" "./p p" "*:memory" "9:a 'b' \"c\" \$d"
is 0 && says '^joined 1 of 2$' && lines 0
cd / || exit 1

hosts a,b --rsh "$here" /bin/sh -c 'true'
is 125 && tells 'not linked with Ayatori' && lines 1
hosts a,b -n 4 --rsh "$here" "$probe" 2:exit-before:5
is 5 && tells 'process 2 .*exited .*without calling ayatori::net::open' && lines 1
hosts a,b -n 4 --rsh "$here" "$probe" 2:kill-before
is 137 && tells 'host b: process 2 .* was killed by signal 9' && lines 1
hosts a,b -n 4 --rsh "$here" "$probe" 0:kill-joined
is 137 && tells 'host a: process 0 .* was killed by signal 9'
hosts a,b -n 4 --rsh "$here" "$probe" 3:exit-joined:6
is 6 && tells 'host b: process 3 .*status 6 while it held a transport'
call env AYATORI_START_TIMEOUT=4 "$bin/ayatori" run --hosts a,b -n 4 --rsh "$here" "$probe" 2:hang-before
is 125 && tells 'process.* 2 on b.* did not call ayatori::net::open within 4 s' && lines 1

# An agent that is called by somebody else, or hears nothing.
call sh -c "'$bin/ayatori' host-agent </dev/null | cat"
says '^ayatori-agent 1$' && lines 0
call sh -c "printf 'a line that is no frame at all\n' | '$bin/ayatori' host-agent >'$work/greeting'"
is 125 && lines 0

# Hosts that are not there.
hosts a,b --rsh 'case {host} in b) exit 255 ;; esac; sh -c {command}' "$probe"
is 125 && tells 'host b: .* ended with status 255 before an agent answered' && lines 1
call env AYATORI_START_TIMEOUT=4 "$bin/ayatori" run --hosts a,b --rsh 'case {host} in b) exec sleep 50 ;; esac; sh -c {command}' "$probe"
is 125 && tells 'no answer from b within 4 s' && lines 1
hosts a,b --rsh 'case {host} in b) yes; esac; sh -c {command}' "$probe"
is 125 && tells 'host b: what its agent says makes no sense' && lines 1
hosts a,b --rsh "$here" "$work/nothing"
is 127 && tells 'host [ab]: .*nothing: No such file' && lines 1

# Options that make no sense.
hosts a,-oProxyCommand=x --rsh "$here" "$ring"
is 125 && tells 'is not the name of a host' && lines 1
hosts a,,b "$ring"
is 125 && lines 1
hosts a,b,c -n 2 "$ring"
is 125 && tells 'each of the 3 hosts' && lines 1
hosts a,b --rsh 'ssh {host}' "$ring"
is 125 && tells 'no .command. in it' && lines 1
hosts a,b --rsh "$here" --gdb "$ring"
is 125 && tells 'one machine only' && lines 1
hosts a,b --rsh "$here" --transport shm "$ring"
is 125 && tells 'does not reach' && lines 1

# A signal to the launcher, its death, an agent's and a command's: the job ends and nothing is left.
children_of() { grep -lsE "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d / -f 3; }
# while_running SIGNAL NAME_OR_PID: sends it when all have joined; sets status.
while_running() {
  cases=$((cases + 1))
  called="$1 to $2"
  timeout -k 5 100 "$bin/ayatori" run --hosts a,b -n 4 --rsh "$here" "$probe" '*:hang-joined' >"$work/out" 2>"$work/err" </dev/null &
  watcher=$!
  for try in $(seq 500); do
    [ "$(grep -c '^joined' "$work/out")" = 4 ] && break
    sleep 0.1
  done
  launcher=$(children_of $watcher | head -n 1)
  case $2 in
    launcher) target=$launcher ;;
    command) target=$(for child in $(children_of "$launcher"); do
      grep -qsx ayatori-guard "/proc/$child/comm" || echo "$child"
    done | head -n 1) ;;
    member) target=$(sed -n 's/^pid 3 //p' "$work/out") ;;
  esac
  [ "${target:-0}" -gt 1 ] && kill "-$1" "$target" || complain "nobody to send $1 to"
  wait $watcher
  status=$?
  nothing_left
}
while_running TERM launcher
is 143 && reasons 1
while_running INT launcher
is 130 && reasons 1
while_running KILL launcher
is 137 && reasons 1
while_running KILL command
is 125 && tells 'host a: the connection is lost' && reasons 1
while_running KILL member
is 137 && tells 'host b: process 3 .* was killed by signal 9' && reasons 1

if two_hosts 10.213.77; then
  hosts $one,$two -n 4 --rsh "$apart" "$ring" 50
  is 0 && says 'counter 200, 4 processes' && says '^check: ok$' && lines 0
  call env AYATORI_NET_INTERFACE=10.213.0.0/16 "$bin/ayatori" run --hosts $one,$two --rsh "$apart" "$ring" 50
  is 0 && says '^check: ok$' && lines 0
  for name in $(ucx_if_here); do
    hosts $one,$two -n 4 --rsh "$apart" --transport "$name" "$ring" 50
    is 0 && says 'counter 200, 4 processes' && says '^check: ok$' && lines 0
    ip -n $one link add down0 type veth peer name down1
    call env AYATORI_TRANSPORT="$name" UCX_NET_DEVICES=down0 ip netns exec $one "$ring" 5
    is 125 && tells "'down0' is down" && lines 1
  done
  call env AYATORI_NET_INTERFACE=eth7 "$bin/ayatori" run --hosts $one,$two --rsh "$apart" "$ring" 50
  is 125 && tells 'AYATORI_NET_INTERFACE=eth7: no interface .* veth0 .10.213.77.' && lines 1
  # The link is cut while processes 0 and 1 wait for 2 and 3: each side misses the other by its heartbeat, nobody waits on.
  hosts $one,$two -n 4 --rsh "$apart" "$probe" 2:pause-joined:20 3:pause-joined:20 &
  hosts=$!
  for try in $(seq 500); do
    [ "$(grep -c '^joined' "$work/out" 2>/dev/null)" = 4 ] && break
    sleep 0.1
  done
  ip -n $two link set veth0 down
  wait $hosts
  cases=$((cases + 1)) called='a link that is cut'
  says '^bye 0$' && says '^bye 3$'
  [ "$(grep -c '^peers failed' "$work/out")" = 4 ] || complain "$called: not all missed their peers"
  call env AYATORI_START_TIMEOUT=3 "$bin/ayatori" run --hosts $one,$two --rsh "$apart" "$ring" 50
  is 125 && tells "process" && lines 1
fi
nothing_left
finish
