//! Measures the overhead of a launch and of a call. Run it in release; it prints the minimum over
//! many repetitions.
//!
//! `cargo run --release -p disc-ral --example launch_cost`

use disc_abi::{Context, KernelFn, STATUS_OK, Tensor};
use disc_ral::{
    Code, Cpu, EntryMeta, Executable, ExecutableOptions, HostOutputs, HostTensor, InputMeta, ModuleMeta, OutputMeta, SessionState,
};
use std::{
    cell::Cell,
    sync::Arc,
    time::{Duration, Instant},
};

const LAUNCHES: i64 = 1000;

thread_local! {
    static KERNEL: Cell<(KernelFn, i64, i64)> = const { Cell::new((nothing, 1, 0)) };
    static FASTEST: Cell<f64> = const { Cell::new(f64::INFINITY) };
}

unsafe extern "C" fn nothing(_: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    STATUS_OK
}

/// Works for about 5 microseconds per unit.
unsafe extern "C" fn work(_: *const u64, begin: i64, end: i64, _: *mut u8) -> i32 {
    for unit in begin..end {
        let mut state = unit as u64 | 1;
        for _ in 0..5000 {
            state = std::hint::black_box(state).wrapping_mul(0x9e37_79b9);
        }
    }
    STATUS_OK
}

/// Times `LAUNCHES` launches of the kernel in `KERNEL`.
unsafe extern "C" fn launches(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    let (kernel, units, cost) = KERNEL.get();
    // SAFETY: the context of this call; the kernels read no arguments.
    unsafe {
        let launch = (*(*ctx).runtime).launch;
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            launch(ctx, kernel.into(), std::ptr::null(), units, cost, 0);
        }
        FASTEST.set(FASTEST.get().min(start.elapsed().as_nanos() as f64 / LAUNCHES as f64));
    }
    STATUS_OK
}

/// Makes the runtime calls of an ordinary small model: one allocation, one output.
unsafe extern "C" fn call(ctx: *mut Context, inputs: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: the context of this call, whose entry has one input and one output.
    unsafe {
        let (runtime, x) = (&*(*ctx).runtime, &*inputs);
        (runtime.alloc)(ctx, 4096);
        (runtime.alloc_output)(ctx, 0, u32::from(x.dtype), x.rank, x.sizes);
    }
    STATUS_OK
}

fn executable() -> Executable {
    let dims = || vec!["B".to_owned(), "S".to_owned()];
    let dtype = disc_ral::DType::F32;
    let input = InputMeta { name: "x".into(), dtype, dims: dims(), host: false, written: false };
    let output = OutputMeta { name: "y".into(), dtype, dims: dims(), host: false, alias: None };
    let launches_meta = EntryMeta { name: "launches".into(), ..EntryMeta::default() };
    let call_meta = EntryMeta { name: "call".into(), inputs: vec![input], outputs: vec![output], ..EntryMeta::default() };
    let meta = ModuleMeta { entries: vec![launches_meta, call_meta], ..ModuleMeta::default() };
    // SAFETY: the functions above belong to this metadata.
    let code = unsafe { Code::from_functions(vec![launches, call], Vec::new()) };
    Executable::new(Cpu::device(), code, Arc::new(meta), Vec::new(), ExecutableOptions::default())
        .expect("code and metadata match")
}

/// Returns the nanoseconds of one launch.
fn cost_of(executable: &Executable, session: &mut SessionState, threads: usize, kernel: (KernelFn, i64, i64)) -> f64 {
    KERNEL.set(kernel);
    FASTEST.set(f64::INFINITY);
    session.limit_threads(threads);
    for _ in 0..200 {
        executable.run(0, session, &[], &mut HostOutputs::new()).expect("the entry does not fail");
    }
    FASTEST.get()
}

fn main() {
    let executable = executable();
    let mut session = executable.session();
    println!("launch of an empty kernel (ns, fastest of 200 times {LAUNCHES}):");
    println!("  inline              {:8.1}", cost_of(&executable, &mut session, 1, (nothing, 1, 0)));
    for threads in [2, 4] {
        let cost = cost_of(&executable, &mut session, threads, (nothing, 64, i64::from(i32::MAX)));
        println!("  {threads} threads           {cost:8.1}");
    }
    let alone = cost_of(&executable, &mut session, 1, (work, 2, 1_000_000));
    let both = cost_of(&executable, &mut session, 2, (work, 2, 1_000_000));
    println!("two units of work: {alone:.0} ns inline, {both:.0} ns on 2 threads: overhead {:.0} ns", both - alone / 2.0);

    let x = HostTensor::zeros(disc_ral::DType::F32, &[8, 8]).expect("a small tensor");
    let inputs = [x.as_input()];
    let mut fastest = Duration::MAX;
    for _ in 0..200 {
        let start = Instant::now();
        for _ in 0..LAUNCHES {
            executable.run(1, &mut session, &inputs, &mut HostOutputs::new()).expect("the entry does not fail");
        }
        fastest = fastest.min(start.elapsed());
    }
    println!("a call with one input, one arena allocation, one output: {} ns", fastest.as_nanos() / LAUNCHES as u128);
}
