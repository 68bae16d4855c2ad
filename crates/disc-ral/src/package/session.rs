//! Runs the entries of a package.

use super::{
    Package, Tensor,
    manifest::{EntryInfo, OutputInfo, Source},
};
use crate::{
    error::{Error, code},
    executable::Executable,
    host::{HostOutput, HostOutputs, HostTensor},
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
    /// The device to run on; `cpu` by default.
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
        let mut made = HostOutputs::new();
        let (info, refs) = self.start(entry, inputs, &mut made)?;
        let mut made = made.take();
        let values = info.outputs.iter().enumerate().map(|(i, output)| match output.source() {
            Source::Input(input) => copy_of(&refs[input]),
            Source::Output(value) => {
                let is_last = info.outputs[i + 1..].iter().all(|later| later.source() != output.source());
                take(&mut made, value, is_last)
            }
        });
        values.map(|value| value.map(Tensor::from)).collect()
    }

    /// Runs an entry, and writes its outputs to memory of the caller: tensors that own theirs, or
    /// [`Tensor::new_mut`]. They get the sizes of the outputs.
    ///
    /// # Errors
    /// As [`Session::run`], and an output of another element type, or with less memory than needed.
    pub fn run_into(&mut self, entry: &str, inputs: &[Tensor<'_>], outputs: &mut [Tensor<'_>]) -> Result<(), Error> {
        let expected = self.package.entry(entry)?.outputs();
        if outputs.len() != expected.len() {
            let message = format!("`{entry}` has {} outputs, memory for {} came", expected.len(), outputs.len());
            return Err(Error::new(code::OUTPUT, entry, message));
        }
        if let Some((i, meta)) = expected.iter().enumerate().find(|(i, meta)| outputs[*i].dtype() != meta.dtype()) {
            let message = format!("output {i} (`{}`) is {}, its memory is of {}", meta.name(), meta.dtype(), outputs[i].dtype());
            return Err(Error::new(code::OUTPUT, meta.name(), message));
        }
        let sources = expected.iter().map(OutputInfo::source).collect();
        let memory = outputs.iter_mut().map(Tensor::memory_mut).collect();
        let mut lent = Lent { sources, memory, sizes: vec![None; outputs.len()], others: HostOutputs::new() };
        let (info, refs) = self.start(entry, inputs, &mut lent)?;
        let Lent { memory, mut sizes, mut others, .. } = lent;
        let mut made = others.take();
        for (i, output) in info.outputs.iter().enumerate().filter(|(i, _)| sizes[*i].is_none()).collect::<Vec<_>>() {
            let value = match output.source() {
                Source::Input(input) => copy_of(&refs[input])?,
                Source::Output(value) => match info.outputs.iter().position(|first| first.source() == output.source()) {
                    Some(first) if first < i && sizes[first].is_some() => {
                        let (data, _) = memory[first].expect("it was written");
                        // SAFETY: the memory of an earlier output, which the call filled.
                        let filled =
                            unsafe { TensorRef::from_raw(data.cast(), output.dtype(), sizes[first].as_deref().unwrap_or(&[])) };
                        copy_of(&filled)?
                    }
                    _ => take(&mut made, value, false)?,
                },
            };
            let needed = value.bytes();
            let (data, _) = memory[i].filter(|(_, bytes)| *bytes >= needed.len()).ok_or_else(|| too_small(i, value.sizes()))?;
            // SAFETY: memory of the caller, borrowed exclusively, of at least so many bytes.
            unsafe { data.copy_from_nonoverlapping(needed.as_ptr(), needed.len()) };
            sizes[i] = Some(value.sizes().to_vec());
        }
        for (output, sizes) in outputs.iter_mut().zip(sizes) {
            output.set_sizes(&sizes.unwrap_or_default());
        }
        Ok(())
    }

    /// Returns the package.
    pub fn package(&self) -> &Package {
        &self.package
    }

    /// Returns the most bytes of temporary memory that one call had in use at once.
    pub fn peak_arena_bytes(&self) -> usize {
        self.state.peak_arena_bytes()
    }

    /// Runs the compiled function. Returns the entry and the inputs as it saw them.
    fn start<'t>(
        &mut self,
        entry: &str,
        inputs: &'t [Tensor<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(&EntryInfo, SmallVec<[TensorRef<'t>; 8]>), Error> {
        let info = self.package.entry(entry)?.info;
        let position = self.executable.meta().entry(entry);
        let position = position.ok_or_else(|| Error::internal(format!("the code has no function `{entry}`")))?;
        let refs: SmallVec<[TensorRef<'t>; 8]> = inputs.iter().map(Tensor::as_input).collect();
        self.executable.run(position, &mut self.state, &refs, outputs)?;
        Ok((info, refs))
    }

    /// Runs the compiled function of an entry on tensors of any layout: for front ends that make
    /// their own tensors. The outputs are those of the function, before
    /// [`OutputInfo::source`](super::OutputInfo::source) names the entry's.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_raw(&mut self, entry: &str, inputs: &[TensorRef<'_>], outputs: &mut dyn OutputAllocator) -> Result<(), Error> {
        let position = self.executable.meta().entry(entry);
        let position =
            position.ok_or_else(|| self.package.entry(entry).err().unwrap_or_else(|| Error::internal("no function")))?;
        let executable = Arc::clone(&self.executable);
        let meta = &executable.meta().entries[position];
        with_contiguous(meta, inputs, |dense| executable.run(position, &mut self.state, dense, outputs))
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

/// Memory of the caller for outputs, and memory of our own for what the caller does not see.
struct Lent {
    sources: Vec<Source>,
    memory: Vec<Option<(*mut u8, usize)>>,
    /// The sizes of the outputs that were made in the caller's memory.
    sizes: Vec<Option<Vec<i64>>>,
    others: HostOutputs,
}

impl OutputAllocator for Lent {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        let Some(output) = self.sources.iter().position(|source| *source == Source::Output(index)) else {
            return self.others.alloc(index, dtype, sizes);
        };
        let needed = bytes_of(dtype, sizes);
        match (self.memory[output], needed) {
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
