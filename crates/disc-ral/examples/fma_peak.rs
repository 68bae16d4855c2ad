//! Measures the peak rate of fused multiply-adds of this CPU: the roofline of the benchmarks.
//!
//! Each thread runs independent chains of fused multiply-adds that stay in registers, with the
//! widest vectors of the CPU. Prints JSON: GFLOP/s of one thread and of all threads at once, the
//! best of several runs.
//!
//! `cargo run --release -p disc-ral --example fma_peak -- THREADS`
use std::{
    sync::Barrier,
    time::{Duration, Instant},
};

/// More chains than the product of the latency (4) and the number of units (2) of the CPUs at hand.
const CHAINS: usize = 12;
const STEPS: usize = 2_000_000;
const RUNS: usize = 15;

fn main() {
    let threads = std::env::args().nth(1).map_or(2, |text| text.parse().expect("a number of threads"));
    println!("{{\"lanes\": {}, \"one_thread\": {:.1}, \"{threads}_threads\": {:.1}}}", lanes(), gigaflops(1), gigaflops(threads));
}

fn gigaflops(threads: usize) -> f64 {
    let operations = 2.0 * (threads * CHAINS * STEPS * lanes()) as f64;
    let best = (0..RUNS).map(|_| slowest(threads)).min().unwrap_or(Duration::MAX);
    operations / best.as_secs_f64() / 1e9
}

/// Returns the time of the slowest of `threads` threads that start together.
fn slowest(threads: usize) -> Duration {
    let barrier = Barrier::new(threads);
    let times = std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let start = Instant::now();
                    chains();
                    start.elapsed()
                })
            })
            .collect();
        started.into_iter().map(|thread| thread.join().expect("it does not panic")).max()
    });
    times.unwrap_or(Duration::MAX)
}

#[cfg(target_arch = "x86_64")]
fn lanes() -> usize {
    if is_x86_feature_detected!("avx512f") { 16 } else { 8 }
}

#[cfg(target_arch = "x86_64")]
fn chains() {
    // SAFETY: the CPU has the features; a CPU without FMA ends here.
    unsafe {
        if is_x86_feature_detected!("avx512f") {
            chains_of_512();
        } else {
            assert!(is_x86_feature_detected!("fma"), "a CPU with FMA");
            chains_of_256();
        }
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn chains_of_512() {
    use std::arch::x86_64::{_mm512_fmadd_ps, _mm512_set1_ps};
    let (factor, mut sums) = (_mm512_set1_ps(std::hint::black_box(0.5)), [_mm512_set1_ps(std::hint::black_box(1.0)); CHAINS]);
    for _ in 0..STEPS {
        sums.iter_mut().for_each(|sum| *sum = _mm512_fmadd_ps(*sum, factor, factor));
    }
    std::hint::black_box(sums);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn chains_of_256() {
    use std::arch::x86_64::{_mm256_fmadd_ps, _mm256_set1_ps};
    let (factor, mut sums) = (_mm256_set1_ps(std::hint::black_box(0.5)), [_mm256_set1_ps(std::hint::black_box(1.0)); CHAINS]);
    for _ in 0..STEPS {
        sums.iter_mut().for_each(|sum| *sum = _mm256_fmadd_ps(*sum, factor, factor));
    }
    std::hint::black_box(sums);
}

#[cfg(target_arch = "aarch64")]
fn lanes() -> usize {
    4
}

#[cfg(target_arch = "aarch64")]
fn chains() {
    use std::arch::aarch64::{vdupq_n_f32, vfmaq_f32};
    // SAFETY: every CPU of this architecture has these instructions.
    unsafe {
        let (factor, mut sums) = (vdupq_n_f32(std::hint::black_box(0.5)), [vdupq_n_f32(std::hint::black_box(1.0)); CHAINS]);
        for _ in 0..STEPS {
            sums.iter_mut().for_each(|sum| *sum = vfmaq_f32(factor, *sum, factor));
        }
        std::hint::black_box(sums);
    }
}
