# SPDX-License-Identifier: Apache-2.0
# Valgrind on threads of one process: no false reports, planted mistakes are found.
. "$(dirname "$0")/lib.sh"
command -v valgrind >/dev/null || missing "valgrind is not installed (scripts/setup.sh --full)"
all_tests_pass valgrind
shown "$tests_passed tests pass"
