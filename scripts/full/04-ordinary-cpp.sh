# SPDX-License-Identifier: Apache-2.0
# Ordinary C++ works in threads that migrate, also with -fstack-protector-all and with -O3 -flto.
. "$(dirname "$0")/lib.sh"
all_tests_pass ordinary-cpp
shown "$tests_passed tests pass in all their builds"
