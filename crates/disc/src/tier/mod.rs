//! Dispatches calls to versions for constant sizes, and compiles such versions for sizes that
//! recur.
//!
//! A shape is *hot* when its calls took as long as the compilation did: from then on, compiling
//! once more costs at most as much as was spent already. The background thread compiles it with its
//! sizes as constants and tries it on the inputs of a call; it is kept if it gives the same bits
//! and is faster. A program whose first versions were not kept is not tried again.
//!
//! Invariants:
//! - no call waits: beside running, a call searches a few patterns and reads a clock twice;
//! - the choice of code never shows in the results;
//! - versions share the weights of the general code, and read the same ones as it after a refresh;
//! - the versions, their code and the compilations of one executable are bounded.
pub mod background;
mod heat;
mod shape;
mod trial;
mod version;

use crate::{Artifact, Error, Options, Specializations, Specialize, compile::Source};
use arc_swap::ArcSwap;
use disc_ir::Symbol;
use disc_ral::{HostTensor, OutputAllocator, SessionState, TensorRef, Weight, bytes_of};
use heat::Heat;
use shape::{Pattern, Signature};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use version::{Candidate, Order, Version};

/// Calls of a shape before it can be hot.
const FEWEST_CALLS: u32 = 32;
/// A shape is not hot before its calls took this long.
const LEAST_HEAT: Duration = Duration::from_millis(20);
/// Versions of one executable.
const MOST_VERSIONS: usize = 8;
/// Compilations for one executable.
const MOST_ORDERS: usize = 16;
/// Bytes of code of all versions.
const MOST_CODE: usize = 32 << 20;
/// Bytes of inputs that are copied for a trial; calls with more take so long that specialised sizes
/// do not matter.
const MOST_INPUT_BYTES: usize = 16 << 20;
/// After this many compilations in vain, no more are made.
const GIVE_UP: usize = 2;

/// The specialised versions of one executable.
pub(crate) struct Tier {
    general: Arc<disc_ral::Executable>,
    source: Source,
    options: Options,
    mode: Specialize,
    /// The signature of each entry that has dims.
    signatures: Vec<Option<Signature>>,
    likely: Vec<Likely>,
    versions: ArcSwap<Vec<Arc<Version>>>,
    heat: Heat,
    /// Nanoseconds from which a shape is hot.
    hot: u64,
    /// True while more versions may join.
    open: AtomicBool,
    ledger: Mutex<Ledger>,
}

/// Values of dims that the program declares likely: their first call requests a version.
struct Likely {
    entry: usize,
    values: BTreeMap<Symbol, i64>,
    pattern: Pattern,
    asked: AtomicBool,
}

/// The requested versions, and their outcomes.
#[derive(Default)]
struct Ledger {
    asked: Vec<(usize, BTreeMap<Symbol, i64>)>,
    report: Specializations,
}

impl Tier {
    /// Returns `None` if nothing can be, or shall be, specialised.
    pub(crate) fn new(
        general: &Arc<disc_ral::Executable>,
        artifact: &Artifact,
        options: &Options,
    ) -> Result<Option<Self>, Error> {
        let mode = options.specialization()?;
        let Some(source) = artifact.source.clone().filter(|_| mode != Specialize::Off) else { return Ok(None) };
        // A trial runs an entry many times on the inputs of one call: not one that changes them.
        let is_tried = |entry: &disc_ral::EntryMeta| entry.inputs.iter().all(|input| !input.written);
        let signature =
            |entry: &disc_ral::EntryMeta| source.module.function(&entry.name).filter(|_| is_tried(entry)).and_then(Signature::of);
        let signatures: Vec<Option<Signature>> = general.meta().entries.iter().map(signature).collect();
        if signatures.iter().all(Option::is_none) {
            return Ok(None);
        }
        let target = Some(artifact.targets.to_string());
        let hot = ((source.spent_ms * 1e6) as u64).max(LEAST_HEAT.as_nanos() as u64);
        Ok(Some(Self {
            general: Arc::clone(general),
            source,
            options: Options { target, threads: Some(1), release_weights: false, specialize: Specialize::Off, ..options.clone() },
            mode,
            likely: likely(&signatures),
            signatures,
            versions: ArcSwap::default(),
            heat: Heat::default(),
            hot,
            open: AtomicBool::new(true),
            ledger: Mutex::default(),
        }))
    }

    /// Runs the version for these sizes, or else the general code.
    pub(crate) fn run(
        self: &Arc<Self>,
        entry: usize,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        let version = self.versions.load().iter().find(|version| version.fits(entry, inputs)).cloned();
        if let Some(version) = version {
            return version.run(session, inputs, outputs);
        }
        if !self.open.load(Relaxed) {
            return Ok(self.general.run(entry, session, inputs, outputs)?);
        }
        // The time of a call that may wait for functions says nothing about its shape.
        let is_timed = self.general.is_whole();
        let start = Instant::now();
        self.general.run(entry, session, inputs, outputs)?;
        self.record(entry, inputs, if is_timed { start.elapsed() } else { Duration::ZERO });
        Ok(())
    }

    /// Counts a call of the general code, and requests a version when the shape is hot.
    fn record(self: &Arc<Self>, entry: usize, inputs: &[TensorRef<'_>], took: Duration) {
        let Some(signature) = self.signatures.get(entry).and_then(Option::as_ref) else { return };
        for likely in &self.likely {
            if likely.entry == entry && likely.pattern.fits(inputs) && !likely.asked.load(Relaxed) {
                let taken = background::has_room() && self.ask(entry, likely.values.clone(), inputs, true);
                likely.asked.store(taken, Relaxed);
                return;
            }
        }
        let key = signature.key(inputs) ^ entry as u64;
        let warmth = self.heat.add(key, u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let is_hot = match self.mode {
            Specialize::Always => warmth.calls >= 2,
            _ => warmth.calls >= FEWEST_CALLS && warmth.nanoseconds >= self.hot,
        };
        // A shape that is not taken stays hot: the next call offers it again.
        if is_hot
            && background::has_room()
            && let Some(values) = signature.values(inputs)
            && self.ask(entry, values, inputs, false)
        {
            self.heat.cool(key);
        }
    }

    /// Hands an order to the background thread. Returns true if the request is settled: taken, or
    /// refused permanently.
    #[cold]
    fn ask(self: &Arc<Self>, entry: usize, values: BTreeMap<Symbol, i64>, inputs: &[TensorRef<'_>], is_likely: bool) -> bool {
        let Ok(mut ledger) = self.ledger.try_lock() else { return false };
        let asked = (entry, values);
        if ledger.asked.contains(&asked) {
            return true;
        }
        let bytes: usize = inputs.iter().filter_map(|input| bytes_of(input.dtype(), input.sizes())).sum();
        if bytes > MOST_INPUT_BYTES {
            let why = format!("a trial copies at most {MOST_INPUT_BYTES} bytes of inputs, these are {bytes}");
            ledger.report.rejected.push((shape::text(&asked.1), why));
        } else {
            let Some(copies) = inputs.iter().map(copy).collect::<Option<Vec<HostTensor>>>() else { return false };
            let number = ledger.asked.len();
            let order = Order::new(self, entry, number, asked.1.clone(), copies, is_likely);
            if !background::submit(Box::new(move || order.carry_out())) {
                return false;
            }
            ledger.report.pending += 1;
        }
        ledger.asked.push(asked);
        if ledger.asked.len() >= MOST_ORDERS {
            self.open.store(false, Relaxed);
        }
        true
    }

    /// Replaces the weights of the general code, then those of all versions.
    pub(crate) fn refresh(&self, weights: Vec<Weight>) -> Result<(), Error> {
        // Held throughout: no version joins with the old weights.
        let mut ledger = self.lock();
        self.general.refresh(weights)?;
        let state = self.general.weight_state();
        let mut kept = Vec::new();
        for version in self.versions.load().iter() {
            match version.refresh(&state) {
                Ok(()) => kept.push(Arc::clone(version)),
                Err(error) => ledger.report.failed.push((version.dims.clone(), error.to_string())),
            }
        }
        self.versions.store(Arc::new(kept));
        Ok(())
    }

    pub(crate) fn report(&self) -> Specializations {
        let report = self.lock().report.clone();
        Specializations { versions: self.versions.load().iter().map(|version| version.report()).collect(), ..report }
    }

    pub(crate) fn hits(&self) -> u64 {
        self.versions.load().iter().map(|version| version.hits()).sum()
    }

    pub(crate) fn peak_arena_bytes(&self) -> usize {
        self.versions.load().iter().map(|version| version.peak_arena_bytes()).max().unwrap_or(0)
    }

    fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends an order: with a version, with the reason why there is none, or with an error.
    fn settle(&self, dims: &str, took: Duration, outcome: Result<Result<Candidate, String>, Error>) {
        let mut ledger = self.lock();
        ledger.report.pending = ledger.report.pending.saturating_sub(1);
        ledger.report.compiled += 1;
        ledger.report.compile_ms += took.as_secs_f64() * 1e3;
        match outcome.and_then(|kept| kept.map_or_else(|why| Ok(Err(why)), |candidate| self.install(candidate))) {
            Ok(Ok(())) => tracing::info!("a version for {dims} serves calls from now on"),
            Ok(Err(why)) => {
                tracing::info!("a version for {dims} is not kept: {why}");
                ledger.report.rejected.push((dims.into(), why));
            }
            Err(error) => {
                tracing::info!("a version for {dims} was not compiled: {error}");
                ledger.report.failed.push((dims.into(), error.to_string()));
            }
        }
        let versions = self.versions.load().len();
        let in_vain = ledger.report.compiled - versions.min(ledger.report.compiled);
        let is_hopeless = self.mode == Specialize::Auto && versions == 0 && in_vain >= GIVE_UP;
        if is_hopeless || versions >= MOST_VERSIONS {
            self.open.store(false, Relaxed);
        }
    }

    /// Lets calls run a version; the ledger is locked.
    fn install(&self, Candidate { version, state }: Candidate) -> Result<Result<(), String>, Error> {
        let mut all = self.versions.load().to_vec();
        let bytes: usize = all.iter().map(|version| version.code_bytes).sum();
        if all.len() >= MOST_VERSIONS || bytes + version.code_bytes > MOST_CODE {
            return Ok(Err(format!("{} versions have {bytes} bytes of code", all.len())));
        }
        if !self.general.reads(&state) {
            version.refresh(&self.general.weight_state())?;
        }
        all.push(Arc::new(version));
        self.versions.store(Arc::new(all));
        Ok(Ok(()))
    }
}

fn likely(signatures: &[Option<Signature>]) -> Vec<Likely> {
    let of = |(entry, signature): (usize, &Option<Signature>)| {
        let Some(signature) = signature else { return Vec::new() };
        let one = |values: &BTreeMap<Symbol, i64>| Likely {
            entry,
            values: values.clone(),
            pattern: signature.pattern(values),
            asked: AtomicBool::new(false),
        };
        signature.likely.iter().map(one).collect()
    };
    signatures.iter().enumerate().flat_map(of).collect()
}

/// Copies a contiguous input.
fn copy(input: &TensorRef<'_>) -> Option<HostTensor> {
    let mut copy = HostTensor::zeros(input.dtype(), input.sizes()).ok()?;
    let bytes = copy.bytes().len();
    if bytes > 0 {
        // SAFETY: a `TensorRef` promises that all elements of its sizes are valid memory, and this
        // one is contiguous.
        unsafe { std::ptr::copy_nonoverlapping(input.data().cast::<u8>().cast_const(), copy.bytes_mut().as_mut_ptr(), bytes) };
    }
    Some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executable, compile, parse};
    use disc_ral::HostOutputs;

    const PROGRAM: &str = "func @main(%x: tensor<[N]xf32>) -> tensor<[N]xf32> {
      %y = exponential %x : tensor<[N]xf32>
      return %y : tensor<[N]xf32>
    }";

    #[test]
    fn a_shape_that_is_refused_is_offered_by_the_next_call() {
        let options = Options { threads: Some(1), specialize: Specialize::Always, ..Options::default() };
        let executable: Executable = compile(parse(PROGRAM).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap();
        let x = HostTensor::new(&[5], &[0.5_f32; 5]).unwrap();
        let call = || {
            let mut outputs = HostOutputs::new();
            executable.with_session(|session| executable.run(0, session, &[x.as_input()], &mut outputs)).unwrap();
        };
        background::while_locked(|| (0..10).for_each(|_| call()));
        assert_eq!(executable.specializations().pending, 0);
        call();
        background::wait();
        assert_eq!(executable.specializations().compiled, 1);
    }
}
