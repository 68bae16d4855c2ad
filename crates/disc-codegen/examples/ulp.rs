//! Measures the math functions: `ulp NAME [--no-fma]` sweeps all f32 values (a dense sample of
//! pairs for two operands) and prints the largest error in units in the last place and its
//! position; `ulp --dump NAME COUNT [--no-fma]` prints f64 operands and results as hexadecimal
//! words for scripts/fit/check_f64.py; `ulp --speed` prints the throughput of every function in
//! f32.

#[path = "../tests/math/reference.rs"]
mod reference;

use disc_codegen::math::{Emitter, MathFn, Scalar32, Scalar32NoFma, Scalar64, Scalar64NoFma};
use disc_ir::ops::Domain;
use reference::f32_error;
use std::time::Instant;

/// The largest error seen, and its operands.
#[derive(Clone, Copy, Default)]
struct Worst {
    ulp: f64,
    args: [f32; 2],
    got: f32,
    expected: f64,
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let no_fma = args.iter().any(|a| a == "--no-fma");
    let words: Vec<&str> = args.iter().map(String::as_str).filter(|a| !a.starts_with("--")).collect();
    if args.iter().any(|a| a == "--speed") {
        return speed(&words);
    }
    let name = words.first().copied().unwrap_or("");
    let functions: Vec<MathFn> = match MathFn::from_name(name) {
        Some(f) => vec![f],
        None if name == "all" => MathFn::ALL.to_vec(),
        None => {
            panic!("unknown function `{name}`; known: {}", MathFn::ALL.iter().map(|f| f.name()).collect::<Vec<_>>().join(" "))
        }
    };
    for f in functions {
        if args.iter().any(|a| a == "--dump") {
            let count = words.get(1).map_or(10_000, |c| c.parse().expect("the count is a number"));
            if no_fma {
                dump(&mut Scalar64NoFma::new(), f, count);
            } else {
                dump(&mut Scalar64::new(), f, count);
            }
            continue;
        }
        let step: u64 = words.get(1).map_or(1, |c| c.parse().expect("the step is a number"));
        let w = if no_fma { sweep::<Scalar32NoFma>(f, step) } else { sweep::<Scalar32>(f, step) };
        let operands = if f.arity() == 1 { format!("{:e}", w.args[0]) } else { format!("{:e}, {:e}", w.args[0], w.args[1]) };
        println!("{:14} {:7.3} ULP at {operands} (got {:e}, exact {:e})", f.name(), w.ulp, w.got, w.expected);
    }
}

/// Splits the sweep over the cores.
fn sweep<E: Emitter<F = f32> + Default>(f: MathFn, step: u64) -> Worst {
    let parts = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let total = if f.arity() == 1 { 1u64 << 32 } else { 1 << 26 };
    let threads: Vec<_> = (0..parts)
        .map(|p| std::thread::spawn(move || sweep_range::<E>(f, total / parts * p, total / parts * (p + 1), step)))
        .collect();
    threads
        .into_iter()
        .map(|t| t.join().expect("no panic in the sweep"))
        .fold(Worst::default(), |a, b| if b.ulp > a.ulp { b } else { a })
}

fn sweep_range<E: Emitter<F = f32> + Default>(f: MathFn, from: u64, to: u64, step: u64) -> Worst {
    const BLOCK: usize = 1024;
    let mut e = E::default();
    let (mut xs, mut ys, mut got) = ([0f32; BLOCK], [0f32; BLOCK], [0f32; BLOCK]);
    let mut worst = Worst::default();
    let mut random = from.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut at = from;
    while at < to {
        for i in 0..BLOCK {
            (xs[i], ys[i]) = if f.arity() == 1 {
                (f32::from_bits((at + i as u64 * step) as u32), 0.0)
            } else {
                reference::shaped(f, sample_pair(&mut random).into()).into()
            };
        }
        at += BLOCK as u64 * step;
        if f.arity() == 1 {
            (0..BLOCK).for_each(|i| got[i] = f.emit(&mut e, &[xs[i]]));
        } else {
            (0..BLOCK).for_each(|i| got[i] = f.emit(&mut e, &[xs[i], ys[i]]));
        }
        for i in 0..BLOCK {
            let pair = [f64::from(xs[i]), f64::from(ys[i])];
            let args = &pair[..f.arity()];
            if (f.bound().holds)(args) {
                let expected = f.exact(args);
                let ulp = f32_error(f, args, got[i], expected);
                if ulp > worst.ulp {
                    worst = Worst { ulp, args: [xs[i], ys[i]], got: got[i], expected };
                }
            }
        }
    }
    worst
}

fn next(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    *random
}

/// Two f32 operands: any bits, near one, or of moderate size.
fn sample_pair(random: &mut u64) -> (f32, f32) {
    let (a, b) = (next(random), next(random));
    let near = |w: u64, e: u32| f32::from_bits((w as u32 & 0x807f_ffff) | ((127 - e + ((w >> 32) as u32 % (2 * e))) << 23));
    match a >> 62 {
        0 => (f32::from_bits(a as u32), f32::from_bits(b as u32)),
        1 => (f32::from_bits(0x3f80_0000u32.wrapping_add_signed(((a as i32) >> 9) >> (b >> 59))), near(b, 30)),
        2 => (near(a, 8), near(b, 8)),
        _ => (near(a, 100), near(b, 12)),
    }
}

/// Prints f64 operands over all magnitudes, a third of them moderate, with their results.
fn dump<E: Emitter<F = f64>>(e: &mut E, f: MathFn, count: u64) {
    let mut random = 0x1234_5678_9abc_def1u64;
    for i in 0..count {
        let mut sample = || {
            let w = next(&mut random);
            let range = [2046, 2046, 20, 12, 8, 4][(i % 6) as usize];
            f64::from_bits((w & 0x800f_ffff_ffff_ffff) | ((1023 - range / 2 + next(&mut random) % (range + 1)) << 52))
        };
        let mut args = [sample(), sample()];
        if f.drawn()[0] != Domain::All {
            args[0] = f64::from(reference::shaped(f, [args[0] as f32, 0.0])[0]);
        }
        let args = &args[..f.arity()];
        let y = f.emit(e, args);
        let words: Vec<String> = args.iter().map(|a| format!("{:016x}", a.to_bits())).collect();
        println!("{} {} {:016x}", f.name(), words.join(" "), y.to_bits());
    }
}

/// Applies one function over a slice; the function is a constant, so that the loop contains only
/// its code.
fn apply<const INDEX: usize>(xs: &[f32], ys: &mut [f32]) {
    let mut e = Scalar32::new();
    let f = const { MathFn::ALL[if INDEX < MathFn::ALL.len() { INDEX } else { 0 }] };
    let last = xs.len() - 1;
    for i in 0..xs.len() {
        ys[i] = if f.arity() == 1 { f.emit(&mut e, &[xs[i]]) } else { f.emit(&mut e, &[xs[i], xs[last - i]]) };
    }
}

type Apply = fn(&[f32], &mut [f32]);

/// The functions `apply` of the indices 0 to 63.
fn applications() -> Vec<Apply> {
    macro_rules! table {
        ($($tens:literal)+) => { vec![$(
            apply::<{ $tens }> as Apply, apply::<{ $tens + 1 }>, apply::<{ $tens + 2 }>, apply::<{ $tens + 3 }>,
            apply::<{ $tens + 4 }>, apply::<{ $tens + 5 }>, apply::<{ $tens + 6 }>, apply::<{ $tens + 7 }>,
        )+] };
    }
    table!(0 8 16 24 32 40 48 56)
}

/// Prints the throughput in L1, as LLVM vectorises the scalar code: meaningful with `RUSTFLAGS="-C
/// target-cpu=native"`.
fn speed(names: &[&str]) {
    const N: usize = 4096;
    let applications = applications();
    let xs: Vec<f32> = (0..N).map(|i| i as f32 / N as f32 * 4.0 - 2.0).collect();
    for (&f, apply) in MathFn::ALL.iter().zip(applications).filter(|(f, _)| names.is_empty() || names.contains(&f.name())) {
        let mut ys = vec![0f32; N];
        let mut best = f64::INFINITY;
        for _ in 0..30 {
            let start = Instant::now();
            for _ in 0..20 {
                apply(std::hint::black_box(&xs), std::hint::black_box(&mut ys));
            }
            best = best.min(start.elapsed().as_secs_f64() / 20.0);
        }
        println!("{:14} {:6.2} Gelem/s", f.name(), N as f64 / best / 1e9);
    }
}
