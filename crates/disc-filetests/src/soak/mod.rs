//! Soaks the compiler: runs random programs on compiled code and on the interpreter, each with
//! several sizes.
//!
//! Program number `n` of a seed depends only on both, so its number reproduces a failure; it is
//! reduced before it is reported.
//!
//! A difference is a failure only if errors of rounding do not explain it ([`rounding`]).
mod reduce;
mod rounding;

use crate::{Compiled, Program, values};
use disc_ir::{
    Code, Diagnostic, Module,
    generate::{Random, inputs, program},
    interp::{Limits, Tensor, run_with},
    ops::Stage,
    verify::verify,
};
use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// Limits of the interpreter for one run of a program.
const LIMITS: Limits = Limits { steps: 1 << 26, bytes: 1 << 30, depth: 100 };
/// The ops of a program, from and up to.
const LENGTHS: (usize, usize) = (3, 32);

/// The programs to try.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Other seeds give other programs.
    pub seed: u64,
    /// The number of the first program.
    pub first: u64,
    pub programs: u64,
    /// Sizes that each program gets.
    pub bindings: u64,
    /// Ends after this time, even if programs remain.
    pub time: Option<Duration>,
    pub threads: usize,
}

/// Progress of a soak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    pub programs: u64,
    pub runs: u64,
    /// Runs that differ from the interpreter's within the errors of rounding.
    pub rounded: u64,
}

/// A program on which compiled code differs.
#[derive(Debug)]
pub struct Failure {
    pub number: u64,
    pub module: Module,
    pub inputs: Vec<Tensor>,
    pub why: String,
}

impl Failure {
    /// The program, reduced, with its inputs.
    pub fn text(&self, compiled: &dyn Compiled) -> String {
        let (module, inputs, why) = reduce::reduce(self, compiled);
        let inputs: Vec<String> = inputs.iter().map(values::write).collect();
        format!("{module}\ninputs: {}\n{why}", inputs.join(", "))
    }
}

/// Returns program number `number`, and the number of ops that were asked for.
pub fn module(seed: u64, number: u64) -> Module {
    let of_both = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ number;
    let length = Random::new(of_both).between(LENGTHS.0, LENGTHS.1);
    program(of_both, length)
}

/// Tries programs until one fails, the time is over, or all are done. `note` receives, for each
/// thread, its current number.
pub fn run(plan: Plan, compiled: &dyn Compiled, note: &(dyn Fn(usize, u64, Done) + Sync)) -> (Done, Option<Failure>) {
    let (next, over) = (AtomicU64::new(plan.first), AtomicBool::new(false));
    let (done, failure) = (Mutex::new(Done::default()), Mutex::new(None));
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..plan.threads.max(1) {
            let (next, over, done, failure) = (&next, &over, &done, &failure);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) && plan.time.is_none_or(|time| start.elapsed() < time) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= plan.first.saturating_add(plan.programs) {
                        break;
                    }
                    let so_far = *done.lock().expect("no thread panics with it");
                    note(thread, number, so_far);
                    let (one, found) = check(module(plan.seed, number), number, plan.bindings, compiled);
                    let mut all = done.lock().expect("no thread panics with it");
                    all.programs += 1;
                    all.runs += one.runs;
                    all.rounded += one.rounded;
                    if found.is_some() {
                        over.store(true, Ordering::Relaxed);
                        *failure.lock().expect("no thread panics with it") = found;
                    }
                }
            });
        }
    });
    let failure = failure.into_inner().expect("no thread panics with it");
    (done.into_inner().expect("no thread panics with it"), failure)
}

/// Tries one program, whose entry is `main`, with several sizes.
pub fn check(module: Module, number: u64, bindings: u64, compiled: &dyn Compiled) -> (Done, Option<Failure>) {
    let mut done = Done::default();
    let program = match compiled.compile(&module, &|_| None) {
        Ok(program) => program,
        Err(error) => {
            return (done, Some(Failure { number, module, inputs: Vec::new(), why: format!("it does not compile: {error}") }));
        }
    };
    for binding in 0..bindings {
        let inputs = inputs(&module, "main", number * 100 + binding);
        done.runs += 1;
        match outcome(&module, &inputs, compiled.name(), &*program) {
            Outcome::Same => {}
            Outcome::Rounded => done.rounded += 1,
            Outcome::Wrong(why) => return (done, Some(Failure { number, module, inputs, why })),
        }
    }
    (done, None)
}

/// The outcome of comparing a run of compiled code with the interpreter's.
enum Outcome {
    Same,
    /// Different, within other roundings.
    Rounded,
    Wrong(String),
}

fn outcome(module: &Module, inputs: &[Tensor], name: &str, program: &dyn Program) -> Outcome {
    let expected = run_with(module, "main", inputs, &|_| None, LIMITS);
    if matches!(&expected, Err(error) if error.code == Code::E0606) {
        return Outcome::Same;
    }
    let found = program.run("main", inputs);
    rounding::judge(module, inputs, name, &found, &expected)
}

/// Returns the failure of a program with these inputs; `None` if there is none, or if it is not
/// well formed.
fn wrong(module: &Module, inputs: &[Tensor], compiled: &dyn Compiled) -> Option<String> {
    verify(module, Stage::Tensor).ok()?;
    let program: Result<Box<dyn Program>, Diagnostic> = compiled.compile(module, &|_| None);
    match program {
        Err(error) => Some(format!("it does not compile: {error}")),
        Ok(program) => match outcome(module, inputs, compiled.name(), &*program) {
            Outcome::Same | Outcome::Rounded => None,
            Outcome::Wrong(why) => Some(why),
        },
    }
}
