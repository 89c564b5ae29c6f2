// SPDX-License-Identifier: Apache-2.0
// confine [--user] [--seccomp] [--limits] [--no-ptrace] PROGRAM ARGS...: runs a program as a default container would: as an
// unprivileged user (when started as root), under a filter that refuses with EPERM what Docker's default profile
// refuses of the calls a runtime like ours might make, with RLIMIT_NOFILE 256 and RLIMIT_MEMLOCK 64 KiB.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static const int kRefused[] = {SYS_userfaultfd,
                               SYS_personality,
                               SYS_keyctl,
                               SYS_add_key,
                               SYS_request_key,
                               SYS_bpf,
                               SYS_perf_event_open,
                               SYS_mount,
                               SYS_umount2,
                               SYS_pivot_root,
                               SYS_setns,
                               SYS_unshare,
                               SYS_kcmp,
                               SYS_move_pages,
                               SYS_mbind,
                               SYS_get_mempolicy,
                               SYS_set_mempolicy,
                               SYS_migrate_pages,
                               SYS_swapon,
                               SYS_swapoff,
                               SYS_reboot,
                               SYS_init_module,
                               SYS_finit_module,
                               SYS_delete_module,
                               SYS_kexec_load,
                               SYS_open_by_handle_at,
                               SYS_name_to_handle_at,
                               SYS_io_uring_setup,
                               SYS_io_uring_enter,
                               SYS_io_uring_register,
                               SYS_clock_settime,
                               SYS_settimeofday,
                               SYS_acct,
                               SYS_quotactl,
                               SYS_iopl,
                               SYS_ioperm,
                               SYS_process_vm_writev,
                               SYS_vhangup,
                               SYS_lookup_dcookie};

static void die(const char* what) {
  fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
  exit(125);
}

static void filter(const int* refused, int calls) {
  enum { kCalls = sizeof kRefused / sizeof kRefused[0] };
  struct sock_filter code[kCalls + 6];
  int n = 0;
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch));
  code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < calls; ++i)
    code[n++] =
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)refused[i], (unsigned char)(calls - i), 0);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  struct sock_fprog program = {(unsigned short)n, code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) die("no_new_privs");
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) die("seccomp");
}

int main(int argc, char** argv) {
  static const int kPtrace[] = {SYS_ptrace};
  int user = 0, seccomp = 0, limits = 0, ptrace = 1, at = 1;
  for (; at < argc && strncmp(argv[at], "--", 2) == 0; ++at) {
    if (strcmp(argv[at], "--user") == 0)
      user = 1;
    else if (strcmp(argv[at], "--seccomp") == 0)
      seccomp = 1;
    else if (strcmp(argv[at], "--limits") == 0)
      limits = 1;
    else if (strcmp(argv[at], "--no-ptrace") == 0)
      ptrace = 0;
    else {
      fprintf(stderr, "confine: unknown option %s\n", argv[at]);
      return 2;
    }
  }
  if (at >= argc) {
    fprintf(stderr, "usage: confine [--user] [--seccomp] [--limits] [--no-ptrace] PROGRAM ARGS...\n");
    return 2;
  }
  if (limits) {
    const struct rlimit files = {256, 256}, locked = {65536, 65536};
    if (setrlimit(RLIMIT_NOFILE, &files) != 0 || setrlimit(RLIMIT_MEMLOCK, &locked) != 0) die("setrlimit");
  }
  if (user && geteuid() == 0 && (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0)) die("setuid");
  if (seccomp) filter(kRefused, sizeof kRefused / sizeof kRefused[0]);
  if (!ptrace) filter(kPtrace, 1);
  execv(argv[at], argv + at);
  die(argv[at]);
}
