#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Formats every C and C++ file with clang-format-19, or with --check only names those that are not formatted.
cd "$(dirname "$0")/.." || exit 2
mode=-i
[ "${1:-}" = --check ] && mode='--dry-run --Werror'
# shellcheck disable=SC2086  # two words on purpose
find include src apps examples bench tools tests \( -name '*.hpp' -o -name '*.cpp' -o -name '*.h' -o -name '*.c' \) \
  -print0 | xargs -0 -r clang-format-19 $mode
