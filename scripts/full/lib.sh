# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Sourced by the claims; they run in the project's root with build/release built.
cd "$(dirname "$0")/../.." || exit 2
. scripts/lib.sh
bin=build/release/bin
mkdir -p build/full || exit 2 # where ./check --full has it

# The verdict is the last line; nothing runs after it.
shown() { echo "$*" && exit 0; }
failed() { echo "$*" && exit 1; }
missing() { echo "$*" && exit 77; }

need() { for path in "$@"; do [ -x "$path" ] || missing "there is no $path"; done; }

# all_tests_pass LABEL [BUILD_FOLDER]: runs the tests that carry the label; missing when there are none.
all_tests_pass() {
  label_folder=${2:-build/release}
  run_tests "$label_folder" "build/full/tests-$1.log" -L "^$1\$"
  grep -q 'No tests were found' "build/full/tests-$1.log" && missing "no test is labelled $1"
  [ "$tests_failed" = 0 ] || {
    cat "build/full/tests-$1.log"
    failed "$tests_failed of $((tests_passed + tests_failed)) tests labelled $1 failed"
  }
}
