//! Holds the execution plan of a shape: the first of the library's heuristics that it can use.
//!
//! Invariant: the choice depends only on the library, the GPU and the shape. Nothing is timed, and
//! engines that may add in another order from run to run are passed over.
use super::{
    descriptor::Descriptor,
    functions::{CudnnError, Functions, Handle, MODE_A, MODE_FALLBACK, attribute as at, kind, note, ty},
    graph::{Graph, NAMES, graph},
    shape::Shape,
};
use disc_abi::{DType, LibraryConvolution};
use std::ffi::{c_int, c_void};

/// The notes that the header has.
const MOST_NOTES: usize = 10;

/// An execution plan.
pub(in crate::cuda) struct Plan {
    plan: Descriptor,
    workspace: usize,
    /// The library may refer to what the plan was made of.
    _config: Descriptor,
    _graph: Graph,
}

impl Plan {
    /// Makes the plan of a shape that works in at most so many bytes; `None` if the library has
    /// none.
    ///
    /// # Errors
    /// A failure of the library.
    ///
    /// # Safety
    /// The handle is of these functions, and its context is current.
    pub(super) unsafe fn new(
        functions: Functions,
        library: Handle,
        shape: &Shape,
        most: usize,
    ) -> Result<Option<Self>, CudnnError> {
        let graph = graph(functions, library, shape)?;
        for mode in [MODE_A, MODE_FALLBACK] {
            for config in configs(functions, &graph.whole, mode)? {
                if !keeps_numbers(functions, &config, shape)? {
                    continue;
                }
                let plan = match finished(functions, library, &config) {
                    Ok(plan) => plan,
                    // The next engine may do.
                    Err(error) if error.is_refusal() => continue,
                    Err(error) => return Err(error),
                };
                let mut bytes = [0i64];
                // SAFETY: one number of 64 bits.
                unsafe { plan.read(at::PLAN_WORKSPACE, ty::INT64, &mut bytes)? };
                if let Some(workspace) = usize::try_from(bytes[0]).ok().filter(|&bytes| bytes <= most) {
                    return Ok(Some(Self { plan, workspace, _config: config, _graph: graph }));
                }
            }
        }
        Ok(None)
    }

    /// Returns the bytes of memory that the plan works in.
    pub(in crate::cuda) fn workspace(&self) -> usize {
        self.workspace
    }

    /// Computes a convolution of the shape on the stream of the handle.
    ///
    /// # Safety
    /// The handle is that of the plan, and its context is current; input, filter, bias, result and
    /// workspace are memory of the device.
    pub(super) unsafe fn run(
        &self,
        functions: Functions,
        library: Handle,
        convolution: &LibraryConvolution,
        workspace: *mut c_void,
    ) -> Result<(), CudnnError> {
        let LibraryConvolution { input, filter, bias, result, .. } = *convolution;
        let pointers = [input.cast_mut(), filter.cast_mut(), bias.cast_mut(), result];
        let used = NAMES.into_iter().zip(pointers).filter(|(_, pointer)| !pointer.is_null());
        let (names, pointers): (Vec<i64>, Vec<*mut u8>) = used.unzip();
        let pack = Descriptor::new(functions, kind::VARIANT_PACK)?;
        pack.set_integers(at::PACK_NAMES, &names)?;
        // SAFETY: addresses; the plan is live, and the caller's promise holds for the rest.
        unsafe {
            pack.set(at::PACK_POINTERS, ty::POINTER, &pointers)?;
            pack.set(at::PACK_WORKSPACE, ty::POINTER, &[workspace])?;
            let pack = pack.finalized()?;
            functions.execute(library, self.plan.handle, pack.handle)
        }
    }
}

/// Returns the engines that the library's heuristics name for a graph, best first.
fn configs(functions: Functions, graph: &Descriptor, mode: c_int) -> Result<Vec<Descriptor>, CudnnError> {
    let heuristics = Descriptor::new(functions, kind::HEURISTICS)?;
    heuristics.set_descriptors(at::HEURISTICS_GRAPH, &[graph])?;
    heuristics.set_word(at::HEURISTICS_MODE, ty::HEURISTICS_MODE, mode)?;
    let heuristics = match heuristics.finalized() {
        Ok(heuristics) => heuristics,
        Err(error) if error.is_refusal() => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let count = heuristics.count(at::HEURISTICS_RESULTS, ty::DESCRIPTOR)?;
    let mut found: Vec<Descriptor> =
        (0..count).map(|_| Descriptor::new(functions, kind::ENGINE_CONFIG)).collect::<Result<_, _>>()?;
    let mut handles: Vec<Handle> = found.iter().map(|config| config.handle).collect();
    // SAFETY: live descriptors, which the library fills.
    let count = unsafe { heuristics.read(at::HEURISTICS_RESULTS, ty::DESCRIPTOR, &mut handles)? };
    found.truncate(count);
    Ok(found)
}

/// Returns true if an engine computes in the precision that a shape asks for, in an order that is
/// always the same.
fn keeps_numbers(functions: Functions, config: &Descriptor, shape: &Shape) -> Result<bool, CudnnError> {
    let engine = Descriptor::new(functions, kind::ENGINE)?;
    let mut notes: [c_int; MOST_NOTES] = [0; MOST_NOTES];
    // SAFETY: a live descriptor, which the library fills; numbers of 32 bits.
    let count = unsafe {
        config.read(at::CONFIG_ENGINE, ty::DESCRIPTOR, &mut [engine.handle])?;
        engine.read(at::ENGINE_NOTES, ty::NUMERICAL_NOTE, &mut notes)?
    };
    let has = |wanted: c_int| notes[..count].contains(&wanted);
    let is_f32 = shape.dtypes[0] == DType::F32.code();
    let rounds = match is_f32 {
        true => has(note::DOWN_CONVERT_INPUTS) || has(note::TENSOR_CORE) && !shape.allows_tf32,
        false => has(note::REDUCED_PRECISION_REDUCTION),
    };
    let transforms = has(note::WINOGRAD) || has(note::FFT);
    Ok(!rounds && !transforms && !has(note::NONDETERMINISTIC))
}

/// Makes the plan of an engine.
fn finished(functions: Functions, library: Handle, config: &Descriptor) -> Result<Descriptor, CudnnError> {
    let plan = Descriptor::new(functions, kind::EXECUTION_PLAN)?;
    // SAFETY: a handle.
    unsafe { plan.set(at::PLAN_HANDLE, ty::HANDLE, &[library])? };
    plan.set_descriptors(at::PLAN_CONFIG, &[config])?;
    plan.finalized()
}
