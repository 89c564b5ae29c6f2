#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# psort_files.sh BIN DIR serial|NxW: psort on files of odd shapes against `LC_ALL=C sort`, byte for byte; input from a
# file and from a pipe, output to stdout, to a file, and over the input.
set -u
bin=$1 dir=$2 mode=$3
scratch=$(mktemp -d "$dir/psort.XXXXXX") || exit 1
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

psort() {
  case $mode in
    serial) "$bin/psort" "$@" --serial ;;
    *) "$bin/ayatori" run -n "${mode%x*}" -w "${mode#*x}" -- "$bin/psort" "$@" ;;
  esac
}

: > empty
printf '\n' > newline
printf 'b\na' > no_newline_at_end
printf 'b\0b\nb\nb\0\n\0\n\n\0\0\nb\0a\n' > zeros
printf 'a\r\n\ra\na\nA\n\377\n\200\n\177\n \n\t\n' > bytes
awk 'BEGIN { for (i = 0; i < 20000; ++i) printf "\n" }' > only_newlines
awk 'BEGIN { for (i = 0; i < 60; ++i) { for (j = 0; j < 9000 * ((i * 7) % 13); ++j) printf "x"; print i } }' > long_lines
awk 'BEGIN { for (i = 0; i < 700000; ++i) printf "y" }' > one_line
awk 'BEGIN { for (i = 0; i < 200000; ++i) print "same prefix " (i * 31) % 977 }' > prefixes
cat "$bin/psort" "$bin/fib" > binary

for file in empty newline no_newline_at_end zeros bytes only_newlines long_lines one_line prefixes binary; do
  LC_ALL=C sort "$file" > wanted
  psort "$file" > to_stdout 2> log || { echo "FAILED: $file: status $?"; cat log; exit 1; }
  [ "$(tail -n 1 log)" = "check: ok" ] || { echo "FAILED: $file"; cat log; exit 1; }
  psort - -o to_file < "$file" 2> log || { echo "FAILED: $file from stdin"; cat log; exit 1; }
  cat "$file" | psort -o piped - 2> log || { echo "FAILED: $file from a pipe"; cat log; exit 1; }
  cp "$file" in_place
  psort in_place -o in_place 2> log || { echo "FAILED: $file in place"; cat log; exit 1; }
  for result in to_stdout to_file piped in_place; do
    cmp "$result" wanted || { echo "FAILED: $file, $result"; exit 1; }
  done
done
psort prefixes > /dev/full 2> log && { echo "FAILED: a full disk went unnoticed"; exit 1; }
exit 0
