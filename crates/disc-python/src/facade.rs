//! The compiler and what it loads: the one place that names the facade's interface, and where its errors become exceptions.
use crate::errors::Failure;
use disc_ral::{Cpu, Library, ModuleMeta, OutputAllocator, Products, Session, TensorRef, Weight};
use std::{collections::HashMap, sync::Arc};

pub(crate) use disc::{
    Artifact, Error, Options, Report, Specializations, Specialize, VariantReport, background, cache, compile, compile_text,
};

/// What runs: a module that was compiled here, or code and metadata from elsewhere.
pub(crate) enum Runner {
    Compiled(Box<disc::Executable>),
    Loaded(disc_ral::Executable),
}

impl Runner {
    /// Loads code with its metadata.
    ///
    /// # Safety
    /// As [`Library::load`].
    pub(crate) unsafe fn load(code: &[u8], meta: ModuleMeta, weights: Vec<(String, Weight)>) -> Result<Self, Error> {
        // SAFETY: the caller's promise.
        let library = Arc::new(unsafe { Library::load(code) }?);
        let meta = Arc::new(meta);
        let code = disc_ral::Code::from_library(library, &meta)?;
        let weights = ordered(&meta, weights);
        Ok(Runner::Loaded(disc_ral::Executable::new(Cpu::device(), code, meta, weights, Default::default())?))
    }

    pub(crate) fn run(
        &self,
        entry: usize,
        session: &mut Session,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        match self {
            Runner::Compiled(executable) => executable.run(entry, session, inputs, outputs),
            Runner::Loaded(executable) => Ok(executable.run(entry, session, inputs, outputs)?),
        }
    }

    pub(crate) fn with_session<R>(&self, body: impl FnOnce(&mut Session) -> R) -> R {
        match self {
            Runner::Compiled(executable) => executable.with_session(body),
            Runner::Loaded(executable) => executable.with_session(body),
        }
    }

    pub(crate) fn refresh(&self, weights: Vec<(String, Weight)>) -> Result<(), Error> {
        match self {
            Runner::Compiled(executable) => executable.refresh(weights),
            Runner::Loaded(executable) => Ok(executable.refresh(ordered(executable.meta(), weights))?),
        }
    }

    pub(crate) fn meta(&self) -> &ModuleMeta {
        match self {
            Runner::Compiled(executable) => executable.meta(),
            Runner::Loaded(executable) => executable.meta(),
        }
    }

    /// What the compilation did; none for code from elsewhere.
    pub(crate) fn report(&self) -> Option<&Report> {
        match self {
            Runner::Compiled(executable) => Some(&executable.artifact().report),
            Runner::Loaded(_) => None,
        }
    }

    /// Whether prepared weights came from the cache.
    pub(crate) fn prepared(&self) -> cache::Outcome {
        match self {
            Runner::Compiled(executable) => executable.prepared(),
            Runner::Loaded(_) => cache::Outcome::Off,
        }
    }

    /// The library that products are offered to, if any.
    pub(crate) fn products(&self) -> Option<&Arc<Products>> {
        match self {
            Runner::Compiled(executable) => executable.products(),
            Runner::Loaded(executable) => executable.products(),
        }
    }

    /// What was compiled in the background; none for code from elsewhere.
    pub(crate) fn specializations(&self) -> Option<Specializations> {
        match self {
            Runner::Compiled(executable) => Some(executable.specializations()),
            Runner::Loaded(_) => None,
        }
    }

    pub(crate) fn calls(&self) -> u64 {
        match self {
            Runner::Compiled(executable) => executable.calls(),
            Runner::Loaded(executable) => executable.calls(),
        }
    }

    pub(crate) fn peak_arena_bytes(&self) -> usize {
        match self {
            Runner::Compiled(executable) => executable.peak_arena_bytes(),
            Runner::Loaded(executable) => executable.peak_arena_bytes(),
        }
    }

    pub(crate) fn weight_bytes(&self) -> (usize, usize) {
        match self {
            Runner::Compiled(executable) => executable.weight_bytes(),
            Runner::Loaded(executable) => executable.weight_bytes(),
        }
    }
}

/// Weights in the order of the metadata; the runtime says so if one is missing.
fn ordered(meta: &ModuleMeta, weights: Vec<(String, Weight)>) -> Vec<Weight> {
    let mut given: HashMap<String, Weight> = weights.into_iter().collect();
    meta.weights.iter().filter_map(|weight| given.remove(&weight.name)).collect()
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Ir(diagnostics) => Failure::first_of(diagnostics),
            other => {
                let (code, message) = (other.code(), other.message());
                Failure { op: other.op(), dims: other.dims(), help: other.help(), ..Failure::new(code, message) }
            }
        }
    }
}
