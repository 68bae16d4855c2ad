//! Tests that need a fresh process: forked children start their own workers, and those have a clean
//! environment.

use crate::harness::*;
use disc_abi::{Context, STATUS_OK, Tensor};
use disc_ral::*;
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

/// Runs `body` in a forked child. Returns true if it returned without a panic within four minutes.
fn passes_in_child(body: impl FnOnce()) -> bool {
    // SAFETY: the child runs `body` and ends without unwinding further.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::alarm(240);
            libc::_exit(i32::from(catch_unwind(AssertUnwindSafe(body)).is_err()));
        }
        assert!(child > 0);
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }
}

/// Runs its two units on two threads: the caller's waits for the other. Arguments: the number of
/// units that ran on another thread, and a check of that thread.
unsafe extern "C" fn elsewhere(args: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    // SAFETY: the launch passes a counter and a function.
    let (ran, check): (&AtomicU32, &fn() -> bool) = unsafe { (argument(args, 0), argument(args, 1)) };
    let until = Instant::now() + Duration::from_secs(120);
    for _ in begin..end {
        if thread::current().name().is_some_and(|name| name.starts_with("disc-")) {
            if !check() {
                return 2;
            }
            ran.fetch_add(1, Ordering::Relaxed);
        } else {
            while ran.load(Ordering::Relaxed) == 0 {
                if Instant::now() > until {
                    return 1;
                }
                thread::yield_now();
            }
        }
    }
    STATUS_OK
}

fn launch_elsewhere(ctx: *mut Context, check: fn() -> bool) -> i32 {
    launch(ctx, elsewhere, &[address(&AtomicU32::new(0)), address(&check)], 2, 1_000_000)
}

fn two_threads(function: disc_abi::EntryFn) {
    let sites = vec![site("E0901", "no worker came", 0), site("E0902", "the worker is not as it should be", 0)];
    let executable = executable(function, entry("f", Vec::new(), Vec::new()), sites);
    let mut session = executable.session();
    session.limit_threads(2);
    run(&executable, &mut session, &[]).unwrap();
}

unsafe extern "C" fn any_worker(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch_elsewhere(ctx, || true)
}

#[test]
fn a_forked_child_starts_its_own_workers() {
    two_threads(any_worker);
    assert!(started_workers() > 0);
    assert!(passes_in_child(|| {
        assert_eq!(started_workers(), 0);
        two_threads(any_worker);
        assert_eq!(started_workers(), 1);
        assert!(passes_in_child(|| two_threads(any_worker)));
    }));
    two_threads(any_worker);
}

#[test]
fn many_callers_share_the_workers_of_one() {
    assert!(passes_in_child(|| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let executable = plain(short_launches);
                    let mut session = executable.session();
                    session.limit_threads(3);
                    run(&executable, &mut session, &[]).unwrap();
                });
            }
        });
        assert!(started_workers() <= 2, "{}", started_workers());
    }));
}

unsafe extern "C" fn spin_a_little(_: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    for _ in begin..end {
        for _ in 0..100 {
            std::hint::spin_loop();
        }
    }
    STATUS_OK
}

unsafe extern "C" fn short_launches(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    (0..2000).map(|_| launch(ctx, spin_a_little, &[], 8, 20_000)).max().unwrap()
}

#[test]
fn threads_on_one_cpu_do_not_wait_for_long() {
    assert!(passes_in_child(|| {
        bind_to_first_cpu();
        let executable = plain(short_launches);
        let mut session = executable.session();
        session.limit_threads(4);
        run(&executable, &mut session, &[]).unwrap();
        // 2000 launches of some 10 microseconds of work each; spinning without end would burn a
        // time slice for each.
        assert!(cpu_time() < Duration::from_secs(2), "{:?}", cpu_time());
    }));
}

/// Returns the CPU time of all threads of this process.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time) }, 0);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(target_arch = "x86_64")]
fn mxcsr() -> u32 {
    let mut value = 0_u32;
    // SAFETY: stores the register into `value`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &mut value, options(nostack)) };
    value
}

#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn clean_floating_point(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch_elsewhere(ctx, || mxcsr() & 0xffc0 == 0x1f80)
}

#[cfg(target_arch = "x86_64")]
#[test]
fn workers_have_the_default_floating_point_environment_and_callers_keep_theirs() {
    assert!(passes_in_child(|| {
        // Flush to zero, denormals are zero, round up: what a new thread would inherit.
        let strange = 0x1f80_u32 | 0x8040 | 0x4000;
        // SAFETY: valid bits; the child ends soon.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &strange, options(nostack, readonly)) };
        two_threads(clean_floating_point);
        assert_eq!(mxcsr() & 0xffc0, strange);
    }));
}

fn cpus_of_this_thread() -> usize {
    // SAFETY: a zeroed set is empty.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        libc::CPU_COUNT(&set) as usize
    }
}

fn bind_to_first_cpu() {
    // SAFETY: a zeroed set is empty, and CPU numbers are below its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
        let first = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &set)).unwrap();
        libc::CPU_ZERO(&mut set);
        libc::CPU_SET(first, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
    }
}

unsafe extern "C" fn pinned(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch_elsewhere(ctx, || cpus_of_this_thread() == 1)
}

#[test]
fn workers_are_pinned_on_request_and_callers_never() {
    assert!(passes_in_child(|| {
        let before = cpus_of_this_thread();
        pin_workers();
        two_threads(pinned);
        assert_eq!(cpus_of_this_thread(), before);
    }));
}
