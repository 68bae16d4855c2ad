//! Calls a loaded module with tensors of any layout.
use crate::{
    Artifact, Error, Options, Report, Specializations,
    cache::Outcome,
    compile::guarded,
    tier::Tier,
    weights::{Constants, by_name, weights_by_name},
};
use disc_ral::{Blobs, GemmDispatch, Library, ModuleMeta, OutputAllocator, SessionState, TensorRef, Weight, with_contiguous};
use std::sync::Arc;

/// A compiled and loaded module: any number of threads may run it at once, each with a session of
/// its own.
pub struct Executable {
    pub(crate) inner: Arc<disc_ral::Executable>,
    constants: Arc<Constants>,
    report: Option<Report>,
    /// Versions for constant sizes; `None` if nothing can be, or shall be, specialised.
    tier: Option<Arc<Tier>>,
    prepared: Outcome,
}

impl Executable {
    pub(crate) fn new(
        inner: disc_ral::Executable,
        artifact: &Artifact,
        prepared: Outcome,
        options: &Options,
    ) -> Result<Self, Error> {
        let inner = Arc::new(inner);
        let tier = Tier::new(&inner, artifact, options)?.map(Arc::new);
        let (constants, report) = (Arc::clone(&artifact.constants), Some(artifact.report.clone()));
        Ok(Self { inner, constants, report, tier, prepared })
    }

    /// Loads machine code that was not compiled in this process, with its metadata and with weights
    /// by name. Of the options, it reads the device.
    ///
    /// # Errors
    /// A device that is not there, code of another version of the runtime's contract, a symbol or a
    /// weight that is missing, or no memory.
    ///
    /// # Safety
    /// As [`Library::load`].
    pub unsafe fn from_code(
        code: &[u8],
        meta: ModuleMeta,
        weights: Vec<(String, Weight)>,
        options: &Options,
    ) -> Result<Self, Error> {
        let device = options.open_device()?;
        // SAFETY: the caller's promise.
        let library = Arc::new(unsafe { Library::load(code) }?);
        let (meta, constants) = (Arc::new(meta), Arc::new(Constants::new()));
        let code = disc_ral::Code::from_library(library, &meta)?;
        let weights = weights_by_name(&meta, &constants, by_name(weights))?;
        let inner = Arc::new(disc_ral::Executable::new(device, code, meta, weights, Default::default())?);
        Ok(Self { inner, constants, report: None, tier: None, prepared: Outcome::Off })
    }

    /// Makes an executable of code that was loaded from a package.
    pub fn from_loaded(inner: Arc<disc_ral::Executable>) -> Self {
        let constants = Arc::new(Constants::new());
        Self { inner, constants, report: None, tier: None, prepared: Outcome::Off }
    }

    /// Runs entry number `entry`. Strided inputs are made contiguous first.
    ///
    /// # Errors
    /// Inputs that do not fit the signature, a strided input that the entry writes to, an index out
    /// of range, no memory; the next call works.
    pub fn run(
        &self,
        entry: usize,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        let Some(meta) = self.meta().entries.get(entry) else { return self.run_dense(entry, session, inputs, outputs) };
        with_contiguous(meta, inputs, |dense| self.run_dense(entry, session, dense, outputs))
    }

    fn run_dense(
        &self,
        entry: usize,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        match &self.tier {
            None => Ok(self.inner.run(entry, session, inputs, outputs)?),
            Some(tier) => tier.run(entry, session, inputs, outputs),
        }
    }

    /// Returns the device that calls run on.
    pub fn device(&self) -> &Arc<dyn disc_ral::Device> {
        self.inner.device()
    }

    /// Returns the state of background compilation; empty if no dims can become constants.
    pub fn specializations(&self) -> Specializations {
        self.tier.as_ref().map_or_else(Specializations::default, |tier| tier.report())
    }

    /// Runs `body` with a session from the executable's list of idle ones.
    pub fn with_session<R>(&self, body: impl FnOnce(&mut SessionState) -> R) -> R {
        self.inner.with_session(body)
    }

    /// Replaces the model's weights; running calls keep the old ones.
    ///
    /// # Errors
    /// As [`Artifact::load`]; the old weights stay then.
    pub fn refresh(&self, weights: Vec<(String, Weight)>) -> Result<(), Error> {
        guarded(|| {
            let weights = weights_by_name(self.meta(), &self.constants, by_name(weights))?;
            match &self.tier {
                None => Ok(self.inner.refresh(weights)?),
                Some(tier) => tier.refresh(weights),
            }
        })
    }

    /// Returns the dispatch of GEMMs to a library, with its choices so far; `None` if kernels
    /// compute all.
    pub fn gemm(&self) -> Option<&Arc<GemmDispatch>> {
        self.inner.gemm()
    }

    pub fn meta(&self) -> &Arc<ModuleMeta> {
        self.inner.meta()
    }

    /// Returns the report of the compilation; `None` for [`Executable::from_code`].
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Returns `Hit` if prepared weights came from the cache at load, else the reason why not.
    pub fn prepared(&self) -> Outcome {
        self.prepared
    }

    /// Returns the prepared weights that calls read; `None` if there are none.
    pub(crate) fn prepared_weights(&self) -> Option<Arc<Blobs>> {
        self.inner.weight_state().prepared()
    }

    pub fn calls(&self) -> u64 {
        self.inner.calls() + self.tier.as_ref().map_or(0, |tier| tier.hits())
    }

    pub fn peak_arena_bytes(&self) -> usize {
        self.inner.peak_arena_bytes().max(self.tier.as_ref().map_or(0, |tier| tier.peak_arena_bytes()))
    }

    /// Returns the bytes of plain weights and of prepared ones.
    pub fn weight_bytes(&self) -> (usize, usize) {
        self.inner.weight_bytes()
    }
}
