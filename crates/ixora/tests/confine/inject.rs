//! System calls that another process makes because we make it (ptrace(2)): what
//! whoever took it over could do, without a hook in the program for it.
//!
//! Its thread is stopped, led to a `syscall` instruction with the registers
//! set, stepped over it, and put back where it was. x86-64 only.

use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::sys::ptrace::{self, Options};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

/// Room below the stack pointer that the ABI leaves to a function without
/// frame, and then some.
const RED_ZONE: u64 = 1024;

/// A stopped thread; it goes on when this is dropped.
pub struct Thread {
    id: Pid,
    process: u32,
    memory: File,
    before: libc::user_regs_struct,
    /// Where a `syscall` instruction is.
    instruction: u64,
}

/// A system call: its number and arguments. A string takes the place of the
/// argument that is [`TEXT`].
pub struct Call(pub libc::c_long, pub [u64; 4], pub &'static str);

/// Stands for the address of a call's string.
pub const TEXT: u64 = u64::MAX - 1;

impl Thread {
    /// Stops a thread of a process.
    pub fn stop(process: u32, thread: u32) -> nix::Result<Thread> {
        let id = Pid::from_raw(thread as i32);
        let memory = File::options().read(true).write(true).open(format!("/proc/{process}/mem"));
        let memory = memory.map_err(|_| nix::Error::EPERM)?;
        ptrace::seize(id, Options::empty())?;
        let stopped = ptrace::interrupt(id).and_then(|()| waitpid(id, Some(WaitPidFlag::__WALL)));
        let before = stopped.and_then(|_| ptrace::getregs(id)).inspect_err(|_| forget(process, id))?;
        let instruction = find_instruction(process, &memory);
        Ok(Thread { id, process, memory, before, instruction })
    }

    /// What the thread gets from a system call: negative is an error number.
    pub fn call(&self, Call(number, arguments, text): &Call) -> i64 {
        let at = (self.before.rsp - RED_ZONE) & !15;
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        self.memory.write_all_at(&bytes, at).expect("the stack is writable");
        let [rdi, rsi, rdx, r10] = arguments.map(|value| if value == TEXT { at } else { value });
        let rax = *number as u64;
        let registers = libc::user_regs_struct {
            rax,
            orig_rax: u64::MAX, // no call to restart
            rdi,
            rsi,
            rdx,
            r10,
            r8: u64::MAX, // no file
            r9: 0,
            rip: self.instruction,
            ..self.before
        };
        ptrace::setregs(self.id, registers).expect("it is stopped");
        ptrace::step(self.id, None).expect("it is stopped");
        waitpid(self.id, Some(WaitPidFlag::__WALL)).expect("a thread that we trace");
        ptrace::getregs(self.id).expect("it is stopped").rax as i64
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        // Gone, if a call ended it: the test sees that otherwise.
        let _ = ptrace::setregs(self.id, self.before);
        if ptrace::detach(self.id, None).is_err() {
            forget(self.process, self.id);
        }
    }
}

/// Takes the end of a thread that ended while it was traced: until its tracer has, nobody who
/// waits for the process hears of its end. The process itself is left to who started it.
fn forget(process: u32, thread: Pid) {
    if thread.as_raw() != process as i32 {
        let _ = waitpid(thread, Some(WaitPidFlag::__WALL));
    }
}

/// The bytes of `syscall` in any code of the process, whatever they were there for.
fn find_instruction(process: u32, memory: &File) -> u64 {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).expect("a process");
    for line in maps.lines().filter(|line| line.contains(" r-xp ")) {
        let (from, rest) = line.split_once('-').expect("a range");
        let to = rest.split(' ').next().expect("an end");
        let (from, to) = (u64::from_str_radix(from, 16), u64::from_str_radix(to, 16));
        let (from, to) = (from.expect("hexadecimal"), to.expect("hexadecimal"));
        let mut code = vec![0; (to - from) as usize];
        if memory.read_exact_at(&mut code, from).is_err() {
            continue;
        }
        if let Some(offset) = code.windows(2).position(|bytes| bytes == [0x0F, 0x05]) {
            return from + offset as u64;
        }
    }
    panic!("no system call in {maps}");
}
