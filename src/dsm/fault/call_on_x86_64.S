// SPDX-License-Identifier: Apache-2.0
// void ayt_call_on(void* stack_top, void (*function)(void* argument, void* caller_sp), void* argument)
// Calls the function on another stack (process.cpp). stack_top is 16-byte aligned; the frame pointer finds the way back
// and keeps unwinders going.
        .text
        .globl ayt_call_on
        .hidden ayt_call_on
        .type ayt_call_on, @function
ayt_call_on:
        .cfi_startproc
        pushq %rbp
        .cfi_def_cfa_offset 16
        .cfi_offset %rbp, -16
        movq %rsp, %rbp
        .cfi_def_cfa_register %rbp
        movq %rsi, %rax
        movq %rsp, %rsi
        movq %rdi, %rsp
        movq %rdx, %rdi
        call *%rax
        movq %rbp, %rsp
        popq %rbp
        .cfi_def_cfa %rsp, 8
        ret
        .cfi_endproc
        .size ayt_call_on, .-ayt_call_on

        .section .note.GNU-stack, "", @progbits
