#include "loader/confine.h"

#include "base/clock.h"
#include "base/proc_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FILES_MAX = 256, FILTER_MAX = 192 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED true
#else
#define IS_SANITIZED false
#endif

/* The hard limit of CPU time kills, the soft one says why first. */
static status_t limit(int what, rlim_t most, err_t *err)
{
    const struct rlimit both = {.rlim_cur = most, .rlim_max = what == RLIMIT_CPU ? most + 1 : most};
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t)what, &now) == 0 && now.rlim_max < most)
        return STATUS_OK; /* whoever started us allows less */
    return setrlimit((__rlimit_resource_t)what, &both) == 0
               ? STATUS_OK
               : err_set(err, STATUS_IO, "no limit of %llu: %m", (unsigned long long)most);
}

/* The kernel then takes this process and not the worker. Not everywhere may it be said. */
static void go_first(void)
{
    FILE *file = fopen("/proc/self/oom_score_adj", "we");

    if (!file)
        return;
    fputs("1000", file);
    fclose(file);
}

status_t confine_start(pid_t parent, int64_t cpu_ns, err_t *err)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        return err_set(err, STATUS_CANCELLED, "whoever wanted the model has gone");
    go_first();
    status_t status = limit(RLIMIT_CORE, 0, err);
    if (status == STATUS_OK)
        status = limit(RLIMIT_NOFILE, FILES_MAX, err);
    if (status == STATUS_OK)
        status = limit(RLIMIT_CPU, (rlim_t)(cpu_ns / NS_PER_S) + 1, err);
    return status;
}

status_t confine_memory(uint64_t budget_bytes, err_t *err)
{
    uint64_t most;

    if (limit(RLIMIT_FSIZE, 0, err) != STATUS_OK) /* OpenMP registers itself in a file while it starts */
        return err->code;
    if (IS_SANITIZED ||
        __builtin_add_overflow(proc_memory_bytes("/proc/self/status", "VmData"), budget_bytes, &most))
        return STATUS_OK;
    return limit(RLIMIT_DATA, most, err);
}

/* ---- System calls ---- */

#if defined(__x86_64__)
#define THIS_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define THIS_ARCH AUDIT_ARCH_AARCH64
#endif

#ifdef THIS_ARCH

typedef struct {
    struct sock_filter list[FILTER_MAX];
    unsigned short count;
} filter_t;

/* Out of this process, or into another one. */
static const int deadly[] = {
    SYS_socket,
    SYS_socketpair,
    SYS_connect,
    SYS_bind,
    SYS_listen,
    SYS_accept,
    SYS_accept4,
    SYS_execve,
    SYS_execveat,
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_pidfd_getfd,
    SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo,
    SYS_rt_tgsigqueueinfo,
    SYS_tkill,
    SYS_unshare,
    SYS_setns,
    SYS_mount,
    SYS_umount2,
    SYS_chroot,
    SYS_pivot_root,
    SYS_bpf,
    SYS_init_module,
    SYS_finit_module,
    SYS_kexec_load,
    SYS_reboot,
    SYS_add_key,
    SYS_request_key,
    SYS_keyctl,
    SYS_perf_event_open,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
};

static const int of_files[] = {
    SYS_unlinkat, SYS_renameat2, SYS_mkdirat, SYS_linkat,   SYS_symlinkat, SYS_mknodat,  SYS_fchmod,
    SYS_fchmodat, SYS_fchownat,  SYS_fchown,  SYS_truncate, SYS_utimensat, SYS_setxattr, SYS_lsetxattr,
#ifdef SYS_unlink
    SYS_unlink,   SYS_rename,    SYS_mkdir,   SYS_rmdir,    SYS_link,      SYS_symlink,  SYS_mknod,
    SYS_chmod,    SYS_chown,     SYS_lchown,  SYS_creat,    SYS_utime,     SYS_utimes,
#endif
#ifdef SYS_renameat
    SYS_renameat,
#endif
};

/* A library that is told so falls back to a call that can be looked into. */
static const int unknown[] = {SYS_clone3, SYS_openat2, SYS_io_uring_setup};

static void add(filter_t *f, struct sock_filter one)
{
    if (f->count < FILTER_MAX)
        f->list[f->count++] = one;
}

static void load(filter_t *f, size_t offset)
{
    add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offset));
}

static void when_call(filter_t *f, const int *calls, size_t count, unsigned verdict)
{
    for (size_t i = 0; i < count; i++) {
        add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i], 0, 1));
        add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
    }
}

/* Of a call: its argument & mask must be (or, not) value, else the verdict. Behind it the number of the call is loaded again. */
static void when_argument(filter_t *f, int call, unsigned which, unsigned mask, unsigned value,
                          bool allowed_if_equal, unsigned verdict)
{
    size_t at =
        offsetof(struct seccomp_data, args) + which * sizeof(uint64_t); /* its low half: little endian */

    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 5));
    load(f, at);
    add(f, (struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask));
    add(f,
        (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, allowed_if_equal, !allowed_if_equal));
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
    load(f, offsetof(struct seccomp_data, nr));
}

static void build(filter_t *f)
{
    const unsigned kill = SECCOMP_RET_KILL_PROCESS, self = (unsigned)getpid();
    const unsigned writes = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;

    load(f, offsetof(struct seccomp_data, arch));
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, THIS_ARCH, 1, 0));
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, kill));
    load(f, offsetof(struct seccomp_data, nr));
#ifdef __x86_64__
    add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1)); /* x32 */
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, kill));
    when_argument(f, SYS_open, 1, writes, 0, true, SECCOMP_RET_ERRNO | EROFS);
#endif
    when_argument(f, SYS_openat, 2, writes, 0, true, SECCOMP_RET_ERRNO | EROFS);
    when_argument(f, SYS_clone, 0, CLONE_THREAD, CLONE_THREAD, true, kill);
    when_argument(f, SYS_kill, 0, UINT32_MAX, self, true, kill);
    when_argument(f, SYS_tgkill, 0, UINT32_MAX, self, true, kill);
    when_argument(f, SYS_prlimit64, 2, UINT32_MAX, 0, true,
                  SECCOMP_RET_ERRNO | EPERM); /* reading limits is fine */
    when_call(f, (const int[]){SYS_setrlimit}, 1, SECCOMP_RET_ERRNO | EPERM);
    when_call(f, unknown, sizeof(unknown) / sizeof(*unknown), SECCOMP_RET_ERRNO | ENOSYS);
    when_call(f, of_files, sizeof(of_files) / sizeof(*of_files), SECCOMP_RET_ERRNO | EROFS);
    when_call(f, deadly, sizeof(deadly) / sizeof(*deadly), kill);
    add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
}

/* Engines have threads by now: the filter is for all of them. */
bool confine_calls(void)
{
    filter_t filter = {.count = 0};
    struct sock_fprog program = {.filter = filter.list};

    build(&filter);
    program.len = filter.count;
    return filter.count < FILTER_MAX && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
}

#else

bool confine_calls(void)
{
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return false;
}

#endif
