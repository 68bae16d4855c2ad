//! Runs the entries of a package.

use super::{
    Package, Tensor,
    manifest::{OutputInfo, Source},
};
use crate::{
    error::{Error, code},
    executable::Executable,
    host::{HostOutput, HostOutputs, HostTensor},
    profile::LaunchRecord,
    session_state::SessionState,
    strided::{Strided, with_contiguous},
    tensor::{OutputAllocator, OutputError, TensorRef, bytes_of},
};
use disc_abi::DType;
use smallvec::SmallVec;
use std::sync::Arc;

/// Options for a [`Session`].
#[derive(Clone, Debug, Default)]
pub struct SessionOptions {
    /// The most threads that a call uses, that of the caller included; by default
    /// `DISC_NUM_THREADS`, else the processors that the process may use.
    pub threads: Option<usize>,
    /// The device to run on, such as `cuda:0`; by default that of
    /// [`OpenOptions`](super::OpenOptions::device). Tensors stay in memory of the host: those of a
    /// call are copied to a device beside it, and back.
    pub device: Option<String>,
}

/// The means to run the entries of a package, one call at a time. Any number of sessions of a
/// package run at once; they share code and weights.
pub struct Session {
    package: Package,
    executable: Arc<Executable>,
    state: SessionState,
}

impl Session {
    /// Opens a session. The first one of a package and device loads the code.
    ///
    /// # Errors
    /// As [`Package::executable`].
    pub fn new(package: &Package, options: SessionOptions) -> Result<Self, Error> {
        let executable = package.executable(options.device.as_deref())?;
        let mut state = executable.session();
        if let Some(threads) = options.threads {
            state.limit_threads(threads);
        }
        Ok(Self { package: package.clone(), executable, state })
    }

    /// Runs an entry. Returns its outputs, which own their memory.
    ///
    /// # Errors
    /// No such entry, inputs that do not fit its signature, an index out of range, no memory. The
    /// next call works.
    pub fn run(&mut self, entry: &str, inputs: &[Tensor<'_>]) -> Result<Vec<Tensor<'static>>, Error> {
        let count = self.package.entry(entry)?.outputs().len();
        let refs: SmallVec<[TensorRef<'_>; 8]> = inputs.iter().map(Tensor::as_input).collect();
        let made = self.call(entry, &refs, vec![Place::Own; count])?;
        Ok(made.into_iter().filter_map(Made::owned).collect())
    }

    /// Runs an entry, and writes its outputs to memory of the caller: tensors that own theirs, or
    /// [`Tensor::new_mut`]. They get the sizes of the outputs.
    ///
    /// # Errors
    /// As [`Session::run`], and an output of another element type, or with less memory than needed.
    pub fn run_into(&mut self, entry: &str, inputs: &[Tensor<'_>], outputs: &mut [Tensor<'_>]) -> Result<(), Error> {
        self.check_outputs(entry, outputs.iter().map(|output| Some(output.dtype())))?;
        let places = outputs.iter_mut().map(|output| Place::Lent(output.memory_mut())).collect();
        let refs: SmallVec<[TensorRef<'_>; 8]> = inputs.iter().map(Tensor::as_input).collect();
        for (output, made) in outputs.iter_mut().zip(self.call(entry, &refs, places)?) {
            if let Made::Written(sizes) = made {
                output.set_sizes(&sizes);
            }
        }
        Ok(())
    }

    /// Runs an entry on tensors of any layout, which another language owns. An output that is
    /// `None` becomes a tensor that owns its memory; the others are written to, as by
    /// [`Session::run_into`].
    ///
    /// # Errors
    /// As [`Session::run_into`].
    pub fn run_strided(
        &mut self,
        entry: &str,
        inputs: &[TensorRef<'_>],
        outputs: &mut [Option<Tensor<'_>>],
    ) -> Result<(), Error> {
        self.check_outputs(entry, outputs.iter().map(|output| output.as_ref().map(Tensor::dtype)))?;
        let place =
            |output: &mut Option<Tensor<'_>>| output.as_mut().map_or(Place::Own, |tensor| Place::Lent(tensor.memory_mut()));
        let places = outputs.iter_mut().map(place).collect();
        for (output, made) in outputs.iter_mut().zip(self.call(entry, inputs, places)?) {
            match (made, output) {
                (Made::Written(sizes), Some(tensor)) => tensor.set_sizes(&sizes),
                (Made::Owned(tensor), output) => *output = Some(tensor.into()),
                (Made::Written(_), None) => return Err(Error::internal("an output was written to no memory")),
            }
        }
        Ok(())
    }

    /// Compares number and element types of the memory for outputs with those of the entry.
    fn check_outputs(&self, entry: &str, dtypes: impl ExactSizeIterator<Item = Option<DType>>) -> Result<(), Error> {
        let expected = self.package.entry(entry)?.outputs();
        if dtypes.len() != expected.len() {
            let message = format!("`{entry}` has {} outputs, memory for {} came", expected.len(), dtypes.len());
            return Err(Error::new(code::OUTPUT, entry, message));
        }
        let mut pairs = expected.iter().zip(dtypes).enumerate();
        match pairs.find(|(_, (meta, dtype))| dtype.is_some_and(|dtype| dtype != meta.dtype())) {
            None => Ok(()),
            Some((i, (meta, dtype))) => {
                let of = dtype.map(|dtype| dtype.to_string()).unwrap_or_default();
                let message = format!("output {i} (`{}`) is {}, its memory is of {of}", meta.name(), meta.dtype());
                Err(Error::new(code::OUTPUT, meta.name(), message))
            }
        }
    }

    /// Runs the compiled function, and puts each output of the entry in its place.
    fn call(&mut self, entry: &str, inputs: &[TensorRef<'_>], places: Vec<Place>) -> Result<Vec<Made>, Error> {
        let Self { package, executable, state } = self;
        let outputs = package.entry(entry)?.outputs();
        let position = executable.meta().entry(entry);
        let position = position.ok_or_else(|| Error::internal(format!("the code has no function `{entry}`")))?;
        let mut lent = Lent { outputs, sizes: vec![None; places.len()], places, others: HostOutputs::new() };
        // The views of inputs among the results are read before copies of strided inputs are freed.
        with_contiguous(&executable.meta().entries[position], inputs, |dense| {
            executable.run(position, state, dense, &mut lent)?;
            lent.finish(dense)
        })
    }

    /// Times each kernel of the calls from now on; that costs little, but each kernel is awaited.
    pub fn start_profile(&mut self) {
        self.state.start_profile();
    }

    /// Stops the profile. Returns the launches since it began, by the names of their kernels.
    pub fn take_profile(&mut self) -> Vec<LaunchRecord> {
        self.state.take_profile()
    }

    /// Returns the package.
    pub fn package(&self) -> &Package {
        &self.package
    }

    /// Returns the most bytes of temporary memory that one call had in use at once.
    pub fn peak_arena_bytes(&self) -> usize {
        self.state.peak_arena_bytes()
    }
}

/// Takes an output of the compiled function, or copies it if it is wanted again or is a view of an
/// input.
fn take(made: &mut [Option<HostOutput>], index: usize, is_last: bool) -> Result<HostTensor, Error> {
    let slot = made.get_mut(index).ok_or_else(|| Error::internal(format!("there is no output {index}")))?;
    if is_last && let Some(HostOutput::Fresh(tensor)) = slot.take_if(|output| matches!(output, HostOutput::Fresh(_))) {
        return Ok(tensor);
    }
    match slot {
        Some(HostOutput::Fresh(tensor)) => copy_of(&tensor.as_input()),
        Some(HostOutput::Alias { dtype, data, sizes, strides, .. }) => {
            // SAFETY: a view of an input, which the caller still lends.
            let view = unsafe { TensorRef::from_raw(data.cast(), *dtype, sizes) };
            copy_of(&strides.as_ref().map_or(view, |strides| view.strides(strides)))
        }
        None => Err(Error::internal(format!("output {index} was not made"))),
    }
}

fn copy_of(tensor: &TensorRef<'_>) -> Result<HostTensor, Error> {
    Strided::of(tensor).to_contiguous()
}

fn too_small(index: usize, sizes: &[i64]) -> Error {
    let message = format!("output {index} has sizes {sizes:?}, for which its memory is too small or read-only");
    Error::new(code::OUTPUT, format!("output{index}"), message)
}

/// The place that a caller has for an output: address and bytes of memory (`None` if it may not be
/// written to), or a new tensor.
#[derive(Clone, Copy)]
enum Place {
    Lent(Option<(*mut u8, usize)>),
    Own,
}

/// An output of a call: the sizes of one in the caller's memory, or a tensor.
enum Made {
    Written(Vec<i64>),
    Owned(HostTensor),
}

impl Made {
    fn owned(self) -> Option<Tensor<'static>> {
        match self {
            Self::Written(_) => None,
            Self::Owned(tensor) => Some(tensor.into()),
        }
    }
}

/// Memory of the caller for outputs, and memory of our own for the others.
struct Lent<'p> {
    outputs: &'p [OutputInfo],
    places: Vec<Place>,
    /// The sizes of the outputs that the function made in the caller's memory.
    sizes: Vec<Option<Vec<i64>>>,
    others: HostOutputs,
}

impl Lent<'_> {
    /// Puts the outputs that the function did not make in their place there.
    fn finish(&mut self, inputs: &[TensorRef<'_>]) -> Result<Vec<Made>, Error> {
        let mut values = self.others.take();
        (0..self.outputs.len())
            .map(|i| match &self.sizes[i] {
                Some(sizes) => Ok(Made::Written(sizes.clone())),
                None => self.place(i, inputs, &mut values),
            })
            .collect()
    }

    fn place(&self, i: usize, inputs: &[TensorRef<'_>], values: &mut [Option<HostOutput>]) -> Result<Made, Error> {
        let value = self.value(i, inputs, values)?;
        let Place::Lent(memory) = self.places[i] else { return Ok(Made::Owned(value)) };
        let bytes = value.bytes();
        let (data, _) = memory.filter(|(_, room)| *room >= bytes.len()).ok_or_else(|| too_small(i, value.sizes()))?;
        // SAFETY: memory of the caller, borrowed exclusively, of at least so many bytes.
        unsafe { data.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(Made::Written(value.sizes().to_vec()))
    }

    fn value(&self, i: usize, inputs: &[TensorRef<'_>], values: &mut [Option<HostOutput>]) -> Result<HostTensor, Error> {
        let source = self.outputs[i].source();
        let index = match source {
            Source::Input(input) => return copy_of(&inputs[input]),
            Source::Output(index) => index,
        };
        let first = self.outputs.iter().zip(&self.sizes).position(|(output, sizes)| output.source() == source && sizes.is_some());
        if let Some(first) = first
            && let (Place::Lent(Some((data, _))), Some(sizes)) = (self.places[first], &self.sizes[first])
        {
            // SAFETY: the memory of another output, which the function filled.
            return copy_of(&unsafe { TensorRef::from_raw(data.cast(), self.outputs[i].dtype(), sizes) });
        }
        take(values, index, self.outputs[i + 1..].iter().all(|later| later.source() != source))
    }
}

impl OutputAllocator for Lent<'_> {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        let position = self.outputs.iter().position(|output| output.source() == Source::Output(index));
        let Some((output, memory)) = position.and_then(|i| match self.places[i] {
            Place::Lent(memory) => Some((i, memory)),
            Place::Own => None,
        }) else {
            return self.others.alloc(index, dtype, sizes);
        };
        match (memory, bytes_of(dtype, sizes)) {
            (Some((data, bytes)), Some(needed)) if needed <= bytes => {
                self.sizes[output] = Some(sizes.to_vec());
                Ok(data)
            }
            _ => Err(OutputError(too_small(output, sizes).message)),
        }
    }

    fn alias(&mut self, index: usize, input: usize, view: TensorRef<'_>) -> Result<(), OutputError> {
        self.others.alias(index, input, view)
    }
}
