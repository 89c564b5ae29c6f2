// SPDX-License-Identifier: Apache-2.0
// Switch between the stacks of the simulation's fibers (System V, x86-64).
//
// void sim_switch(void** save_sp, void* load_sp)
//
// Frame at the saved stack pointer, lowest address first:
//   offset  0: r15   8: r14   16: r13   24: r12   32: rbx   40: rbp   48: return address
        .text
        .globl  sim_switch
        .type   sim_switch, @function
sim_switch:
        .cfi_startproc
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        movq    %rsp, (%rdi)
        movq    %rsi, %rsp
        popq    %r15
        .cfi_adjust_cfa_offset -8
        popq    %r14
        .cfi_adjust_cfa_offset -8
        popq    %r13
        .cfi_adjust_cfa_offset -8
        popq    %r12
        .cfi_adjust_cfa_offset -8
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        ret
        .cfi_endproc
        .size   sim_switch, .-sim_switch
        .section .note.GNU-stack, "", @progbits
