//! Compiles a program to one shared object: LLVM modules of a few kernels each and one of the host
//! programs, compiled by several threads, then one link. Kernels of a GPU are not in it: [`ptx`]
//! makes a text of them.
//!
//! Kernels have explicit vectors and loops: they run no passes of LLVM, and code generation at O1,
//! or for GPUs at O2. Host programs are long and run once per call: they get the fastest code
//! generation.
use crate::{
    Error,
    emit::Emit,
    link::link,
    lower::{lower, lower_entry},
    machine::{Codegen, Machine, Object, in_context},
    sources::with_sources,
};
use disc_codegen::{
    host::Program,
    target::{Compilation, Target},
};
use disc_ir::{Function, FunctionKind};
use inkwell::context::Context;
use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// Functions of one LLVM module: below 10 the fixed costs of a module show, above 50 threads wait
/// for the last one.
const BATCH: usize = 25;
/// LLVM recurses over large functions.
pub(crate) const STACK: usize = 16 << 20;

#[derive(Clone, Debug)]
pub struct Options {
    /// Number of modules that are compiled in parallel.
    pub threads: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { threads: std::thread::available_parallelism().map_or(1, usize::from) }
    }
}

/// Time spent, summed over the threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Kernel IR to LLVM IR.
    pub lower: Duration,
    /// LLVM IR to machine code.
    pub codegen: Duration,
    pub link: Duration,
    /// LLVM modules.
    pub modules: usize,
}

/// A program as a shared object.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub bytes: Vec<u8>,
    pub timings: Timings,
}

/// Compiles the host programs of `program`, and its kernels and routines if the device is the host.
/// Host programs are exported by [`crate::entry_symbol`], kernels by their names, which profiles
/// show.
///
/// # Errors
/// A device without a backend, or a failure of LLVM or of the linker.
pub fn compile(program: &Program, targets: &Compilation, options: &Options) -> Result<Compiled, Error> {
    check(targets)?;
    let on_host = |f: &&Function| is_kernel_code(f) && targets.device().is_cpu();
    let kernels: Vec<&Function> = program.module.functions.iter().filter(on_host).collect();
    let entries: Vec<&Function> = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Host).collect();
    // The entries first, since they take the longest.
    let host = Batch { functions: &entries, target: targets.host(), codegen: Codegen::Fast, versioned: true };
    let device = |functions| Batch { functions, target: targets.device(), codegen: Codegen::Less, versioned: false };
    let batches: Vec<Batch<'_>> = [host].into_iter().chain(kernels.chunks(BATCH).map(device)).collect();
    let objects = in_parallel(batches.len(), options.threads, |i| object(program, &batches[i]))?;
    let (compiled, _) = linked(targets, objects)?;
    tracing::debug!(timings = ?compiled.timings, bytes = compiled.bytes.len(), "compiled a program");
    Ok(compiled)
}

/// Links objects, each with the times of its halves, and adds these up.
pub(crate) fn linked(targets: &Compilation, objects: Vec<TimedObject>) -> Result<(Compiled, Vec<Object>), Error> {
    let mut timings = Timings { modules: objects.len(), ..Timings::default() };
    let add = |(object, lower, codegen)| {
        timings.lower += lower;
        timings.codegen += codegen;
        object
    };
    let objects: Vec<Object> = objects.into_iter().map(add).collect();
    let start = Instant::now();
    let bytes = link(targets.host(), &objects)?;
    timings.link = start.elapsed();
    Ok((Compiled { bytes, timings }, objects))
}

/// Returns the assembly of what [`compile`] compiles, for dumps and for tests that look at
/// instructions.
///
/// # Errors
/// As [`compile`].
pub fn assembly(program: &Program, targets: &Compilation) -> Result<String, Error> {
    check(targets)?;
    in_context(|context| {
        let machine = Machine::new(targets.host(), Codegen::Less)?;
        let emit = lower_all(context, &machine, program, targets)?;
        machine.assembly(emit.module)
    })
}

/// Returns the LLVM IR of what [`compile`] compiles, for dumps.
///
/// # Errors
/// As [`compile`].
pub fn llvm_ir(program: &Program, targets: &Compilation) -> Result<String, Error> {
    check(targets)?;
    in_context(|context| {
        let machine = Machine::new(targets.host(), Codegen::Less)?;
        Ok(lower_all(context, &machine, program, targets)?.module.print_to_string().to_string())
    })
}

/// Returns the PTX of the kernels of `program`, for a device that is one of NVIDIA's GPUs. Kernels
/// are exported by their names; each follows its own text, in comments.
///
/// # Errors
/// Another device, or a failure of LLVM.
pub fn ptx(program: &Program, targets: &Compilation) -> Result<String, Error> {
    let target = targets.device();
    if !matches!(target, Target::Nvptx { .. }) {
        return Err(Error::Emit(format!("PTX for `{target}`, which does not run it")));
    }
    in_context(|context| {
        let start = Instant::now();
        let machine = Machine::new(target, Codegen::Default)?;
        let emit = open(context, &machine, target);
        let functions = program.module.functions.iter().filter(|function| is_kernel_code(function));
        functions.clone().try_for_each(|function| lower_any(&emit, program, function))?;
        let lower = start.elapsed();
        let text = machine.assembly(emit.module)?;
        tracing::debug!(?lower, codegen = ?(start.elapsed() - lower), bytes = text.len(), "made PTX");
        Ok(with_sources(&text, functions))
    })
}

/// Checks that code can be made for the device.
pub(crate) fn check(targets: &Compilation) -> Result<(), Error> {
    Ok(targets.check_backend()?)
}

pub(crate) fn is_kernel_code(function: &Function) -> bool {
    match function.kind {
        FunctionKind::Kernel | FunctionKind::Routine => true,
        FunctionKind::Func | FunctionKind::Host => false,
    }
}

/// Lowers the program into one module for the host, without kernels if the device is not the host.
fn lower_all<'c>(context: &'c Context, machine: &Machine, program: &Program, targets: &Compilation) -> Result<Emit<'c>, Error> {
    let emit = open(context, machine, targets.host());
    let on_host = |function: &&Function| !is_kernel_code(function) || targets.device().is_cpu();
    program.module.functions.iter().filter(on_host).try_for_each(|function| lower_any(&emit, program, function))?;
    Ok(emit)
}

/// Opens an empty module for `machine`.
pub(crate) fn open<'c>(context: &'c Context, machine: &Machine, target: &Target) -> Emit<'c> {
    let module = context.create_module("disc");
    machine.prepare(&module);
    Emit::new(context, module, target.clone())
}

fn lower_any(emit: &Emit<'_>, program: &Program, function: &Function) -> Result<(), Error> {
    match function.kind {
        FunctionKind::Kernel | FunctionKind::Routine => lower(emit, &program.module, function),
        FunctionKind::Host => {
            let signature = program.signatures.iter().find(|(name, _)| *name == function.name);
            let (_, signature) =
                signature.ok_or_else(|| Error::Emit(format!("host program `{}` has no signature", function.name)))?;
            lower_entry(emit, &program.module, function, signature)
        }
        FunctionKind::Func => Ok(()),
    }
}

/// An object, and the time that lowering and code generation took.
pub(crate) type TimedObject = (Object, Duration, Duration);

/// The functions of one LLVM module.
pub(crate) struct Batch<'p> {
    pub(crate) functions: &'p [&'p Function],
    pub(crate) target: &'p Target,
    pub(crate) codegen: Codegen,
    /// The module exports the version of the runtime's contract.
    pub(crate) versioned: bool,
}

/// Compiles one batch to an object, and times both halves.
pub(crate) fn object(program: &Program, batch: &Batch<'_>) -> Result<TimedObject, Error> {
    in_context(|context| {
        let start = Instant::now();
        let machine = Machine::new(batch.target, batch.codegen)?;
        let emit = open(context, &machine, batch.target);
        batch.functions.iter().try_for_each(|function| lower_any(&emit, program, function))?;
        if batch.versioned {
            export_version(&emit);
        }
        let lowered = start.elapsed();
        let object = machine.object(emit.module)?;
        Ok((object, lowered, start.elapsed() - lowered))
    })
}

fn export_version(emit: &Emit<'_>) {
    let ty = emit.context.i32_type();
    let version = emit.module.add_global(ty, None, disc_abi::VERSION_SYMBOL);
    version.set_initializer(&ty.const_int(disc_abi::ABI_VERSION.into(), false));
    version.set_constant(true);
    version.set_alignment(4);
}

/// Runs `job` for every number below `count` on up to `threads` threads. Returns the results in
/// order, or the first error in order.
pub(crate) fn in_parallel<T: Send>(
    count: usize,
    threads: usize,
    job: impl Fn(usize) -> Result<T, Error> + Sync,
) -> Result<Vec<T>, Error> {
    let next = AtomicUsize::new(0);
    let done: Vec<Mutex<Option<Result<T, Error>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    let work = || {
        while let i = next.fetch_add(1, Ordering::Relaxed)
            && i < count
        {
            let result = job(i);
            *done[i].lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        }
    };
    std::thread::scope(|scope| -> Result<(), Error> {
        for number in 0..threads.clamp(1, count.max(1)) {
            let named = std::thread::Builder::new().name(format!("disc-llvm-{number}")).stack_size(STACK);
            named.spawn_scoped(scope, work)?;
        }
        Ok(())
    })?;
    let results = done.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    results.map(|result| result.expect("every number was taken by a thread, which a panic would have ended")).collect()
}
