#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# inputs.sh DIR: writes the text that psort's tests sort (1.5 million lines, 29 MB) and what must come out.
set -eu
cd "$1"
[ -s numbers.sorted ] && exit 0
awk 'BEGIN { for (i = 0; i < 1500000; ++i) print (i * 7919) % 1000003, "line", i }' > numbers.tmp
LC_ALL=C sort numbers.tmp > sorted.tmp
mv numbers.tmp numbers.txt
mv sorted.tmp numbers.sorted
