# SPDX-License-Identifier: Apache-2.0
# Bad options, knobs, programs, pointers and resources end in one clear error each.
. "$(dirname "$0")/lib.sh"
all_tests_pass bad-input
shown "$tests_passed tests pass"
