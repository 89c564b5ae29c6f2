#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Do the bars of docs/performance.md hold? Prints the table, leaves the raw times in BUILD/bars.json; status 0: all kept,
# 1: one is missed, 2: bad arguments, 3: something could not be measured. Takes minutes, wants a machine that is quiet.
# Usage: bars.sh BUILD [--quick] [--repetitions=N] [BAR...]      `ayatori bench --help` names the bars
if [ $# -lt 1 ] || [ ! -d "$1" ]; then
  echo "usage: bars.sh BUILD [--quick] [--repetitions=N] [BAR...]" >&2
  exit 2
fi
build=$1
shift
if [ ! -x "$build/bin/ayatori-bench" ]; then
  echo "bars.sh: there is no $build/bin/ayatori-bench: build it first" >&2
  exit 3
fi
exec "$build/bin/ayatori-bench" --bars --json="$build/bars.json" "$@"
