# SPDX-License-Identifier: Apache-2.0
# The documents exist, and the functions that the life-of pages name exist in the sources.
. "$(dirname "$0")/lib.sh"
for page in README.md HACKING.md CHANGELOG.md docs/guide/porting.md docs/memory-model.md docs/performance.md \
  docs/internals/life-of-a-fault.md docs/internals/life-of-a-steal.md docs/internals/life-of-a-request.md; do
  [ -s $page ] || missing "there is no $page"
done
[ "$(find docs/design -name '*.md' | wc -l)" -gt 0 ] || missing "docs/design has no page"
grep -qi 'per process' README.md || failed "README.md does not say what is per process"
unknown=0
# A function is written `name()` or `Type::name()`: its last part must be declared somewhere.
for name in $(grep -ho '`[A-Za-z_][A-Za-z0-9_:]*()`' docs/internals/*.md | tr -d '`()' | sed 's/.*:://' | sort -u); do
  grep -rqw "$name" src include || {
    echo "named in docs/internals, not in the sources: $name"
    unknown=$((unknown + 1))
  }
done
# Links to files of the project.
for page in README.md HACKING.md CHANGELOG.md $(find docs -name '*.md'); do
  for link in $(sed '/^```/,/^```/d' "$page" | grep -o '](\([^)#:]*\)' | sed 's/](//'); do
    [ -e "$(dirname "$page")/$link" ] || {
      echo "dead link in $page: $link"
      unknown=$((unknown + 1))
    }
  done
done
[ $unknown = 0 ] || failed "$unknown names or links lead nowhere"
shown "all pages are there; every named function and linked file exists"
