#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# coverage.sh ROOT: every function that include/ayatori/ayatori.h declares is called by the cases of this folder and has a row
# in docs/guide/pthreads.md; every code of that row is provoked by a case (GIVES, SETS, COVERS), but those with a star, and
# no case wants a code that no row has.
set -eu
root=$1
here=$root/tests/system/posix
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# Declarations begin a line and hold `ayatori_NAME(`; comments, macros and members of the class do not count.
sed -e 's,/\*.*\*/,,' -e '/^ *\*/d' -e '/^\/\*/d' "$root/include/ayatori/ayatori.h" |
  grep -E '^[a-z_].*\bayatori_[a-z_]+\(' | grep -v '^#' | sed -E 's/^[^(]*\b(ayatori_[a-z_]+)\(.*/\1/' |
  grep -vE '_cleanup_p(ush|op)_np$|^ayatori_run$' | sort -u >"$dir/declared"
printf '%s\n' ayatori_thread_cleanup_push ayatori_thread_cleanup_pop >>"$dir/declared"

cat "$here"/*.c | tr '\n' ' ' | tr -s ' ' >"$dir/cases"
grep -oE '\bayatori_[a-z_]+\(' "$dir/cases" | sed -E 's/_?\($//' | sort -u >"$dir/called"
# CODE function; "why" of ..._HERE is skipped, as are casts of a pointer's result.
{
  grep -oE '\b(GIVES|SETS)(_HERE\(([A-Z_]+|"[^"]*"), ?|\()[A-Z0-9_]+, ?(NONE\()?ayatori_[a-z_]+\(' "$dir/cases" |
    sed -E 's/^.*[(,] ?([A-Z0-9_]+), ?(NONE\()?(ayatori_[a-z_]+)\($/\1 \3/'
  grep -oE '\bCOVERS\([A-Z]+, ayatori_[a-z_]+\)' "$dir/cases" | sed -E 's/COVERS\(([A-Z]+), (.*)\)/\1 \2/'
} | sed -E 's/_$//' | grep -E '^E' | sort -u >"$dir/provoked"
# Rows: | `pthread name` | `ayatori name` | codes | ... |
sed -nE 's/^\| `[^|]*\| `(ayatori_[a-z_]+)` \| ([^|]*) \|.*/\1 \2/p' "$root/docs/guide/pthreads.md" >"$dir/rows"
cut -d' ' -f1 "$dir/rows" | sort >"$dir/in_rows"
awk '{ for (i = 2; i <= NF; ++i) if ($i ~ /^E[A-Z0-9]+$/) print $i, $1 }' "$dir/rows" | sort -u >"$dir/wanted"
awk '{ for (i = 2; i <= NF; ++i) if ($i ~ /^E[A-Z0-9]+\*?$/) { sub(/\*/, "", $i); print $i, $1 } }' "$dir/rows" |
  sort -u >"$dir/known"
sort -u "$dir/declared" -o "$dir/declared"

status=0
tell() { # TEXT FILE
  [ -s "$2" ] || return 0
  status=1
  while read -r line; do echo "$1: $line"; done <"$2"
}
comm -23 "$dir/declared" "$dir/called" >"$dir/a"
tell "declared in ayatori.h, and called by no case" "$dir/a"
comm -23 "$dir/declared" "$dir/in_rows" >"$dir/b"
tell "declared in ayatori.h, without a row in docs/guide/pthreads.md" "$dir/b"
comm -13 "$dir/declared" "$dir/in_rows" >"$dir/c"
tell "a row of docs/guide/pthreads.md for what ayatori.h does not declare (or two rows)" "$dir/c"
comm -23 "$dir/wanted" "$dir/provoked" >"$dir/d"
tell "a code of docs/guide/pthreads.md that no case provokes" "$dir/d"
comm -13 "$dir/known" "$dir/provoked" >"$dir/e"
tell "a code that a case provokes and docs/guide/pthreads.md does not have" "$dir/e"
echo "$(wc -l <"$dir/declared") functions, $(wc -l <"$dir/provoked") codes"
[ "$(wc -l <"$dir/declared")" -gt 100 ] && [ "$(wc -l <"$dir/provoked")" -gt 100 ] || status=1
exit $status
