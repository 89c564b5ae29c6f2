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
# The commands `ayatori threads`, `ayatori bt`, `ayatori thread` are in ayatori_gdb.py: beside this file if it was given with
# -x, else in share/ayatori beside the bin folder of the `ayatori` in PATH. gdb does not tell a script where it lies.
python
def _load_ayatori():
    import os, shutil
    with open("/proc/self/cmdline", "rb") as file:
        words = [os.fsdecode(word) for word in file.read().split(b"\0")]
    folders = [os.path.dirname(word.split("=", 1)[-1]) for word in words if word.endswith("ayatori.gdb")]
    launcher = shutil.which("ayatori")
    if launcher:
        folders.append(os.path.join(os.path.dirname(os.path.realpath(launcher)), "..", "share", "ayatori"))
    for folder in folders:
        path = os.path.join(folder or ".", "ayatori_gdb.py")
        if os.path.exists(path):
            return gdb.execute("source " + path)
    print("ayatori_gdb.py was not found: `source` it for the commands of `help ayatori`")
_load_ayatori()
del _load_ayatori
end
