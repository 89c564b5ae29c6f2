#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Links between documents lead to files; functions that documents and layer READMEs name (`name()`) exist in the sources;
# the rules that they cite (C4, U2, ...) stand in a header or in docs/design/page-rules.md.
# Usage: links.sh [PROJECT]
cd "${1:-$(dirname "$0")/../../..}" || exit 2
pages="README.md HACKING.md CHANGELOG.md $(find docs src -name '*.md' | sort | tr '\n' ' ')"
bad=0
# shellcheck disable=SC2086  # a list of words
for page in $pages; do
  for link in $(sed '/^```/,/^```/d' "$page" | grep -o '](\([^)#:]*\)' | sed 's/](//'); do
    [ -e "$(dirname "$page")/$link" ] || {
      echo "dead link in $page: $link"
      bad=1
    }
  done
done
# shellcheck disable=SC2086
for name in $(grep -ho '`[A-Za-z_][A-Za-z0-9_:]*()`' $pages | tr -d '`()' | sed 's/.*:://' | sort -u); do
  grep -rqw --include='*.[chS]*' "$name" src include tests || {
    echo "named in a document, not in the sources: $name()"
    bad=1
  }
done
# shellcheck disable=SC2086
for rule in $(grep -ohE '\b[A-Z][0-9]{1,2}\b' $(find src -name README.md) docs/internals/*.md docs/design/*.md | sort -u); do
  case $rule in T1 | T3 | P[0-9]*) continue ;; esac
  grep -rqE --include='*.[ch]*' --include='*.S' "^// $rule\." src include || {
    echo "cited in a document, stated in no header: $rule"
    bad=1
  }
done
[ $bad = 0 ] && echo "links, names and rules lead somewhere"
exit $bad
