#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Holds what the signal code calls against the list of what it may call (top of src/dsm/fault/signal.cpp).
# Usage: fault_symbols.sh PATH/signal.cpp.o   (an object built without sanitizers)
set -eu
allowed='^(_GLOBAL_OFFSET_TABLE_|__errno_location|__stack_chk_fail|__tls_get_addr|mem(cpy|set|move)|ayt_restorer|ayt_raw_syscall'
allowed="$allowed"'|ayatori::gas::detail::(layout|tables)'
allowed="$allowed"'|ayatori::dsm::fault::(catch_syscall|swap_selector|set_prefault|InlineFaults::(~)?InlineFaults)\(.*)$'
found=$(nm -uC "$1" | sed 's/^ *U *//' | grep -Ev "$allowed" || true)
if [ -n "$found" ]; then
  echo "signal.cpp calls what it may not:"
  echo "$found"
  exit 1
fi
