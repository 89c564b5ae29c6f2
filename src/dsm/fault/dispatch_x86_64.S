// SPDX-License-Identifier: Apache-2.0
// Code in the range that Syscall User Dispatch always lets through (dispatch.hpp).
//
// Offsets: ayt_raw_syscall(number, a0..a5) takes number..a4 in rdi rsi rdx rcx r8 r9 and a5 at 8(%rsp).
        .text
        .balign 64
        .globl ayt_dispatch_begin
        .hidden ayt_dispatch_begin
ayt_dispatch_begin:

// The very bytes by which unwinders without tables know a signal frame. gdb knows such code only where it has no symbol, so
// the registers of the kernel's ucontext_t, to which rsp points, are named here as the C library does for its own.
        .macro saved register, offset   // DW_CFA_expression: DW_OP_breg7 offset
        .cfi_escape 0x10, \register, 3, 0x77, (\offset & 0x7f) | 0x80, \offset >> 7
        .endm
        .globl ayt_restorer
        .hidden ayt_restorer
        .type ayt_restorer, @function
        .cfi_startproc simple
        .cfi_signal_frame
        .cfi_escape 0x0f, 4, 0x77, (160 & 0x7f) | 0x80, 160 >> 7, 0x06  // CFA: the saved rsp
        saved 8, 40
        saved 9, 48
        saved 10, 56
        saved 11, 64
        saved 12, 72
        saved 13, 80
        saved 14, 88
        saved 15, 96
        saved 5, 104                    // rdi
        saved 4, 112                    // rsi
        saved 6, 120                    // rbp
        saved 3, 128                    // rbx
        saved 1, 136                    // rdx
        saved 0, 144                    // rax
        saved 2, 152                    // rcx
        saved 7, 160                    // rsp
        saved 16, 168                   // rip
        nop                             // unwinders look up the byte before a return address
ayt_restorer:
        movq $15, %rax                  // SYS_rt_sigreturn
        syscall
        .cfi_endproc
        .size ayt_restorer, .-ayt_restorer

        .balign 16
        .globl ayt_raw_syscall
        .hidden ayt_raw_syscall
        .type ayt_raw_syscall, @function
ayt_raw_syscall:
        .cfi_startproc
        movq %rdi, %rax
        movq %rsi, %rdi
        movq %rdx, %rsi
        movq %rcx, %rdx
        movq %r8, %r10
        movq %r9, %r8
        movq 8(%rsp), %r9
        syscall
        ret
        .cfi_endproc
        .size ayt_raw_syscall, .-ayt_raw_syscall

// kStubs stubs of 8 bytes (syscalls.cpp): make the call, go on where the call site does. Stub n serves the one call site
// whose return address stands in ayt_stub_targets[n]; all registers are the site's own (rcx and r11 are the kernel's).
        .balign 16
        .globl ayt_stubs
        .hidden ayt_stubs
ayt_stubs:
        .set stub, 0
        .rept 1024
        syscall
        jmp *ayt_stub_targets + 8 * stub(%rip)
        .set stub, stub + 1
        .endr
        .globl ayt_dispatch_end
        .hidden ayt_dispatch_end
ayt_dispatch_end:
        .size ayt_stubs, .-ayt_stubs

        .bss
        .balign 64
        .globl ayt_stub_targets
        .hidden ayt_stub_targets
        .type ayt_stub_targets, @object
ayt_stub_targets:
        .zero 8 * 1024
        .size ayt_stub_targets, .-ayt_stub_targets

        .section .note.GNU-stack, "", @progbits
