#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# twice.sh AYATORI PROGRAM N MODE: a second run of a job is refused by one line and status 125.
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
"$1" run -n "$3" -w 1 -- "$2" "$4" 2>"$log"
status=$?
cat "$log"
[ $status = 125 ] && [ "$(wc -l <"$log")" = 1 ] && grep -q "ayatori::run was called a second time" "$log"
