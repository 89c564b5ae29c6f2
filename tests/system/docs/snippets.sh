#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares the examples in the documents with the files that are built. In a document `<!-- FILE#NAME -->` stands before a
# code block; in FILE the same text stands between the lines `// [NAME]` and `// [/NAME]`. White space does not count.
# Usage: snippets.sh [PROJECT]
cd "${1:-$(dirname "$0")/../../..}" || exit 2
bad=0 compared=0
squeeze() { tr -d '[:space:]'; }
for page in README.md $(find docs -name '*.md' | sort); do
  for mark in $(sed -n 's/^<!-- \([^ ]*#[a-z_]*\) -->$/\1/p' "$page"); do
    file=${mark%#*} name=${mark#*#}
    compared=$((compared + 1))
    [ -f "$file" ] || {
      echo "$page quotes $file, which does not exist"
      bad=1
      continue
    }
    quoted=$(awk -v mark="<!-- $mark -->" '
      $0 == mark { here = 1; next }
      here && /^```/ { if (inside) exit; inside = 1; next }
      here && !inside && NF { exit }
      inside { print }' "$page" | squeeze)
    built=$(awk -v from="// [$name]" -v to="// [/$name]" '
      { line = $0; sub(/^[ \t]+/, "", line) }
      line == to { exit }
      inside { print }
      line == from { inside = 1 }' "$file" | squeeze)
    if [ -z "$built" ] || [ "$quoted" != "$built" ]; then
      echo "$page and $file differ in [$name]"
      bad=1
    fi
  done
  # Every other C++ block would be code that nobody compiles.
  marks=$(grep -c '^<!-- [^ ]*#[a-z_]* -->$' "$page")
  blocks=$(grep -c '^```cpp' "$page")
  [ "$marks" = "$blocks" ] || {
    echo "$page has $blocks C++ blocks, $marks of them quoted from files"
    bad=1
  }
done
[ $compared -gt 0 ] || {
  echo "no document quotes anything"
  bad=1
}
[ $bad = 0 ] && echo "$compared quotations equal their files"
exit $bad
