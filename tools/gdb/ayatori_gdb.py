# SPDX-License-Identifier: Apache-2.0
# gdb commands for Ayatori's user-level threads (`help ayatori`), of stopped processes and of core files. ayatori.gdb loads it.
#
# G1. Threads are found through ayt_debug_table (src/tasks/debug_table.hpp): needs the program's symbol table, no type
#     information. What is read may be half changed when other processes of the job run on: it is only shown.
# G2. A parked thread is unwound by an unwinder that gives the innermost frame of whatever OS thread is selected a caller: the
#     registers saved on the thread's stack. No register of the process is written, so it works for cores, too.
# G3. Each process has its own copy of the space; a stack is read at the process that holds it, if that is an inferior here.
import os
import re
import struct

import gdb
import gdb.unwinder

FRAMES_MAX = 64
STATES = ("free", "ready", "running", "joining", "locking", "waiting", "sleeping", "faulting", "ended", "calling")
KINDS = ("a freed object", "mutex", "condition variable", "barrier", "semaphore", "read-write lock")
WAITING = ("joining", "locking", "waiting", "sleeping", "faulting", "calling")
SAVED = ("r15", "r14", "r13", "r12", "rbx", "rbp", "rip")  # at a saved stack pointer: src/ult/arch
CONTEXT = ("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx",
           "rsp", "rip")  # of a ucontext_t, from byte 40 on


class Memory:
    """Of one inferior."""

    def __init__(self, inferior):
        self.inferior = inferior

    def bytes(self, address, count):
        return bytes(self.inferior.read_memory(address, count))

    def u64(self, address):
        return struct.unpack("<Q", self.bytes(address, 8))[0]

    def u32(self, address):
        return struct.unpack("<I", self.bytes(address, 4))[0]

    def i64(self, address):
        return struct.unpack("<q", self.bytes(address, 8))[0]


class Thread:
    def __init__(self, address, number, state, detail="", worker=None):
        self.address, self.number, self.state, self.detail, self.worker = address, number, state, detail, worker
        self.owner = None  # the process that holds its stack
        self.sp = 0


class Job:
    """What one process, the selected inferior, knows of its job."""

    def __init__(self, inferior):
        self.inferior, self.memory = inferior, Memory(inferior)
        m = self.memory
        try:
            table = int(gdb.parse_and_eval("(unsigned long)&ayt_debug_table"))
        except gdb.error:
            raise gdb.GdbError("no ayt_debug_table: not a program with Ayatori, or its symbols were stripped")
        try:
            head = m.bytes(table, 56)
        except gdb.MemoryError:
            raise gdb.GdbError("the program has not been started, or the core lacks its data")
        if head[:8] != b"AYTDBG1\0":
            raise gdb.GdbError("the library is of another version than these commands")
        count, self.config, _, tables, sync, self.tids = struct.unpack("<6Q", head[8:])
        self.at = {}
        for i in range(count):
            name, value = struct.unpack("<32sQ", m.bytes(table + 56 + 40 * i, 40))
            self.at[name.rstrip(b"\0").decode()] = value
        at = self.at
        self.process = m.u32(self.config + at["Config.process"])
        self.processes = m.u32(self.config + at["Config.processes"])
        self.workers = m.u32(self.config + at["Config.workers"])
        self.threads_at = m.u64(self.config + at["Config.threads"])
        self.apart = m.bytes(self.config + at["Config.apart"], 1) != b"\0"
        self.slots_at = m.u64(tables + at["Tables.slots"])
        self.objects_at = m.u64(sync + at["Sync.objects"])
        if self.threads_at == 0:
            raise gdb.GdbError("process %d is not inside ayatori::run" % inferior.pid)

    # -- fields

    def queues(self, process):
        return self.memory.u64(self.memory.u64(self.config + self.at["Config.queues"]) + 8 * process)

    def worker_at(self, process, number):
        return self.queues(process) + self.at["ProcessQueues.worker"] + number * self.at["Worker"]

    def field(self, raw, name, form):
        return struct.unpack_from("<" + form, raw, self.at["Descriptor." + name])[0]

    def number_of(self, raw):
        return self.field(raw, "generation", "I") << 32 | (self.field(raw, "slot", "I") + 1)

    def descriptor(self, address):
        return self.memory.bytes(address, self.at["Descriptor"])

    def owner_of(self, address):
        slot = (address - self.threads_at) // self.at["Descriptor"]
        return self.memory.u32(self.slots_at + slot * self.at["SlotEntry"] + self.at["SlotEntry.owner"])

    # -- the threads

    def make(self, address, state, detail="", worker=None):
        raw = self.descriptor(address)
        thread = Thread(address, self.number_of(raw), state, detail, worker)
        thread.owner = self.owner_of(address)
        thread.sp = self.field(raw, "sp", "Q")
        thread.fault = self.field(raw, "fault_frame", "Q")
        if thread.fault:
            thread.fault += self.field(raw, "fault_offset", "I") + 8
        thread.invoke = self.field(raw, "invoke", "Q")
        return thread

    def make_queued(self, address, process):
        if self.field(self.descriptor(address), "placement", "B") != 0:
            return self.make(address, "placed", "on process %d, not started" % process)
        return self.make(address, "ready", "on process %d" % process)

    def list(self, queue):
        at = self.memory.u64(queue + self.at["Queue.head"])
        for _ in range(1 << 20):
            if at == 0:
                return
            yield at
            at = self.memory.u64(at + self.at["Descriptor.next"])

    def of_worker(self, process, number):
        m, at = self.memory, self.at
        w = self.worker_at(process, number)
        name = "%d.%d" % (process, number)
        current = m.u64(w + at["Worker.current"])
        if current:
            yield self.make(current, "running", "on worker " + name, number)
        top, bottom = m.i64(w + at["Worker.deque_top"]), m.i64(w + at["Worker.deque_bottom"])
        ring, mask = m.u64(w + at["Worker.deque_ring"]), m.u64(w + at["Worker.deque_mask"])
        for i in range(top, bottom):
            yield self.make(m.u64(ring + 8 * (i & mask)), "ready", "in the deque of worker " + name)
        room = at["Worker.ring_room"]
        for i in range(m.u64(w + at["Worker.ring_head"]), m.u64(w + at["Worker.ring_tail"])):
            entry = m.u64(w + at["Worker.ring_entries"] + 8 * (i % room))
            yield self.make(entry, "ready", "at worker " + name)

    def threads(self):
        """Of all processes whose descriptors are mapped here: of the job, or of this process alone. No thread twice."""
        seen, found = set(), []

        def note(source):
            try:
                for thread in source:
                    if thread.address not in seen:
                        seen.add(thread.address)
                        found.append(thread)
            except gdb.MemoryError:
                return False
            return True

        whole = True
        known = [self.process] if self.apart else range(self.processes)
        for p in known:
            for i in range(self.workers):
                whole = note(self.of_worker(p, i)) and whole
            q = self.queues(p)
            for queue in "high", "ready", "placed", "hinted":
                listed = self.list(q + self.at["ProcessQueues." + queue])
                whole = note(self.make_queued(d, p) for d in listed) and whole
        for p in range(self.processes):
            whole = note(self.waiting(p)) and whole
        return found, whole

    def waiting(self, process):
        size = self.at["Descriptor"]
        per = self.memory.u64(self.layout() + self.at["Layout.slots_per_process"]) & 0xFFFFFFFF
        first = self.threads_at + process * per * size
        count = self.memory.u32(self.queues(process) + self.at["ProcessQueues.next_fresh_slot"])
        chunk = 256
        for i in range(0, count, chunk):
            n = min(chunk, count - i)
            raws = self.memory.bytes(first + i * size, n * size)
            for k in range(n):
                raw = raws[k * size:(k + 1) * size]
                state = raw[self.at["Descriptor.state"]]
                if state >= len(STATES) or STATES[state] not in WAITING:
                    continue
                address = first + (i + k) * size
                if self.apart and self.owner_of(address) != self.process:
                    continue
                yield self.make(address, STATES[state], self.awaited(raw, STATES[state]))

    def layout(self):
        table = int(gdb.parse_and_eval("(unsigned long)&ayt_debug_table"))
        return self.memory.u64(table + 24)

    def awaited(self, raw, state):
        wait = self.field(raw, "wait_object", "Q")
        if state == "sleeping":
            return "sleeps"
        if state == "faulting":
            return "waits for a page of another process"
        if state == "calling":
            return "waits in a call of the C library"
        if wait == 0:
            return "waits for what another process keeps"
        if state == "joining":
            offset = wait - self.threads_at
            if offset < 0 or offset % self.at["Descriptor"]:
                return "waits for the end of a thread"
            return "waits for the end of thread %d" % self.number_of(self.descriptor(wait))
        handle = (wait - self.objects_at) // self.at["Object"]
        try:
            kind = self.memory.u32(wait + self.at["Object.kind"])
            word = self.memory.u64(wait + self.at["Object.word"])
            expected = self.memory.i64(wait + self.at["Object.expected"])
            arrived = self.memory.i64(wait + self.at["Object.arrived"])
            owner = self.memory.u64(wait + self.at["Object.owner"])
        except gdb.MemoryError:
            return "waits for object %d, which is not there to be read" % handle
        text = "waits for %s %d" % (KINDS[kind] if kind < len(KINDS) else "an unknown object", handle)
        if kind == 3:
            return "waits at barrier %d: %d of %d have arrived" % (handle, arrived, expected)
        holder = 0
        if kind == 1:
            holder = (word >> 16 & 0xFFFF) << 32 | word >> 32
        elif kind == 5 and expected < 0:
            holder = owner
        if holder >> 63:
            return text + ", held by an OS thread of the program"
        if holder:
            address = self.threads_at + ((holder & 0xFFFFFFFF) - 1) * self.at["Descriptor"]
            d = self.descriptor(address)
            if (self.field(d, "generation", "I") ^ holder >> 32) & 0xFFFF:
                return text + ", locked by a thread that has ended"
            return text + ", held by thread %d" % self.number_of(d)
        return text

    # -- stacks

    def os_thread(self, worker):
        """The gdb thread that carries a worker of this process; None: not there."""
        tid = self.memory.u32(self.tids + 4 * worker) if self.tids else 0
        for thread in self.inferior.threads():
            if tid != 0 and tid in (thread.ptid[1], thread.ptid[2]):
                return thread
        return None

    def registers(self, thread):
        """Saved ones of a parked thread, by name; raises gdb.MemoryError."""
        if thread.fault:
            values = struct.unpack("<17Q", self.memory.bytes(thread.fault + 40, 136))
            return dict(zip(CONTEXT, values))
        values = struct.unpack("<7Q", self.memory.bytes(thread.sp, 56))
        return dict(zip(SAVED, values), rsp=thread.sp + 56)

    def on_native_stack(self, worker, sp):
        w = self.worker_at(self.process, worker)
        low = self.memory.u64(w + self.at["Worker.native_low"])
        return low <= sp <= low + self.memory.u64(w + self.at["Worker.native_bytes"])


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class ParkedUnwinder(gdb.unwinder.Unwinder):
    """G2."""

    def __init__(self):
        super().__init__("ayatori-thread")
        self.saved = None
        self.place = None

    def __call__(self, pending):
        if self.saved is None:
            return None
        here = tuple(int(pending.read_register(r).cast(gdb.lookup_type("unsigned long"))) for r in ("rip", "rsp"))
        if here != self.place:
            return None
        # As if it were called by the parked one: gdb takes a caller above its callee for a corrupt stack.
        info = pending.create_unwind_info(FrameId(gdb.Value(self.saved["rsp"] - 256), gdb.Value(here[0])))
        for name, value in self.saved.items():
            kind = pending.read_register(name).type
            info.add_saved_register(name, gdb.Value(struct.pack("<Q", value), kind))
        return info

    def show(self, registers):
        """From now on the selected OS thread's frame 1 is the one with these registers; None: as it is."""
        self.saved = None
        gdb.invalidate_cached_frames()
        if registers is not None:
            frame = gdb.newest_frame()
            word = gdb.lookup_type("unsigned long")
            self.place = tuple(int(frame.read_register(r).cast(word)) for r in ("rip", "rsp"))
            self.saved = registers
            gdb.invalidate_cached_frames()


class StubUnwinder(gdb.unwinder.Unwinder):
    """A system call in a stub (src/dsm/fault/dispatch_x86_64.S), which a jump to its call site follows: known by its code."""

    CODE = b"\x0f\x05\xff\x25"  # syscall; jmp *disp32(%rip)
    REGISTERS = ("rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
                 "r15")

    def __init__(self):
        super().__init__("ayatori-stub")

    def __call__(self, pending):
        pc = int(pending.read_register("rip").cast(gdb.lookup_type("unsigned long")))
        stub = pc & ~7
        if pc - stub not in (0, 2):
            return None
        memory = Memory(gdb.selected_inferior())
        try:
            code = memory.bytes(stub, 8)
            if code[:4] != self.CODE:
                return None
            site = memory.bytes(stub + 8 + struct.unpack("<i", code[4:])[0], 8)
        except gdb.MemoryError:
            return None
        sp = pending.read_register("rsp")
        info = pending.create_unwind_info(FrameId(gdb.Value(int(sp.cast(gdb.lookup_type("unsigned long"))) - 1),
                                                  gdb.Value(pc)))
        for name in self.REGISTERS:
            info.add_saved_register(name, pending.read_register(name))
        info.add_saved_register("rip", gdb.Value(site, pending.read_register("rip").type))
        return info


unwinder = ParkedUnwinder()
gdb.unwinder.register_unwinder(None, StubUnwinder(), replace=True)
gdb.unwinder.register_unwinder(None, unwinder, replace=True)
if hasattr(gdb.events, "cont"):
    gdb.events.cont.connect(lambda event: setattr(unwinder, "saved", None))

RUNTIME = re.compile(r"^(\S+ )?(ayatori::|ayt_|std::|__)")
RUNTIME_FILE = re.compile(r"(/include/ayatori/|/c\+\+/\d+/|sysdeps|/src/(ult|tasks|api|dsm)/)")

CALLING = re.compile(r"/c\+\+/[\d.]+/(bits/invoke\.h|bits/std_function\.h|functional|tuple)$")


class Line:
    """A frame as text."""

    def __init__(self, frame):
        self.pc = frame.pc()
        self.sp = int(frame.read_register("rsp").cast(gdb.lookup_type("unsigned long")))
        self.name = frame.name() or "??"
        self.is_signal = frame.type() == gdb.SIGTRAMP_FRAME
        place = frame.find_sal()
        self.file = place.symtab.filename if place.symtab else None
        self.at = "%s:%d" % (self.file, place.line) if self.file else None
        self.library = gdb.solib_name(self.pc)

    def is_runtime(self):
        return bool(self.is_signal or self.library or RUNTIME.match(self.name) or
                    (self.file and RUNTIME_FILE.search(self.file)))

    def __str__(self):
        if self.is_signal:
            return "<signal handler called>"
        where = " at " + self.at if self.at else " from " + os.path.basename(self.library) if self.library else ""
        return "0x%016x in %s ()%s" % (self.pc, self.name, where)

    def short(self):
        return self.name + " ()" + (" at " + self.at if self.at else "")


def walk(frame):
    """Lines of frame and its callers, and why they end: None, as stacks should."""
    lines = []
    while frame is not None:
        line = Line(frame)
        if frame.type() != gdb.INLINE_FRAME or not CALLING.search(line.file or ""):  # how the library calls a function
            lines.append(line)
        if len(lines) == FRAMES_MAX:
            return lines, "and so on"
        try:
            older = frame.older()
        except gdb.error as error:
            return lines, str(error)
        if older is None:
            reason = frame.unwind_stop_reason()
            if reason in (gdb.FRAME_UNWIND_NO_REASON, gdb.FRAME_UNWIND_NULL_ID, gdb.FRAME_UNWIND_OUTERMOST):
                return lines, None
            return lines, gdb.frame_stop_reason_string(reason)
        frame = older
    return lines, None


def saved_lines(job, thread):
    """Of the registers that a thread has left on its stack."""
    try:
        registers = job.registers(thread)
    except gdb.MemoryError:
        return [], "its stack cannot be read here"
    if registers["rip"] == 0:  # a hole in a core
        return [], "its stack is not in this core"
    try:
        unwinder.show(registers)
        frame = gdb.newest_frame().older()
        if frame is None:
            return [], "gdb cannot unwind from here"
        return walk(frame)
    finally:
        unwinder.show(None)


def lines_of(job, thread):
    """Lines, and what is to be said below them or None. Selects another thread and inferior; the caller restores them."""
    if thread.state == "placed":
        return [], "begins in %s" % gdb.execute("info symbol 0x%x" % thread.invoke, to_string=True).strip()
    if thread.owner != job.process:
        return [], "its stack is with process %d" % thread.owner
    if thread.state != "running":
        return saved_lines(job, thread)
    carrier = job.os_thread(thread.worker)
    if carrier is None:
        return [], "its worker's OS thread is not there"
    carrier.switch()
    lines, note = walk(gdb.newest_frame())
    if note is None and lines and job.on_native_stack(thread.worker, lines[-1].sp):
        more, note = saved_lines(job, thread)  # the runtime runs on behalf of it, on a stack of its own
        lines += more
    return lines, note


class Selection:
    """Restores what the user had selected."""

    def __enter__(self):
        self.inferior = gdb.selected_inferior()
        self.thread = gdb.selected_thread()
        self.level = None
        try:
            self.level = gdb.selected_frame().level()
        except gdb.error:
            pass
        return self

    def __exit__(self, *_):
        unwinder.show(None)
        if self.thread is not None and self.thread.is_valid():
            self.thread.switch()
            if self.level:
                gdb.execute("frame %d" % self.level, to_string=True)


def jobs():
    """Of every inferior that is a process of a job: selects it, and yields what it knows."""
    errors, any_found = [], False
    for inferior in gdb.inferiors():
        if inferior.pid == 0:
            continue
        threads = inferior.threads()
        if not threads:
            continue
        if gdb.selected_inferior().num != inferior.num or gdb.selected_thread() is None:
            min(threads, key=lambda thread: thread.num).switch()
        try:
            job = Job(inferior)
        except gdb.GdbError as error:
            errors.append(str(error))
            continue
        any_found = True
        yield job
    if not any_found:
        raise gdb.GdbError(errors[0] if errors else "there is no process")


def each_thread():
    """(job, thread) once each: from the inferior that holds its stack, else from the first one."""
    count = 0
    here = {i.num for i in gdb.inferiors() if i.pid != 0}
    held = set()
    if len(here) > 1:
        held = {job.process for job in jobs()}
    first = True
    for job in jobs():
        threads, whole = job.threads()
        for thread in threads:
            if thread.owner == job.process or (first and thread.owner not in held):
                count += 1
                yield job, thread
        if not whole:
            print("(some of what process %d knows of threads could not be read)" % job.process)
        first = False


def title(thread):
    pieces = {"running": "running " + thread.detail, "ready": "ready, " + thread.detail,
              "placed": "placed " + thread.detail}
    return "thread %d: %s, process %d" % (thread.number, pieces.get(thread.state, thread.detail), thread.owner)


class Ayatori(gdb.Command):
    """Ayatori's user-level threads: `ayatori threads`, `ayatori bt NUMBER|all`, `ayatori thread NUMBER|off`."""

    def __init__(self):
        super().__init__("ayatori", gdb.COMMAND_STACK, prefix=True)


class Threads(gdb.Command):
    """Lists the user-level threads: number, what it does or waits for, the process that holds its stack, where it stands."""

    def __init__(self):
        super().__init__("ayatori threads", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        count = 0
        with Selection():
            for job, thread in each_thread():
                count += 1
                lines, note = lines_of(job, thread)
                own = [line for line in lines if not line.is_runtime()]
                where = (own or lines)[0].short() if lines else note
                print(title(thread) + ": " + where)
        print("%d thread%s" % (count, "" if count == 1 else "s"))


class Backtrace(gdb.Command):
    """Prints the stack of a user-level thread by its number, or of all: ayatori bt NUMBER, ayatori bt all."""

    def __init__(self):
        super().__init__("ayatori bt", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = wanted_number(argument, "all")
        count = 0
        with Selection():
            for job, thread in each_thread():
                if wanted is not None and thread.number != wanted:
                    continue
                count += 1
                print(title(thread))
                lines, note = lines_of(job, thread)
                for level, line in enumerate(lines):
                    print("    #%-2d %s" % (level, line))
                if note:
                    print("    (%s)" % note)
        if wanted is not None and count == 0:
            raise gdb.GdbError("there is no thread %d, or it has ended" % wanted)


class Select(gdb.Command):
    """Makes a parked thread's frames those of the selected OS thread, from frame 1 on, for bt, up, info locals and so on,
until the program goes on or `ayatori thread off`. Nothing in the process is changed."""

    def __init__(self):
        super().__init__("ayatori thread", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        wanted = wanted_number(argument, "off")
        if wanted is None:
            unwinder.show(None)
            return
        found = None
        with Selection():
            for job, thread in each_thread():
                if thread.number == wanted:
                    found = job, thread
        if found is None:
            raise gdb.GdbError("there is no thread %d, or it has ended" % wanted)
        job, thread = found
        if thread.state == "placed" or thread.owner != job.process:
            raise gdb.GdbError(title(thread) + ": its stack is not here")
        if gdb.selected_inferior().num != job.inferior.num:
            min(job.inferior.threads(), key=lambda t: t.num).switch()
        carrier = job.os_thread(thread.worker) if thread.state == "running" else None
        if carrier is not None:
            carrier.switch()
            gdb.execute("frame")
            return
        try:
            registers = job.registers(thread)
        except gdb.MemoryError:
            raise gdb.GdbError(title(thread) + ": its stack cannot be read here")
        unwinder.show(registers)
        gdb.execute("frame 1")


def wanted_number(argument, word):
    if argument == word:
        return None
    try:
        return int(argument)
    except ValueError:
        raise gdb.GdbError("the number of a thread (`ayatori threads`), or `%s`" % word)


Ayatori()
Threads()
Backtrace()
Select()
