# SPDX-License-Identifier: Apache-2.0
# The litmus tests of release and acquire pass with both engines, 4 processes x 1 worker and 3 x 2.
. "$(dirname "$0")/lib.sh"
all_tests_pass litmus
shown "$tests_passed litmus tests pass"
