#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Who is bound where: with more workers than CPUs nobody, two jobs never on one CPU, and a place that was given up is free.
# Usage: run.sh FOLDER_OF_PROGRAMS PROGRAM
bin=$1 program=$2
mask=$(nproc)
[ "$mask" -ge 2 ] || exit 77
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
last=$(taskset -cp $$ | sed 's/.*[-, ]//')
cd "$(mktemp -d)" || exit 1
trap 'rm -rf "$PWD"' EXIT
failed=0
complain() { echo "WRONG: $*" && failed=1; }
# job BIND OPTIONS... : CPUs of each worker, a line each
job() {
  bind=$1
  shift
  AYATORI_BIND=$bind timeout 60 "$bin/ayatori" run "$@" -- "$program" | sed -n 's/^cpus //p'
}
distinct() { sort "$1" | uniq -d | wc -l; }
all_bound() { ! grep -q '[,]' "$1"; }
none_bound() { ! grep -qv '[,]' "$1"; }

job none -n 2 -w 1 >none && { [ "$(wc -l <none)" = 2 ] && none_bound none || complain "none: $(cat none)"; }
for how in auto core; do
  job $how -n 2 -w 1 >two
  { [ "$(wc -l <two)" = 2 ] && all_bound two && [ "$(distinct two)" = 0 ]; } || complain "$how, 2 x 1: $(cat two)"
  job $how -n 1 -w 2 >two
  { [ "$(wc -l <two)" = 2 ] && all_bound two && [ "$(distinct two)" = 0 ]; } || complain "$how, 1 x 2: $(cat two)"
  job $how -n 2 -w 1 --transport tcp >two
  { [ "$(wc -l <two)" = 2 ] && all_bound two && [ "$(distinct two)" = 0 ]; } || complain "$how, tcp: $(cat two)"
done
job auto -n $((mask + 1)) -w 1 >many
none_bound many || complain "auto bound $((mask + 1)) processes: $(cat many)"
job auto -n 1 -w $((mask + 1)) >many
none_bound many || complain "auto bound $((mask + 1)) workers: $(cat many)"
job core -n $((mask + 1)) -w 1 >many
all_bound many || complain "core did not bind: $(cat many)"

# A mask of one CPU is kept to.
[ "$(AYATORI_BIND=core taskset -c "$last" "$bin/ayatori" run -n 2 -w 1 -- "$program" | grep -c "^cpus $last\$")" = 2 ] ||
  complain "core left the affinity mask"

# As many jobs of one worker as there are CPUs have one each; one more is not bound; when all have ended, one can have it again.
mkfifo open
job_number=0
exec 9<>open
while [ $job_number -lt "$mask" ]; do
  job_number=$((job_number + 1))
  AYATORI_BIND=auto timeout 60 "$bin/ayatori" run -w 1 -- "$program" --wait <open >"job$job_number" 9>&- &
  until grep -q '^all$' "job$job_number"; do sleep 0.02; done # it has told
done
sed -n 's/^cpus //p' job* >held
{ all_bound held && [ "$(wc -l <held)" = "$mask" ] && [ "$(distinct held)" = 0 ]; } ||
  complain "$mask jobs of one worker: $(cat held)"
job auto -w 1 >more
none_bound more || complain "one job too many was bound: $(cat more)"
exec 9>&-
wait
job auto -w 1 >again
all_bound again || complain "CPUs of jobs that have ended are not free: $(cat again)"

# What the launcher says of it.
AYATORI_PROCESSES=2 AYATORI_WORKERS=1 "$bin/ayatori" info >info
grep -Eq 'CPUs usable +[0-9]+ in [0-9]+ cores, [0-9]+ NUMA nodes, [0-9]+ packages' info || complain "info: no topology"
[ "$(grep -Ec '^ +process [01] +CPU [0-9]+$' info)" = 2 ] || complain "info: no places"
AYATORI_PROCESSES=2 AYATORI_WORKERS=1 "$bin/ayatori" info --json | grep -q '"places"' || complain "info --json: no places"
exit $failed
