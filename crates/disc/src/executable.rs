//! A loaded module, and calls of it with tensors as they come.
use crate::{Artifact, Error, Options, Specializations, cache::Outcome, compile::guarded, tier::Tier};
use disc_ral::{HostTensor, ModuleMeta, OutputAllocator, Products, Session, TensorRef, Weight};
use std::{collections::HashMap, sync::Arc};

/// A compiled and loaded module: any number of threads may run it at once, each with a session of its own.
pub struct Executable {
    pub(crate) inner: Arc<disc_ral::Executable>,
    artifact: Artifact,
    /// Kernels by their addresses.
    names: HashMap<usize, Arc<str>>,
    /// Versions for constant sizes; none where there is nothing to specialise, or nothing shall be.
    tier: Option<Arc<Tier>>,
    prepared: Outcome,
}

impl Executable {
    pub(crate) fn new(
        inner: disc_ral::Executable,
        artifact: Artifact,
        names: HashMap<usize, Arc<str>>,
        prepared: Outcome,
        options: &Options,
    ) -> Result<Self, Error> {
        let inner = Arc::new(inner);
        let tier = Tier::new(&inner, &artifact, options)?.map(Arc::new);
        Ok(Self { inner, artifact, names, tier, prepared })
    }

    /// Runs entry number `entry`. An input that is not contiguous is copied first.
    ///
    /// # Errors
    /// Inputs that do not fit the signature, an index out of range, no memory; the next call works.
    pub fn run(
        &self,
        entry: usize,
        session: &mut Session,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        if inputs.iter().all(|input| is_contiguous(input)) {
            return self.run_dense(entry, session, inputs, outputs);
        }
        let copies = inputs.iter().map(|input| if is_contiguous(input) { Ok(None) } else { contiguous(input).map(Some) });
        let copies = copies.collect::<Result<Vec<_>, Error>>()?;
        let dense: Vec<TensorRef<'_>> =
            inputs.iter().zip(&copies).map(|(input, copy)| copy.as_ref().map_or(*input, HostTensor::as_input)).collect();
        self.run_dense(entry, session, &dense, outputs)
    }

    fn run_dense(
        &self,
        entry: usize,
        session: &mut Session,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        match &self.tier {
            None => Ok(self.inner.run(entry, session, inputs, outputs)?),
            Some(tier) => tier.run(entry, session, inputs, outputs),
        }
    }

    /// What was compiled in the background so far; nothing where there are no dims to make constants of.
    pub fn specializations(&self) -> Specializations {
        self.tier.as_ref().map_or_else(Specializations::default, |tier| tier.report())
    }

    /// Runs `body` with a session from the executable's list of idle ones.
    pub fn with_session<R>(&self, body: impl FnOnce(&mut Session) -> R) -> R {
        self.inner.with_session(body)
    }

    /// Replaces the model's weights; calls that are running keep the old ones.
    ///
    /// # Errors
    /// As [`Artifact::load`]; the old weights stay then.
    pub fn refresh(&self, weights: Vec<(String, Weight)>) -> Result<(), Error> {
        guarded(|| {
            let weights = self.artifact.order(weights)?;
            match &self.tier {
                None => Ok(self.inner.refresh(weights)?),
                Some(tier) => tier.refresh(weights),
            }
        })
    }

    /// The library that products are offered to, with the choices so far; none where kernels compute all.
    pub fn products(&self) -> Option<&Arc<Products>> {
        self.inner.products()
    }

    pub fn meta(&self) -> &Arc<ModuleMeta> {
        self.inner.meta()
    }

    pub fn artifact(&self) -> &Artifact {
        &self.artifact
    }

    /// The name of the kernel at an address of a [`disc_ral::LaunchRecord`], if it was compiled with [`crate::Options::keep_names`].
    pub fn kernel_name(&self, address: usize) -> Option<&str> {
        self.names.get(&address).map(|name| &**name)
    }

    /// Whether prepared weights came from the cache when it was loaded.
    pub fn prepared(&self) -> Outcome {
        self.prepared
    }

    pub fn calls(&self) -> u64 {
        self.inner.calls() + self.tier.as_ref().map_or(0, |tier| tier.hits())
    }

    pub fn peak_arena_bytes(&self) -> usize {
        self.inner.peak_arena_bytes().max(self.tier.as_ref().map_or(0, |tier| tier.peak_arena_bytes()))
    }

    /// Bytes of plain weights and of prepared ones.
    pub fn weight_bytes(&self) -> (usize, usize) {
        self.inner.weight_bytes()
    }
}

/// Whether a tensor is row-major without gaps. One with a wrong number of strides is left to the runtime, which says so.
fn is_contiguous(input: &TensorRef<'_>) -> bool {
    let Some(strides) = input.given_strides() else { return true };
    if strides.len() != input.sizes().len() || input.sizes().contains(&0) {
        return true;
    }
    let mut expected = 1;
    input.sizes().iter().zip(strides).rev().all(|(&size, &stride)| {
        let fits = size == 1 || stride == expected;
        expected = size.saturating_mul(expected);
        fits
    })
}

/// A contiguous copy of a tensor.
fn contiguous(input: &TensorRef<'_>) -> Result<HostTensor, Error> {
    let strides = input.given_strides().expect("a contiguous tensor is not copied");
    let mut copy = HostTensor::zeros(input.dtype(), input.sizes())?;
    let size = input.dtype().size();
    let from = Strided { base: input.data().cast::<u8>(), sizes: input.sizes(), strides, size };
    from.copy(copy.bytes_mut());
    Ok(copy)
}

struct Strided<'a> {
    base: *const u8,
    sizes: &'a [i64],
    strides: &'a [i64],
    /// Bytes of an element.
    size: usize,
}

impl Strided<'_> {
    fn copy(&self, to: &mut [u8]) {
        let (Some((&inner, outer)), Some(&step)) = (self.sizes.split_last(), self.strides.last()) else { return };
        let row = inner as usize * self.size;
        let mut position = vec![0; outer.len()];
        for target in to.chunks_exact_mut(row) {
            let offset: i64 = position.iter().zip(self.strides).map(|(p, s)| p * s).sum();
            self.copy_row(offset, step, target);
            for (axis, &size) in outer.iter().enumerate().rev() {
                position[axis] += 1;
                if position[axis] < size {
                    break;
                }
                position[axis] = 0;
            }
        }
    }

    fn copy_row(&self, offset: i64, step: i64, to: &mut [u8]) {
        let size = self.size as i64;
        for (i, element) in to.chunks_exact_mut(self.size).enumerate() {
            // SAFETY: a `TensorRef` promises that every element its sizes and strides reach is valid memory.
            unsafe {
                let from = self.base.offset(((offset + i as i64 * step) * size) as isize);
                std::ptr::copy_nonoverlapping(from, element.as_mut_ptr(), self.size);
            }
        }
    }
}
