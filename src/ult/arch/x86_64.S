// SPDX-License-Identifier: Apache-2.0
// Context switch for x86-64, System V ABI.
//
// A saved context is a stack pointer to this frame:
//   offset  0   8   16  24  32  40  48
//           r15 r14 r13 r12 rbx rbp return address
// The x87 control word and mxcsr stay with the OS thread: a thread that changes the rounding mode restores it before it
// forks, joins or ends.

#include "ult/arch/layout.h"

        .text

// The registers that a call preserves, as in the frame above.
        .macro SAVE_REGISTERS
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r15, 0
        .endm
        .macro RESTORE_REGISTERS
        popq    %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore r15
        popq    %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore r14
        popq    %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore r13
        popq    %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        .endm

// void ayt_switch_call(void** save, void* new_sp, void* (*f)(void*), void* argument)
// Saves the caller's context in *save, calls f(argument) on the stack at new_sp (16-byte aligned) and resumes the context
// whose stack pointer f returns: the caller itself, or anybody else.
        .globl  ayt_switch_call
        .hidden ayt_switch_call
        .type   ayt_switch_call, @function
        .p2align 4
ayt_switch_call:
        .cfi_startproc
        SAVE_REGISTERS
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        movq    %rcx, %rdi
        xorl    %ebp, %ebp              // frame-pointer walks end here
        .cfi_remember_state
        .cfi_undefined rip              // the bottom of the stack at new_sp
        call    *%rdx
        .cfi_restore_state
        movq    %rax, %rsp
        RESTORE_REGISTERS
        ret
        .cfi_endproc
        .size   ayt_switch_call, . - ayt_switch_call

// void ayt_switch_next(Descriptor* self, Descriptor* next, Worker* worker)
// Saves the caller's context in self, resumes that of `next`, with its exception globals and errno, and adds self, which the
// caller has saved else, to the worker's run ring, which has room: from then on others may run it, so its stack is left
// before, and the stack of `next`, whose pages may be elsewhere, not used before the worker's state is that of `next`.
        .globl  ayt_switch_next
        .hidden ayt_switch_next
        .type   ayt_switch_next, @function
        .p2align 4
ayt_switch_next:
        .cfi_startproc
        SAVE_REGISTERS
        movq    %rsp, AYT_DESCRIPTOR_SP(%rdi)
        movq    %rsi, AYT_WORKER_CURRENT(%rdx)
        movq    AYT_DESCRIPTOR_SP(%rsi), %rsp
        movq    AYT_WORKER_EH(%rdx), %rax
        movq    AYT_DESCRIPTOR_EH_CAUGHT(%rsi), %rcx
        movq    %rcx, (%rax)
        movl    AYT_DESCRIPTOR_EH_UNCAUGHT(%rsi), %ecx
        movl    %ecx, 8(%rax)
        movq    AYT_WORKER_ERRNO(%rdx), %rax
        movl    AYT_DESCRIPTOR_ERRNO(%rsi), %ecx
        movl    %ecx, (%rax)
        movq    AYT_WORKER_RING_TAIL(%rdx), %rax        // RunRing::try_push()
        movl    %eax, %ecx
        andl    $AYT_RING_MASK, %ecx
        movq    %rdi, AYT_WORKER_RING(%rdx, %rcx, 8)
        incq    %rax
        movq    %rax, AYT_WORKER_RING_TAIL(%rdx)        // release, as every store of this machine
        RESTORE_REGISTERS
        ret
        .cfi_endproc
        .size   ayt_switch_next, . - ayt_switch_next

// void ayt_call_native(void (*f)(void*), void* argument, void** save, void* native_sp)
// Saves the caller's context in *save, where others look at it meanwhile, calls f(argument) on the stack at native_sp (16-byte
// aligned) and comes back: what f preserves need not be restored.
        .globl  ayt_call_native
        .hidden ayt_call_native
        .type   ayt_call_native, @function
        .p2align 4
ayt_call_native:
        .cfi_startproc
        SAVE_REGISTERS
        movq    %rsp, (%rdx)
        movq    %rsp, %rbx
        movq    %rcx, %rsp
        movq    %rdi, %rax
        movq    %rsi, %rdi
        xorl    %ebp, %ebp              // frame-pointer walks end here
        .cfi_remember_state
        .cfi_undefined rip              // the bottom of the stack at native_sp
        call    *%rax
        .cfi_restore_state
        movq    %rbx, %rsp
        movq    32(%rsp), %rbx
        movq    40(%rsp), %rbp
        addq    $48, %rsp
        .cfi_adjust_cfa_offset -48
        .cfi_restore r15
        .cfi_restore r14
        .cfi_restore r13
        .cfi_restore r12
        .cfi_restore rbx
        .cfi_restore rbp
        ret
        .cfi_endproc
        .size   ayt_call_native, . - ayt_call_native

// First return address of a thread that is started by resuming it: its frame holds the function in rbx and the argument
// in r12. The function does not return.
        .globl  ayt_thread_entry
        .hidden ayt_thread_entry
        .type   ayt_thread_entry, @function
        .p2align 4
ayt_thread_entry:
        .cfi_startproc
        .cfi_undefined rip
        movq    %r12, %rdi
        xorl    %ebp, %ebp
        call    *%rbx
        ud2
        .cfi_endproc
        .size   ayt_thread_entry, . - ayt_thread_entry

// End of a resume of a thread that was suspended in a page fault: rbx is where rt_sigreturn expects its frame, r12 the
// code that executes it.
        .globl  ayt_fault_return
        .hidden ayt_fault_return
        .type   ayt_fault_return, @function
        .p2align 4
ayt_fault_return:
        .cfi_startproc
        .cfi_undefined rip
        movq    %rbx, %rsp
        jmp     *%r12
        .cfi_endproc
        .size   ayt_fault_return, . - ayt_fault_return

        .section .note.GNU-stack,"",@progbits
