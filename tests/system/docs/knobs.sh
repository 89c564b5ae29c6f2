#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/guide/running.md names every knob of the table with its default, and no other.
# Usage: knobs.sh [PROJECT]
cd "${1:-$(dirname "$0")/../../..}" || exit 2
table=$(sed -n 's/^ *{"\(AYATORI_[A-Z_]*\)", KnobKind.*/\1/p' src/base/knobs.cpp | sort)
page=$(sed -n 's/^| `\(AYATORI_[A-Z_]*\)` .*/\1/p' docs/guide/running.md | sort)
[ -n "$table" ] && [ "$table" = "$page" ] || {
  echo "knobs in src/base/knobs.cpp and in docs/guide/running.md:"
  printf '%s\n' "$table" "--" "$page"
  exit 1
}
echo "$(echo "$table" | wc -l) knobs are described"
