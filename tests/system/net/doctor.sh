#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# `ayatori doctor`: this machine as it is, with low limits and without a network; hosts that are shells here, silent, bad, of
# another build; where this is root's, two network namespaces. That nothing hangs and nothing is left behind.
# Usage: doctor.sh FOLDER_OF_PROGRAMS
. "$(dirname "$0")/lib.sh"
cp "$bin/ayatori" "$work/bin/ayatori"
ayatori=$work/bin/ayatori
here='exec sh -c {command} # {host}'
doctor() { call "$ayatori" doctor "$@"; }
hosts() { call "$ayatori" doctor --hosts "$@"; }
# limited LIMITS ARGUMENTS...: with these limits of the shell
limited() {
  limits=$1
  shift
  call sh -c "$limits"' && exec "$@"' sh "$ayatori" doctor "$@"
}
# Each line that is not ok is followed by what to do.
advises() {
  [ "$(grep -cE '^  (warning|problem)' "$work/out")" = "$(grep -c '^           -> .*\.$' "$work/out")" ] ||
    complain "$called: a line without advice"
}
unset AYATORI_HOSTS AYATORI_RSH AYATORI_NET_INTERFACE

# This machine, whatever it offers.
doctor
[ "$status" -le 1 ] || complain "$called: status $status"
says '^  (ok|warning) +engine (uffd|mprotect)' && says '^  ok +transport tcp' && says ' problems?$' && advises && lines 0
found=$status
doctor --json
is "$found" && lines 0
# As many marks as it counts, and an advice for each that is not ok. (A fresh machine has no JSON tool; the library writes it.)
number() { sed -n "s/^ *\"$1\": \([0-9]*\),*$/\1/p" "$work/out"; }
marks() { grep -c "\"mark\": \"$1\"" "$work/out"; }
[ "$(number schema)" = 1 ] && [ "$(number ok)" = "$(marks ok)" ] && [ "$(number warnings)" = "$(marks warning)" ] &&
  [ "$(number problems)" = "$(marks problem)" ] &&
  [ "$(grep -c '"advice": "..*"' "$work/out")" = $(($(marks warning) + $(marks problem))) ] ||
  complain "$called: not the JSON that it should be"
doctor "$ring"
is "$found" && says "^  ok +program +$ring$"
doctor "$work/nothing"
is 1 && says 'problem +program .*nothing: No such file' && advises
doctor /bin/sh
is "$found" && says 'warning +program .*not linked'

# Low limits, bad knobs, a confined account.
limited 'ulimit -n 64'
is "$found" && says 'warning +open files +64 files' && advises
limited 'ulimit -n 16'
is 1 && says 'problem +open files +16 files' && advises
if (ulimit -v 4000000 && "$ayatori" --version >/dev/null 2>&1); then # AddressSanitizer needs more
  limited 'ulimit -v 4000000'
  is 1 && says 'problem +space .*Cannot allocate memory' && says '-> Lift .*ulimit -v' && advises
fi
# Through a pipe: the limit is on files.
call sh -c "{ ulimit -f 1 && '$ayatori' doctor; echo status \$?; } | cat"
says '^status 1$' && says 'problem +space .*File too large' && says '-> Lift .*ulimit -f' && advises
call env AYATORI_SPACE_SIZE=7 "$ayatori" doctor
is 1 && says 'problem +knobs +AYATORI_SPACE_SIZE' && advises
call env AYATORI_NET_INTERFACE=eth7 "$ayatori" doctor
is 1 && says 'problem +address between machines +AYATORI_NET_INTERFACE=eth7: no interface' && advises
call env SLURM_NTASKS=4 SLURM_PROCID=0 "$ayatori" doctor
is 1 && says 'problem +PMIx .*Slurm gives this job 4 tasks, but no PMIx' && advises
if [ "$(id -u)" = 0 ]; then
  chmod 755 "$work" "$work/bin"
  call setpriv --reuid=65534 --regid=65534 --clear-groups "$ayatori" doctor
  is "$found" && advises && lines 0
fi

# Options that make no sense.
for options in '--nothing' 'one two' '--hosts a,,b' '--hosts a,-o' '--hosts' "--rsh $here" '--hosts a --rsh ssh'; do
  # shellcheck disable=SC2086
  doctor $options
  is 2 && lines 1
done
doctor --help
is 0 && says '^Usage: ayatori doctor' && says '^Exit status: 0 no problem, 1 a problem, 2'

# Hosts that are this machine.
hosts a,b,c --rsh "$here"
is "$found" && says '^c: ayatori ' && says 'ok +ayatori +[0-9a-f]{12} everywhere' && says 'connections +6 of 6 made, by loopback'
lines 0
call env AYATORI_HOSTS=a,b AYATORI_RSH="echo welcome; $here" "$ayatori" doctor "$ring"
is "$found" && says 'ok +program +[0-9a-f]{12} everywhere' && says '2 of 2 made'
hosts a,b --rsh "$here" --json
is "$found" && [ "$(grep -c '"checks": \[' "$work/out")" = 2 ] ||
  complain "$called: no JSON of two hosts"

# Hosts that are not there; the others are examined all the same.
hosts a,b,c --rsh 'case {host} in b) exit 255 ;; esac; sh -c {command}'
is 1 && says 'problem +answers .*ended with status 255' && says '^c: ayatori ' && says '2 of 2 made' && advises
call env AYATORI_START_TIMEOUT=3 "$ayatori" doctor --hosts a,b --rsh 'case {host} in b) sleep 50 ;; esac; sh -c {command}'
is 1 && says 'problem +answers +no answer within 3 s' && advises
hosts a,b --rsh 'case {host} in b) yes ;; esac; sh -c {command}'
is 1 && says 'problem +answers .*makes no sense' && advises
hosts a --rsh 'exit 127 # {host} {command}'
is 1 && says 'problem +answers .*status 127' && advises
# An agent that is killed, one that hears nothing.
hosts a,b --rsh 'case {host} in b) kill -KILL $$ ;; esac; sh -c {command}'
is 1 && says 'problem +answers .*was killed by signal 9' && advises
call sh -c "'$ayatori' doctor-agent </dev/null | cat"
is 0 && lines 0
call sh -c "printf 'no frame at all, and long enough\n' | '$ayatori' doctor-agent"
lines 0

# Other builds of ayatori and of PROGRAM: the same programs with a byte more.
mkdir "$work/other"
cp "$ayatori" "$work/other/ayatori"
cp "$ring" "$work/other/net_ring"
for file in ayatori net_ring; do printf x >>"$work/other/$file"; done
hosts a,b --rsh "case {host} in b) exec '$work/other/ayatori' doctor-agent ;; esac; sh -c {command}"
is 1 && says 'problem +ayatori .* on a; .* on b|problem +ayatori .* on b; .* on a' && advises
hosts a,b --rsh "case {host} in b) PATH='$work/other' ;; a) PATH='$work/bin' ;; esac; export PATH; exec /bin/sh -c {command}" net_ring
is 1 && says 'problem +program .* on .*; .* on ' && advises

if two_hosts 10.213.78; then
  hosts $one,$two --rsh "$apart"
  is "$found" && says 'connections +2 of 2 made$'
  # No way back, and an address that is not there.
  ip -n $two addr del 10.213.78.2/24 dev veth0
  ip -n $two addr add 10.214.78.2/24 dev veth0
  hosts $one,$two --rsh "$apart"
  is 1 && says "problem +connections +$one at 10.213.78.1 is not reached by $two: " && advises
  ip -n $two link set veth0 down
  hosts $one,$two --rsh "$apart"
  is 1 && says "problem +connections +$two has no address" && advises
fi
nothing_left
finish
