//! Holds a compiled module with its weights, and runs calls of it.
//!
//! Invariants: an executable has no state that a call changes except counters, so any number of
//! threads run it at once, each with its own session; its library stays loaded as long as it lives.

use crate::{
    bind::bind,
    call::{Call, CallState},
    deferred::{self, Deferred, Lookup},
    device::{Device, Image, Kernels},
    error::{Error, code},
    failure::Failure,
    gemm::GemmDispatch,
    kernel_names::KernelNames,
    library::Library,
    meta::{EntryMeta, ModuleMeta},
    profile::{self, Traced},
    session_state::SessionState,
    staging::Staging,
    tensor::{OutputAllocator, OutputError, TensorRef},
    weights::{Prepared, Weight, WeightSet, WeightState},
};
use arc_swap::{ArcSwap, Guard};
use disc_abi::{DEVICE_CPU, DType, EntryFn, FLAG_ALIAS, FLAG_WRITTEN, STATUS_OK, Tensor};
use std::{
    ffi::c_void,
    hash::{DefaultHasher, Hash, Hasher},
    ptr::{self, NonNull},
    slice,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

/// Idle sessions that an executable keeps.
const MAX_IDLE: usize = 16;

/// The functions of a module.
pub struct Code {
    entries: Vec<EntryFn>,
    prepare: Vec<EntryFn>,
    names: KernelNames,
    image: Option<Image>,
    /// Finds the functions that the library lacks; `None` if it is whole.
    lookup: Option<Box<Lookup>>,
    /// Addresses of the functions that a first library lacked.
    table: Option<NonNull<*const c_void>>,
}

// SAFETY: the table is constant memory of the library, which lives as long.
unsafe impl Send for Code {}
// SAFETY: as above.
unsafe impl Sync for Code {}

impl Code {
    /// Takes the entries that the metadata names from a library.
    pub fn from_library(library: Arc<Library>, meta: &ModuleMeta) -> Result<Self, Error> {
        let entries = meta.entries.iter().map(|entry| library.entry(&entry.symbol)).collect::<Result<_, _>>()?;
        let prepare = meta.prepare.iter().map(|symbol| library.entry(symbol)).collect::<Result<_, _>>()?;
        let table = deferred::table(&library);
        Ok(Self { entries, prepare, names: KernelNames::of(library, meta), image: None, lookup: None, table })
    }

    /// Takes functions that are part of this program, in the order of the metadata.
    ///
    /// # Safety
    /// They keep the contract of [`EntryFn`] for the metadata that they are used with.
    pub unsafe fn from_functions(entries: Vec<EntryFn>, prepare: Vec<EntryFn>) -> Self {
        Self { entries, prepare, names: KernelNames::default(), image: None, lookup: None, table: None }
    }

    /// Lets a first library find the functions that it lacks.
    ///
    /// # Errors
    /// A library that is no first one.
    pub fn with_deferred(mut self, deferred: &Arc<dyn Deferred>) -> Result<Self, Error> {
        let library = self.names.library().ok_or_else(|| Error::internal("functions of this program defer none"))?;
        self.lookup = Some(Lookup::connect(library, deferred)?);
        Ok(self)
    }

    /// Takes the same library for other metadata of the same program.
    fn with_meta(&self, meta: &ModuleMeta) -> Option<Self> {
        Self::from_library(Arc::clone(self.names.library()?), meta).ok()
    }

    /// Returns the address of a function that the first library lacked; `None` if this is no whole
    /// library.
    pub(crate) fn deferred_function(&self, number: u32) -> Option<*const c_void> {
        // SAFETY: the table has an entry for each stub of the first library, which gives its own
        // number.
        self.table.map(|table| unsafe { table.add(number as usize).read() })
    }

    /// Adds the GPU kernels that the entries launch.
    pub fn with_image(mut self, image: Image) -> Self {
        self.names.grids.clone_from(&image.kernels);
        self.image = Some(image);
        self
    }
}

/// Options for the weights and threads of an executable.
#[derive(Clone, Default)]
pub struct ExecutableOptions {
    /// Free the plain weights that only `prepare` entries read, once they have run.
    pub release_weights: bool,
    /// Thread limit for new sessions; `None`: the device's default.
    pub threads: Option<usize>,
    /// Decides between kernels and a library for each GEMM; `None`: kernels compute all.
    pub gemm: Option<Arc<GemmDispatch>>,
    /// A call on a device that runs beside the host waits for it before it returns.
    pub waits: bool,
}

/// A compiled module, ready to run.
pub struct Executable {
    device: Arc<dyn Device>,
    /// That of a first library until the whole one is there.
    code: ArcSwap<Code>,
    meta: Arc<ModuleMeta>,
    options: ExecutableOptions,
    kernels: Option<Kernels>,
    weights: ArcSwap<WeightSet>,
    idle: Mutex<Vec<SessionState>>,
    calls: AtomicU64,
    peak_arena: AtomicUsize,
}

impl Executable {
    /// Checks code and weights against the metadata and runs the `prepare` entries.
    pub fn new(
        device: Arc<dyn Device>,
        code: impl Into<Arc<Code>>,
        meta: Arc<ModuleMeta>,
        weights: Vec<Weight>,
        options: ExecutableOptions,
    ) -> Result<Self, Error> {
        Self::with_prepared(device, code, meta, weights, options, None)
    }

    /// Like [`Executable::new`], but uses `prepared` blobs of these weights instead of running the
    /// `prepare` entries, if given. [`Executable::refresh`] runs them.
    pub fn with_prepared(
        device: Arc<dyn Device>,
        code: impl Into<Arc<Code>>,
        meta: Arc<ModuleMeta>,
        weights: Vec<Weight>,
        options: ExecutableOptions,
        prepared: Option<Prepared>,
    ) -> Result<Self, Error> {
        let code = code.into();
        check_meta(&code, &meta)?;
        let kernels = code.image.as_ref().map(|image| device.load(image)).transpose()?;
        let weights = prepare(&device, (&code, kernels.as_ref()), &meta, weights, &options, prepared)?;
        Ok(Self {
            kernels,
            device,
            code: ArcSwap::new(code),
            meta,
            options,
            weights: ArcSwap::from_pointee(weights),
            idle: Mutex::new(Vec::new()),
            calls: AtomicU64::new(0),
            peak_arena: AtomicUsize::new(0),
        })
    }

    /// Runs entry number `entry` (see [`ModuleMeta::entry`]). After an error the next call works,
    /// with the same session.
    pub fn run(
        &self,
        entry: usize,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        let result = self.run_uncounted(entry, session, inputs, outputs);
        // A caller may ask twice about a call that is refused.
        self.calls.fetch_add(u64::from(result.is_ok()), Ordering::Relaxed);
        result
    }

    /// Runs an entry without counting the call: a measurement.
    pub fn run_uncounted(
        &self,
        entry: usize,
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        let code = self.code();
        let (Some(&function), Some(meta)) = (code.entries.get(entry), self.meta.entries.get(entry)) else {
            let message = format!("the module has {} entries, no number {entry}", self.meta.entries.len());
            return Err(Error::internal(message));
        };
        if session.device.kind() != self.device.kind() {
            return Err(Error::internal(format!(
                "a session of device {} for one of {}",
                session.device.name(),
                self.device.name()
            )));
        }
        let result = match session.profile.is_some() || profile::is_traced() {
            false => self.run_bound((&code.names, function, meta), session, inputs, outputs),
            true => self.run_watched((&code.names, function, meta), session, inputs, outputs),
        };
        let result = match (&code.lookup, result) {
            (Some(lookup), Err(error)) => Err(lookup.explain(error)),
            (Some(lookup), Ok(())) => {
                lookup.deferred().start();
                Ok(())
            }
            (None, result) => result,
        };
        session.descriptors.clear();
        self.peak_arena.fetch_max(session.arena.peak(), Ordering::Relaxed);
        result
    }

    /// Returns false while calls run a first library, and may wait for functions.
    pub fn is_whole(&self) -> bool {
        self.code.load().lookup.is_none()
    }

    /// Returns the code that calls run now: the whole library in place of a first one, once it is
    /// there.
    #[inline]
    fn code(&self) -> Guard<Arc<Code>> {
        let code = self.code.load();
        match code.lookup.as_ref().and_then(|lookup| lookup.deferred().whole()) {
            Some(Ok(whole)) => {
                // Its lines may be those of another program with this code.
                self.code.store(whole.with_meta(&self.meta).map_or(whole, Arc::new));
                self.code.load()
            }
            _ => code,
        }
    }

    #[inline]
    fn run_bound(
        &self,
        (names, function, meta): (&KernelNames, EntryFn, &EntryMeta),
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        if self.device.kind() == DEVICE_CPU {
            return self.run_there((names, function, meta), session, inputs, outputs);
        }
        session.queue.begin(self.kind_of(meta, inputs)).map_err(|failure| session.late(failure))?;
        session.last = Some(Arc::clone(&self.meta));
        Staging::run(session, meta, (inputs, outputs), |session, inputs, outputs| {
            self.run_there((names, function, meta), session, inputs, outputs)?;
            match self.options.waits {
                true => session.queue.sync().map_err(|failure| Failure::Launch(failure).into_error(&self.meta, meta)),
                false => Ok(()),
            }
        })
    }

    /// Returns a number for calls of an entry with these sizes.
    fn kind_of(&self, meta: &EntryMeta, inputs: &[TensorRef<'_>]) -> u64 {
        let mut hasher = DefaultHasher::new();
        (ptr::from_ref(self).addr(), ptr::from_ref(meta).addr()).hash(&mut hasher);
        inputs.iter().for_each(|input| input.sizes().hash(&mut hasher));
        hasher.finish()
    }

    /// Runs a call on tensors in memory of the device.
    #[inline]
    fn run_there(
        &self,
        (names, function, meta): (&KernelNames, EntryFn, &EntryMeta),
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        bind(&mut session.descriptors, meta, inputs, self.device.kind())?;
        let (weights, gemm) = (self.weights.load(), self.options.gemm.as_deref());
        let code = (names, self.kernels.as_ref());
        call(function, session, (&weights, gemm), (&self.meta, code), meta, outputs)?;
        finish_outputs(meta, &session.descriptors.outputs, outputs)
    }

    /// Runs a call that is profiled or traced.
    #[cold]
    #[inline(never)]
    fn run_watched(
        &self,
        entry: (&KernelNames, EntryFn, &EntryMeta),
        session: &mut SessionState,
        inputs: &[TensorRef<'_>],
        outputs: &mut dyn OutputAllocator,
    ) -> Result<(), Error> {
        let traced = Traced::call(session, entry.2, inputs);
        let result = self.run_bound(entry, session, inputs, outputs);
        traced.end(session);
        result
    }

    /// Replaces all weights: checks them, runs the `prepare` entries on them, then swaps. Running
    /// calls keep the old weights; on an error the old weights stay.
    pub fn refresh(&self, weights: Vec<Weight>) -> Result<(), Error> {
        let code = self.code();
        let weights = prepare(&self.device, (&code, self.kernels.as_ref()), &self.meta, weights, &self.options, None)?;
        self.weights.store(Arc::new(weights));
        Ok(())
    }

    /// Returns the weights that calls read now.
    pub fn weight_state(&self) -> WeightState {
        WeightState { set: self.weights.load_full(), meta: self.meta.clone() }
    }

    /// Returns true if calls still read these weights.
    pub fn reads(&self, state: &WeightState) -> bool {
        Arc::ptr_eq(&self.weights.load(), &state.set)
    }

    /// Opens a session for this executable.
    pub fn session(&self) -> SessionState {
        let mut session = SessionState::new(&self.device);
        if let Some(threads) = self.options.threads {
            session.limit_threads(threads);
        }
        session
    }

    /// Runs `body` with an idle session, or a new one. Never waits for another caller.
    pub fn with_session<R>(&self, body: impl FnOnce(&mut SessionState) -> R) -> R {
        // `try_lock`: in a forked child another thread may hold the lock for ever.
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut session = idle.unwrap_or_else(|| self.session());
        let result = body(&mut session);
        if let Ok(mut idle) = self.idle.try_lock()
            && idle.len() < MAX_IDLE
        {
            idle.push(session);
        }
        result
    }

    /// Returns the dispatch of GEMMs to a library, if there is one.
    pub fn gemm(&self) -> Option<&Arc<GemmDispatch>> {
        self.options.gemm.as_ref()
    }

    /// Returns the metadata of the module.
    pub fn meta(&self) -> &Arc<ModuleMeta> {
        &self.meta
    }

    /// Returns the device that calls run on.
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Returns the number of calls that gave results.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// Most bytes of temporary memory that one call had in use at once.
    pub fn peak_arena_bytes(&self) -> usize {
        self.peak_arena.load(Ordering::Relaxed)
    }

    /// Returns the bytes of plain weights that are kept alive, and of prepared blobs.
    pub fn weight_bytes(&self) -> (usize, usize) {
        self.weights.load().bytes()
    }
}

/// Checks the properties of metadata that later code relies on.
fn check_meta(code: &Code, meta: &ModuleMeta) -> Result<(), Error> {
    let counts = (code.entries.len(), code.prepare.len());
    if counts != (meta.entries.len(), meta.prepare.len()) {
        return Err(Error::internal(format!("code with {counts:?} entries and prepare entries for other metadata")));
    }
    if let Some(blob) = meta.blobs.iter().find(|blob| blob.prepare >= meta.prepare.len()) {
        return Err(Error::internal(format!("blob `{}` is filled by no prepare entry", blob.name)));
    }
    for entry in &meta.entries {
        let bad = entry.outputs.iter().find(|output| output.alias.is_some_and(|input| input >= entry.inputs.len()));
        if let Some(output) = bad {
            return Err(Error::internal(format!("output `{}` of `{}` aliases no input", output.name, entry.name)));
        }
    }
    Ok(())
}

/// Makes a new set of weights and fills its blobs.
fn prepare(
    device: &Arc<dyn Device>,
    (code, kernels): (&Code, Option<&Kernels>),
    meta: &ModuleMeta,
    weights: Vec<Weight>,
    options: &ExecutableOptions,
    prepared: Option<Prepared>,
) -> Result<WeightSet, Error> {
    let is_prepared = prepared.is_some();
    let mut set = WeightSet::new(device, meta, weights, prepared)?;
    if !is_prepared {
        let mut session = SessionState::new(device);
        if let Some(threads) = options.threads {
            session.limit_threads(threads);
        }
        for (&function, symbol) in code.prepare.iter().zip(&meta.prepare) {
            let entry = EntryMeta { name: symbol.clone(), symbol: symbol.clone(), ..EntryMeta::default() };
            let done = call(function, &mut session, (&set, None), (meta, (&code.names, kernels)), &entry, &mut NoOutputs);
            done.map_err(|error| match &code.lookup {
                Some(lookup) => lookup.explain(error),
                None => error,
            })?;
        }
        // Sessions with other queues read what was prepared.
        session.queue.sync().map_err(|failure| Failure::Launch(failure).into_error(meta, &EntryMeta::default()))?;
    }
    if options.release_weights {
        set.release(meta);
    }
    Ok(set)
}

/// Calls a function with the session's descriptors.
fn call(
    function: EntryFn,
    session: &mut SessionState,
    (weights, gemm): (&WeightSet, Option<&GemmDispatch>),
    (meta, (names, kernels)): (&ModuleMeta, (&KernelNames, Option<&Kernels>)),
    entry: &EntryMeta,
    allocator: &mut dyn OutputAllocator,
) -> Result<(), Error> {
    let SessionState { arena, queue, profile, descriptors, device, nontemporal_bytes, last: _ } = session;
    let inputs = if descriptors.inputs.is_empty() { ptr::null() } else { descriptors.inputs.as_ptr() };
    let outputs = if descriptors.outputs.is_empty() { ptr::null_mut() } else { descriptors.outputs.as_mut_ptr() };
    let queue = queue.as_mut();
    let memory = queue.memory().map_err(|failure| Failure::Launch(failure).into_error(meta, entry))?;
    arena.use_memory(memory);
    let failure = None;
    let state =
        CallState::new(Call { arena, queue, profile, names, entry, device, kernels, weights, gemm, allocator, outputs, failure });
    let mut context = state.context(weights.table(), *nontemporal_bytes);
    // SAFETY: the code keeps its contract for this metadata (promised when it was loaded), and
    // `bind` made the descriptors that it expects.
    let status = unsafe { function(&mut context, inputs, outputs) };
    let failure = state.into_failure();
    // Launches that are left pending read the arena.
    let finished = session.queue.finish();
    session.arena.end_call();
    let failure = match (status, failure) {
        (STATUS_OK, None) => return finished.map_err(|failure| Failure::Launch(failure).into_error(meta, entry)),
        (_, Some(failure)) => failure,
        (status, None) => Failure::Internal(format!("`{}` returned status {status} without a reason", entry.name)),
    };
    Err(failure.into_error(meta, entry))
}

/// Checks that every output was made, and reports those that alias an input to the caller.
fn finish_outputs(entry: &EntryMeta, outputs: &[Tensor], allocator: &mut dyn OutputAllocator) -> Result<(), Error> {
    for (index, (meta, output)) in entry.outputs.iter().zip(outputs).enumerate() {
        if output.flags & FLAG_WRITTEN == 0 {
            return Err(Error::internal(format!("`{}` made no output {index} (`{}`)", entry.name, meta.name)));
        }
        if output.flags & FLAG_ALIAS == 0 {
            continue;
        }
        let Some(input) = meta.alias else {
            return Err(Error::internal(format!("output {index} (`{}`) of `{}` must not alias", meta.name, entry.name)));
        };
        let rank = meta.dims.len();
        // SAFETY: the contract of aliasing outputs: sizes are the session's array of `rank` values,
        // strides null or `rank` values.
        let view = unsafe {
            let sizes = slice::from_raw_parts(output.sizes, rank);
            let view = TensorRef::from_raw(output.data, meta.dtype, sizes).on_device(output.device);
            if output.strides.is_null() { view } else { view.strides(slice::from_raw_parts(output.strides, rank)) }
        };
        allocator.alias(index, input, view).map_err(|OutputError(message)| {
            Error::new(code::OUTPUT, &meta.name, format!("output {index} (`{}`): {message}", meta.name))
        })?;
    }
    Ok(())
}

/// The allocator of `prepare` entries, which have no outputs.
struct NoOutputs;

impl OutputAllocator for NoOutputs {
    fn alloc(&mut self, _: usize, _: DType, _: &[i64]) -> Result<*mut u8, OutputError> {
        Err(OutputError("a prepare entry has no outputs".into()))
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), OutputError> {
        Err(OutputError("a prepare entry has no outputs".into()))
    }
}
