# SPDX-License-Identifier: Apache-2.0
# Runs under a filter of system calls like Docker's default, unprivileged, with 256 descriptors and 64 KiB of locked memory.
. "$(dirname "$0")/lib.sh"
all_tests_pass confined
shown "$tests_passed tests pass"
