# SPDX-License-Identifier: Apache-2.0
# gdb commands for programs linked with Ayatori: `gdb -x ayatori.gdb --args ./program`, or `ayatori run --gdb ./program`.
# Faults on pages of the space and system calls given such memory are how the runtime works; it gets these signals.
handle SIGBUS nostop noprint pass
handle SIGSEGV nostop noprint pass
handle SIGSYS nostop noprint pass
# SIGQUIT has every thread's place printed. To stop where a wild pointer crashes: `handle SIGSEGV stop print` and
# continue past the faults that are the runtime's own.
handle SIGQUIT nostop noprint pass
# A running thread is stopped for a moment by this one (SIGRTMAX - 3), so that its stack can be printed.
handle SIG61 nostop noprint pass
# Debug process 0, let the others run; `set detach-on-fork off` before `run` keeps them as inferiors.
set follow-fork-mode parent
set print thread-events off
