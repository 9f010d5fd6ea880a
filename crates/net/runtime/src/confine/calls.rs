//! The system calls that remain, for all threads (`seccomp(2)`, filters). All
//! others fail with `EPERM`: the process goes on, packets flow, and devices are
//! given back in the end, which a killed process could not do.
//!
//! What a call is asked to do is looked at only where numbers tell it: a filter
//! cannot follow pointers, so no call that takes a path is here, unless the process said
//! that it opens files later: then landlock knows which.
//!
//! Where it is not known what a process will do ([`Needs::unknown`]), or it starts
//! programs, which do anything, the filter is the other way round: it lets all through
//! but [`NEVER`].

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, sock_filter,
};

use super::Needs;

/// Calls that need no second look.
const ALWAYS: &[c_long] = &[
    // What is open.
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_sendmsg,
    libc::SYS_shutdown,
    libc::SYS_fstat,
    libc::SYS_fstatfs, // whether a peer's file has hugepages
    libc::SYS_close,
    libc::SYS_ppoll,
    libc::SYS_eventfd2, // a queue that is set up again
    // Eventfds that a peer has, too (`bus::eventfd`).
    libc::SYS_preadv2,
    libc::SYS_io_submit,
    libc::SYS_io_getevents,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_madvise,
    // Time.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    // Threads: those that run begin, wait and end.
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrusage, // whether a thread waited for a client's memory, and how long all have run
    libc::SYS_getrandom,
    libc::SYS_wait4,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// Calls that only this architecture has.
#[cfg(target_arch = "x86_64")]
const OLD: &[c_long] = &[libc::SYS_poll];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[c_long] = &[];

/// Requests of `ioctl`: whether it is a terminal, how much waits to be read, and
/// giving a VFIO device back. Not `TIOCSTI`, which types for the user.
const IOCTLS: &[u64] = &[libc::TCGETS, libc::FIONREAD, VFIO + 10, VFIO + 11, VFIO + 14];
/// VFIO's first request, `_IO(';', 100)`: 10 is `VFIO_DEVICE_SET_IRQS`, 11
/// `VFIO_DEVICE_RESET`, 13 `VFIO_IOMMU_MAP_DMA`, 14 `VFIO_IOMMU_UNMAP_DMA` (linux/vfio.h).
const VFIO: u64 = (b';' as u64) << 8 | 100;

/// Commands of `fcntl`: copying a descriptor to hand it on, looking at one, and
/// sealing a client's memory.
const FCNTLS: &[u64] = &[
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_GETFL as u64,
    libc::F_ADD_SEALS as u64,
    libc::F_GET_SEALS as u64,
];

/// Calls of a process that may ask for more packet buffers, and writes files.
const MEMORY: &[c_long] = &[
    libc::SYS_memfd_create,
    libc::SYS_ftruncate,
    libc::SYS_mbind,
    libc::SYS_lseek,
    libc::SYS_readv,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
];

/// Calls of a process that writes captures.
const CAPTURES: &[c_long] = &[libc::SYS_ftruncate];

/// Calls that open files, and make and remove them.
const FILES: &[c_long] = &[
    libc::SYS_openat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_ftruncate,
    libc::SYS_lseek,
];
#[cfg(target_arch = "x86_64")]
const OLD_FILES: &[c_long] = &[libc::SYS_open, libc::SYS_stat, libc::SYS_mkdir, libc::SYS_unlink];
#[cfg(not(target_arch = "x86_64"))]
const OLD_FILES: &[c_long] = &[];

/// Calls that make sockets which listen. One whose owner is gone is found by connecting to it.
const LISTENING: &[c_long] = &[
    libc::SYS_socket,
    libc::SYS_setsockopt,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_connect,
    libc::SYS_fchmod,
];

/// What no process of ours does, whatever it does otherwise.
const NEVER: &[c_long] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_mount,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_process_madvise,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
];

/// Flags of `clone` by which a process, or a thread, gets namespaces of its own, and in one of
/// users all capabilities there. `CLONE_NEWTIME` is one of `clone3` and `unshare` only.
const NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// From this number on system calls are those of x32, x86-64's second interface: the same
/// calls under numbers that [`NEVER`] does not have (asm/unistd.h, `__X32_SYSCALL_BIT`).
const X32: u32 = 0x4000_0000;

/// Refuses other calls to all threads of this process, for good.
pub fn confine(needs: &Needs) -> Result<(), seccompiler::Error> {
    if lets_most_through(needs) {
        seccompiler::apply_filter_all_threads(&other_ways())?;
    }
    seccompiler::apply_filter_all_threads(&filter(needs)?)
}

/// Whether it is not known what the process will do, so that only some calls are refused.
fn lets_most_through(needs: &Needs) -> bool {
    needs.unknown || needs.programs
}

/// A filter of the ways by which calls would go round one that refuses some. There is no
/// `clone3`, whose flags stand in memory: the C library then makes threads and processes by
/// `clone`, whose flags can be looked at. And there are no calls of [`X32`].
fn other_ways() -> BpfProgram {
    let line = |code: u32, jt: u8, jf: u8, k: u32| sock_filter { code: code as u16, jt, jf, k };
    let answer = |errno: libc::c_int| libc::SECCOMP_RET_ERRNO | errno as u32;
    vec![
        // The call's number is the first word of what a filter sees (`seccomp_data`).
        line(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        line(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 2, 0, libc::SYS_clone3 as u32),
        line(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 2, 0, X32),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, answer(libc::ENOSYS)),
        line(libc::BPF_RET | libc::BPF_K, 0, 0, answer(libc::EPERM)),
    ]
}

fn filter(needs: &Needs) -> Result<BpfProgram, BackendError> {
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let machine = std::env::consts::ARCH.try_into()?;
    let (rules, others, these) = match lets_most_through(needs) {
        true => (refused(needs)?, SeccompAction::Allow, refuse),
        false => (rules(needs)?, refuse, SeccompAction::Allow),
    };
    SeccompFilter::new(rules.into_iter().collect(), others, these, machine)?.try_into()
}

/// What is refused to a process of which little is known.
fn refused(needs: &Needs) -> Result<Rules, BackendError> {
    let mut rules: Rules = NEVER.iter().map(|&call| (call, Vec::new())).collect();
    rules.insert(libc::SYS_ioctl, one_of(1, &[libc::TIOCSTI])?);
    let namespaces = NAMESPACES.iter().map(|&flag| {
        let flag = u64::from(flag as u32);
        only(0, SeccompCmpOp::MaskedEq(flag), flag)
    });
    rules.insert(libc::SYS_clone, namespaces.collect::<Result<_, _>>()?);
    if !needs.programs {
        rules.insert(libc::SYS_execve, Vec::new());
        rules.insert(libc::SYS_execveat, Vec::new());
    }
    Ok(rules)
}

type Rules = BTreeMap<c_long, Vec<SeccompRule>>;

fn rules(needs: &Needs) -> Result<Rules, BackendError> {
    let mut rules: Rules = ALWAYS.iter().chain(OLD).map(|&call| (call, Vec::new())).collect();
    let further = [
        (needs.memory, MEMORY),
        (needs.captures, CAPTURES),
        (!needs.files.is_empty(), FILES),
        (!needs.files.is_empty(), OLD_FILES),
        (needs.listening, LISTENING),
    ];
    let further = further.iter().filter(|(needed, _)| *needed).flat_map(|(_, calls)| calls.iter());
    rules.extend(further.map(|&call| (call, Vec::new())));
    let executable = SeccompCmpOp::MaskedEq(libc::PROT_EXEC as u64);
    rules.insert(libc::SYS_mmap, vec![only(2, executable.clone(), 0)?]);
    rules.insert(libc::SYS_mprotect, vec![only(2, executable, 0)?]);
    let mapping: &[u64] = if needs.memory { &[VFIO + 13] } else { &[] };
    rules.insert(libc::SYS_ioctl, one_of(1, &[IOCTLS, mapping].concat())?);
    rules.insert(libc::SYS_fcntl, one_of(1, FCNTLS)?);
    rules.insert(libc::SYS_prctl, one_of(0, &[libc::PR_SET_NAME as u64])?);
    // A thread that begins pins itself.
    rules.insert(libc::SYS_sched_setaffinity, one_of(0, &[0])?);
    // Ending itself (`abort`), and a child.
    let ourselves = rustix::process::getpid().as_raw_nonzero().get() as u64;
    rules.insert(libc::SYS_tgkill, one_of(0, &[ourselves])?);
    if needs.signals {
        rules.insert(libc::SYS_kill, Vec::new());
    } else if let Some(child) = needs.child {
        rules.insert(libc::SYS_kill, one_of(0, &[child.as_raw_nonzero().get() as u64])?);
    }
    if needs.clients {
        rules.insert(libc::SYS_accept4, Vec::new());
        if !needs.listening {
            // A byte out of band, and a file with it, is read like any other (`bus::peer`).
            rules.insert(libc::SYS_setsockopt, vec![socket_option(libc::SO_OOBINLINE)?]);
        }
    }
    if needs.sending || needs.datagrams {
        rules.insert(libc::SYS_sendto, Vec::new());
    }
    let mut asked = Vec::new();
    if needs.interfaces {
        rules.insert(libc::SYS_readv, Vec::new());
        // Statistics; sending and receiving are calls that all may do.
        asked.extend(one_of(1, &[libc::SOL_PACKET, libc::SOL_XDP].map(|level| level as u64))?);
    }
    if needs.peers {
        asked.push(socket_option(libc::SO_PEERCRED)?);
    }
    // A call without rules would be let through whatever it asks.
    if !asked.is_empty() {
        rules.insert(libc::SYS_getsockopt, asked);
    }
    Ok(rules)
}

/// Calls whose argument number `argument` is one of `values`; 32 bits of it.
fn one_of(argument: u8, values: &[u64]) -> Result<Vec<SeccompRule>, BackendError> {
    values.iter().map(|&value| only(argument, SeccompCmpOp::Eq, value)).collect()
}

/// Calls that ask for an option of any socket, or set it.
fn socket_option(option: libc::c_int) -> Result<SeccompRule, BackendError> {
    let is = |argument, value: libc::c_int| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value as u64)
    };
    SeccompRule::new(vec![is(1, libc::SOL_SOCKET)?, is(2, option)?])
}

fn only(argument: u8, compare: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_takes_a_path_or_makes_a_process_is_let_through() {
        let child = rustix::process::Pid::from_raw(4711);
        let all = Needs {
            clients: true,
            datagrams: true,
            interfaces: true,
            child,
            memory: true,
            ..Needs::default()
        };
        let rules = rules(&all).expect("values fit");
        for call in [
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_unlinkat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_socket,
            libc::SYS_connect,
            libc::SYS_bind,
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_process_vm_writev,
            libc::SYS_pidfd_getfd,
            libc::SYS_bpf,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_setuid,
        ] {
            assert!(!rules.contains_key(&call), "system call {call}");
        }
        assert_eq!(rules[&libc::SYS_kill].len(), 1, "one process only");
        assert_eq!(rules[&libc::SYS_setsockopt].len(), 1, "one option only");
        let few = super::rules(&Needs::default()).expect("values fit");
        for call in [
            libc::SYS_kill,
            libc::SYS_accept4,
            libc::SYS_setsockopt,
            libc::SYS_sendto,
            libc::SYS_getsockopt,
            libc::SYS_readv,
        ] {
            assert!(rules.contains_key(&call) && !few.contains_key(&call), "system call {call}");
        }
    }

    #[test]
    fn both_machines_have_a_filter() {
        for machine in [seccompiler::TargetArch::x86_64, seccompiler::TargetArch::aarch64] {
            let rules = rules(&Needs::default()).expect("values fit").into_iter().collect();
            let filter = SeccompFilter::new(rules, SeccompAction::Errno(1), SeccompAction::Allow, machine);
            let program: BpfProgram = filter.and_then(TryInto::try_into).expect("it compiles");
            assert!(program.len() < 1000, "{}: the kernel walks through it", program.len());
        }
    }

    #[test]
    fn each_need_has_its_calls_and_no_others() {
        let files = crate::confine::Files { any: true, ..Default::default() };
        let needs = [
            (Needs { files, ..Needs::default() }, libc::SYS_openat),
            (Needs { listening: true, ..Needs::default() }, libc::SYS_bind),
            (Needs { signals: true, ..Needs::default() }, libc::SYS_kill),
            (Needs { memory: true, ..Needs::default() }, libc::SYS_memfd_create),
            (Needs { peers: true, ..Needs::default() }, libc::SYS_getsockopt),
        ];
        for (n, (need, _)) in needs.iter().enumerate() {
            let rules = rules(need).expect("values fit");
            for (m, (_, call)) in needs.iter().enumerate() {
                assert_eq!(rules.contains_key(call), n == m, "need {n}, call of {m}");
            }
            assert!(!rules.contains_key(&libc::SYS_execve) && !rules.contains_key(&libc::SYS_clone));
        }
    }

    #[test]
    fn who_writes_captures_makes_files_shorter_and_opens_none() {
        let captures = rules(&Needs { captures: true, ..Needs::default() }).expect("values fit");
        let none = rules(&Needs::default()).expect("values fit");
        assert!(captures.contains_key(&libc::SYS_ftruncate) && !none.contains_key(&libc::SYS_ftruncate));
        assert_eq!(captures.len(), none.len() + 1, "nothing else");
    }

    #[test]
    fn who_may_do_most_things_starts_no_program_and_changes_no_other_process() {
        let unknown = refused(&Needs { unknown: true, ..Needs::default() }).expect("values fit");
        let programs = refused(&Needs { programs: true, ..Needs::default() }).expect("values fit");
        for call in [libc::SYS_ptrace, libc::SYS_bpf, libc::SYS_mount, libc::SYS_io_uring_setup] {
            assert!(unknown.contains_key(&call) && programs.contains_key(&call), "system call {call}");
        }
        assert!(unknown.contains_key(&libc::SYS_execve) && !programs.contains_key(&libc::SYS_execve));
        assert_eq!(unknown[&libc::SYS_clone].len(), NAMESPACES.len(), "threads are made");
    }
}
