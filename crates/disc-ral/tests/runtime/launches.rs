//! Launches: every unit once, on several threads, whatever the split; the smallest failing unit is
//! reported.

use crate::harness::*;
use disc_abi::{Context, KernelFn, STATUS_OK, Tensor};
use std::{
    cell::Cell,
    collections::HashSet,
    sync::{
        Mutex,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Counts how often each unit runs. Argument: a vector of counters.
unsafe extern "C" fn count(args: *const u64, begin: i64, end: i64, scratch: *mut u8) -> i32 {
    // SAFETY: the launch passes the counters.
    let counters: &Vec<AtomicU32> = unsafe { argument(args, 0) };
    assert!(scratch.addr().is_multiple_of(64) && !scratch.is_null());
    for unit in begin..end {
        counters[unit as usize].fetch_add(1, Ordering::Relaxed);
    }
    STATUS_OK
}

thread_local! {
    /// Units and cost of the next launch of `count_all`.
    static NEXT: Cell<(i64, i64)> = const { Cell::new((0, 0)) };
}

/// Launches `count` and checks the counters.
unsafe extern "C" fn count_all(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    let (units, cost) = NEXT.get();
    let counters: Vec<AtomicU32> = (0..units).map(|_| AtomicU32::new(0)).collect();
    let status = launch(ctx, count, &[address(&counters)], units, cost);
    let wrong = counters.iter().filter(|counter| counter.load(Ordering::Relaxed) != 1).count();
    assert_eq!(wrong, 0, "units that did not run once, of {units} at cost {cost}");
    status
}

#[test]
fn every_unit_runs_once_for_any_split() {
    let executable = plain(count_all);
    let mut session = executable.session();
    for threads in [1, 2, 3, 7, 16] {
        session.limit_threads(threads);
        for units in [0, 1, 2, 3, 15, 16, 17, 1000] {
            for cost in [-1, 0, 9_999, 10_000, 100_000, 10_000_000, i64::MAX] {
                NEXT.set((units, cost));
                run(&executable, &mut session, &[]).unwrap();
            }
        }
    }
}

#[test]
fn concurrent_callers_do_not_disturb_each_other() {
    let executable = plain(count_all);
    thread::scope(|scope| {
        for caller in 0..8_u64 {
            let executable = &executable;
            scope.spawn(move || {
                let mut session = executable.session();
                session.limit_threads(2 + caller as usize % 4);
                for round in 0..400 {
                    NEXT.set(((round * 7 + caller as i64) % 257, (round % 40) * 5_000));
                    run(executable, &mut session, &[]).unwrap();
                }
            });
        }
    });
}

/// Waits until both units have begun, on two threads. Arguments: a counter of units that began.
unsafe extern "C" fn meet(args: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    // SAFETY: the launch passes the counter.
    let begun: &AtomicU32 = unsafe { argument(args, 0) };
    let until = Instant::now() + Duration::from_secs(120);
    for _ in begin..end {
        begun.fetch_add(1, Ordering::Relaxed);
        while begun.load(Ordering::Relaxed) < 2 {
            if Instant::now() > until {
                return 1;
            }
            thread::yield_now();
        }
    }
    STATUS_OK
}

unsafe extern "C" fn meet_twice(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    for pause in [0, 20] {
        // The second launch finds the worker asleep.
        thread::sleep(Duration::from_millis(pause));
        let status = launch(ctx, meet, &[address(&AtomicU32::new(0))], 2, 1_000_000);
        if status != STATUS_OK {
            return status;
        }
    }
    STATUS_OK
}

#[test]
fn threads_work_at_the_same_time() {
    let meta = entry("meet", Vec::new(), Vec::new());
    let executable = executable(meet_twice, meta, vec![site("E0999", "nobody else came", 0)]);
    let mut session = executable.session();
    session.limit_threads(2);
    run(&executable, &mut session, &[]).unwrap();
}

/// Fails from unit 40 of 100 on, with the unit as a value; slower for low units, so that high ones
/// fail first.
unsafe extern "C" fn fail_late(_: *const u64, begin: i64, end: i64, scratch: *mut u8) -> i32 {
    for unit in begin..end {
        if unit < 45 {
            thread::yield_now();
        }
        if unit >= 40 {
            // SAFETY: scratch has room for values.
            unsafe { scratch.cast::<i64>().write(unit) };
            return 1;
        }
    }
    STATUS_OK
}

unsafe extern "C" fn launch_fail_late(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch(ctx, fail_late, &[], 100, 10_000_000)
}

#[test]
fn the_smallest_failing_unit_is_reported() {
    let meta = entry("fails", Vec::new(), Vec::new());
    let executable = executable(launch_fail_late, meta, vec![site("E0321", "index {0} is out of range", 1)]);
    let mut session = executable.session();
    for round in 0..600 {
        session.limit_threads(1 + round % 6);
        let error = run(&executable, &mut session, &[]).err().unwrap();
        assert_eq!((&*error.code, &*error.message, &*error.values), ("E0321", "index 40 is out of range", &[40][..]));
        assert_eq!((&*error.op, &*error.dims), ("op at E0321", &["B".to_owned()][..]));
    }
}

/// Writes all its scratch, and checks that nobody else does. Argument: the bytes.
unsafe extern "C" fn fill_scratch(args: *const u64, begin: i64, end: i64, scratch: *mut u8) -> i32 {
    // SAFETY: the argument is the number of bytes that the launch asked for.
    let mine = unsafe { std::slice::from_raw_parts_mut(scratch, *args as usize) };
    for unit in begin..end {
        mine.fill(unit as u8);
        thread::yield_now();
        if mine.iter().any(|&byte| byte != unit as u8) {
            return 1;
        }
    }
    STATUS_OK
}

unsafe extern "C" fn scratches(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    for bytes in [1_i64, 64, 100, 4096, 100_000] {
        // SAFETY: the kernel reads one argument.
        let status =
            unsafe { (runtime(ctx).launch)(ctx, (fill_scratch as KernelFn).into(), &(bytes as u64), 24, 1_000_000, bytes) };
        if status != STATUS_OK {
            return status;
        }
    }
    STATUS_OK
}

#[test]
fn scratch_is_private() {
    let executable = executable(scratches, entry("scratch", Vec::new(), Vec::new()), vec![site("E0998", "shared", 0)]);
    let mut session = executable.session();
    session.limit_threads(4);
    for _ in 0..5 {
        run(&executable, &mut session, &[]).unwrap();
    }
}

/// Launches `count` again, from inside a kernel. Arguments: context, counters.
unsafe extern "C" fn nest(args: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    // SAFETY: the launch passes the context and the counters.
    unsafe {
        let ctx = std::ptr::with_exposed_provenance_mut(*args as usize);
        for _ in begin..end {
            let status = (runtime(ctx).launch)(ctx, (count as KernelFn).into(), args.add(1), 100, 1_000_000, 256);
            if status != STATUS_OK {
                return status;
            }
        }
        STATUS_OK
    }
}

unsafe extern "C" fn launch_nest(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    let counters: Vec<AtomicU32> = (0..100).map(|_| AtomicU32::new(0)).collect();
    let status = launch(ctx, nest, &[ctx.expose_provenance() as u64, address(&counters)], 8, 1_000_000);
    assert!(counters.iter().all(|counter| counter.load(Ordering::Relaxed) == 8));
    status
}

#[test]
fn a_kernel_may_launch() {
    let executable = plain(launch_nest);
    let mut session = executable.session();
    session.limit_threads(4);
    for _ in 0..50 {
        run(&executable, &mut session, &[]).unwrap();
    }
}

static THREADS_SEEN: Mutex<Option<HashSet<thread::ThreadId>>> = Mutex::new(None);

unsafe extern "C" fn note_thread(_: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    THREADS_SEEN.lock().unwrap().get_or_insert_default().insert(thread::current().id());
    STATUS_OK
}

unsafe extern "C" fn cheap_launch(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    launch(ctx, note_thread, &[], 1000, 9_999)
}

#[test]
fn no_thread_is_woken_for_little_work() {
    let executable = plain(cheap_launch);
    let mut session = executable.session();
    session.limit_threads(8);
    session.start_profile();
    for _ in 0..200 {
        run(&executable, &mut session, &[]).unwrap();
    }
    let seen = THREADS_SEEN.lock().unwrap().take().unwrap();
    assert_eq!(seen, HashSet::from([thread::current().id()]));
    let profile = session.take_profile();
    assert_eq!(profile.len(), 200);
    assert!(profile.iter().all(|record| record.threads == 1 && record.units == 1000 && record.cost == 9_999));
    assert!(session.take_profile().is_empty());
}

/// Sums the units in an order that no split may change. Arguments: results, one per unit.
unsafe extern "C" fn square(args: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    // SAFETY: the launch passes the results.
    let results: &Vec<AtomicU64> = unsafe { argument(args, 0) };
    for unit in begin..end {
        results[unit as usize].store((unit * unit) as u64, Ordering::Relaxed);
    }
    STATUS_OK
}

unsafe extern "C" fn copy_and_square(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    let results: Vec<AtomicU64> = (0..500_000).map(|_| AtomicU64::new(1)).collect();
    let mut status = launch(ctx, square, &[address(&results)], 500_000, 1_000_000);
    let mut copied = vec![0_u64; results.len()];
    // SAFETY: both buffers have this many bytes.
    unsafe {
        let bytes = size_of_val(&*copied) as i64;
        status |= (runtime(ctx).copy)(ctx, copied.as_mut_ptr().cast(), results.as_ptr().cast(), bytes);
    }
    assert!(copied.iter().enumerate().all(|(unit, &square)| square == (unit * unit) as u64));
    status
}

#[test]
fn work_of_all_threads_is_visible_after_the_launch() {
    let executable = plain(copy_and_square);
    let mut session = executable.session();
    session.limit_threads(3);
    for _ in 0..10 {
        run(&executable, &mut session, &[]).unwrap();
    }
}
