//! Makes one version, on the background thread, and runs it.
//!
//! Invariant: an order holds the program that it compiles, not the executable that asked: that may
//! go away meanwhile.
use super::{
    Tier,
    shape::{self, Pattern},
    trial::{self, Found},
};
use crate::{
    Artifact, Error, Options, Specialize, Specialized,
    compile::{Source, compile_sharing, guarded},
};
use disc_ir::Symbol;
use disc_passes::tensor::specialize::specialize;
use disc_ral::{Executable, HostTensor, OutputAllocator, SessionState, TensorRef, WeightState};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A version is kept from this speedup on.
const LEAST_RATIO: f64 = 1.05;
/// One for sizes that the program declares likely is kept unless it is slower than this.
const LEAST_LIKELY_RATIO: f64 = 0.98;

/// Code for constant sizes, as calls run it.
pub(super) struct Version {
    entry: usize,
    pattern: Pattern,
    pub(super) dims: String,
    pub(super) code_bytes: usize,
    artifact: Artifact,
    executable: Executable,
    hits: AtomicU64,
    compile_ms: f64,
    ratio: f64,
}

impl Version {
    pub(super) fn fits(&self, entry: usize, inputs: &[TensorRef<'_>]) -> bool {
        self.entry == entry && self.pattern.fits(inputs)
    }

    pub(super) fn run(
        &self,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        self.hits.fetch_add(1, Relaxed);
        Ok(self.executable.run(0, session, inputs, outputs)?)
    }

    /// Takes over weights of the general code.
    pub(super) fn refresh(&self, state: &WeightState) -> Result<(), Error> {
        Ok(self.executable.refresh(self.artifact.shared(state)?)?)
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    pub(super) fn peak_arena_bytes(&self) -> usize {
        self.executable.peak_arena_bytes()
    }

    pub(super) fn report(&self) -> Specialized {
        Specialized {
            dims: self.dims.clone(),
            hits: self.hits(),
            code_bytes: self.code_bytes,
            compile_ms: self.compile_ms,
            ratio: self.ratio,
            weight_bytes: self.executable.weight_bytes().1,
        }
    }
}

/// A version that passed its trial, and the weights that it was loaded with.
pub(super) struct Candidate {
    pub(super) version: Version,
    pub(super) state: WeightState,
}

/// A version that was asked for.
pub(super) struct Order {
    tier: Weak<Tier>,
    source: Source,
    options: Options,
    /// The entry, by position and by name.
    entry: usize,
    name: String,
    values: BTreeMap<Symbol, i64>,
    pattern: Pattern,
    inputs: Vec<HostTensor>,
    is_likely: bool,
}

impl Order {
    pub(super) fn new(
        tier: &Arc<Tier>,
        entry: usize,
        number: usize,
        values: BTreeMap<Symbol, i64>,
        inputs: Vec<HostTensor>,
        is_likely: bool,
    ) -> Self {
        let signature = tier.signatures[entry].as_ref().expect("an order is for an entry with dims");
        let dump = tier.options.dump_directory().map(|folder| folder.join(format!("specialized-{number}")));
        Self {
            tier: Arc::downgrade(tier),
            source: tier.source.clone(),
            options: Options { dump, ..tier.options.clone() },
            entry,
            name: signature.name.clone(),
            pattern: signature.pattern(&values),
            values,
            inputs,
            is_likely,
        }
    }

    /// Compiles, tries and installs the version; all failures are counted.
    pub(super) fn carry_out(self) {
        if self.tier.strong_count() == 0 {
            return;
        }
        let start = Instant::now();
        let made = guarded(|| {
            let module = specialize(&self.source.module, &self.name, &self.values)?;
            compile_sharing(module, self.source.recipes.clone(), &self.options)
        });
        let compiled = start.elapsed();
        let Some(tier) = self.tier.upgrade() else { return };
        let dims = shape::text(&self.values);
        let outcome = made.and_then(|artifact| guarded(|| self.try_out(&tier, artifact, compiled)));
        tier.settle(&dims, start.elapsed(), outcome);
    }

    /// Returns the version, or the reason why it is rejected.
    fn try_out(self, tier: &Tier, artifact: Artifact, compiled: Duration) -> Result<Result<Candidate, String>, Error> {
        let state = tier.general.weight_state();
        let executable = artifact.load_sharing(&state, &self.options)?;
        let ratio = match trial::run(&tier.general, self.entry, &executable, &self.inputs)? {
            Found::Differs => return Ok(Err("its results differ in the last bits from those of the general code".into())),
            Found::Ratio(ratio) => ratio,
        };
        let least = match (tier.mode, self.is_likely) {
            (Specialize::Always, _) => 0.0,
            (_, true) => LEAST_LIKELY_RATIO,
            (_, false) => LEAST_RATIO,
        };
        if ratio < least {
            return Ok(Err(format!("the general code takes {ratio:.2} of its time, {least} is worth a version")));
        }
        let version = Version {
            entry: self.entry,
            pattern: self.pattern,
            dims: shape::text(&self.values),
            code_bytes: artifact.report.code_bytes,
            artifact,
            executable,
            hits: AtomicU64::new(0),
            compile_ms: compiled.as_secs_f64() * 1e3,
            ratio,
        };
        Ok(Ok(Candidate { version, state }))
    }
}
