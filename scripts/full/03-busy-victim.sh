# SPDX-License-Identifier: Apache-2.0
# A steal completes while the victim computes without scheduling points.
. "$(dirname "$0")/lib.sh"
all_tests_pass busy-victim
shown "$tests_passed tests pass: the continuation runs elsewhere while its child spins"
