//! Compiles a program in two parts: the functions that the first call runs, and the others while
//! calls are served.
//!
//! The library of the first part has a stub for each deferred function, which waits until it is
//! compiled. The whole library is linked from the objects of both parts, so that no function is
//! compiled twice, and its functions are those that [`crate::compile`] makes.
//!
//! Invariant: nothing waits for another thread here, so that a forked child can go on where its
//! parent was: a part that the parent's thread had begun is compiled again.
use crate::{
    Error,
    compile::{Batch, Compiled, Options, TimedObject, check, in_parallel, is_kernel_code, linked, object, open},
    link::link,
    lower::{lower_stubs, lower_table},
    machine::{Codegen, Machine, Object, in_context},
};
use arc_swap::ArcSwapOption;
use disc_codegen::{host::Program, target::Compilation};
use disc_ir::{Function, FunctionKind};
use std::{
    collections::BTreeSet,
    process,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Instant,
};

/// Ops of deferred functions from which a second part pays.
const LEAST_DEFERRED: usize = 2000;
/// Ops of one LLVM module: some 30 ms.
const MODULE: usize = 3000;

/// The functions of a program that its first library lacks.
pub struct Deferred {
    program: Arc<Program>,
    targets: Compilation,
    /// Those of the host programs and of the functions that the first call runs.
    first: Vec<Object>,
    /// Names of the deferred functions, by their number.
    names: Vec<Arc<str>>,
    modules: Vec<Part>,
    /// Ops of deferred functions by those of the others.
    share: f64,
}

/// An LLVM module of deferred functions.
struct Part {
    names: Vec<Arc<str>>,
    object: ArcSwapOption<Object>,
    /// The process of which a thread compiles it, or 0.
    taken_by: AtomicU32,
}

/// Compiles the host programs of `program` and the functions that are `wanted` to a library.
/// Returns `None` if too few others are left to defer.
///
/// # Errors
/// As [`crate::compile`].
pub fn compile_first(
    program: &Arc<Program>,
    targets: &Compilation,
    options: &Options,
    wanted: &BTreeSet<Arc<str>>,
) -> Result<Option<(Compiled, Deferred)>, Error> {
    check(targets)?;
    let kernels = program.module.functions.iter().filter(|f| is_kernel_code(f));
    let (first, deferred): (Vec<&Function>, Vec<&Function>) = kernels.partition(|function| wanted.contains(&function.name));
    if !targets.device().is_cpu() || ops_of(&deferred) < LEAST_DEFERRED {
        return Ok(None);
    }
    let entries: Vec<&Function> = program.module.functions.iter().filter(|f| f.kind == FunctionKind::Host).collect();
    let share = ops_of(&deferred) as f64 / ops_of(&first).max(1) as f64;
    let modules = in_modules(first, options.threads);
    let host = Batch { functions: &entries, target: targets.host(), codegen: Codegen::Fast, versioned: true };
    let batches: Vec<Batch<'_>> = [host].into_iter().chain(modules.iter().map(|part| kernel_batch(targets, part))).collect();
    let objects = in_parallel(batches.len() + 1, options.threads, |i| match batches.get(i) {
        Some(batch) => object(program, batch),
        None => stubs(program, targets, &deferred),
    })?;
    let (compiled, mut objects) = linked(targets, objects)?;
    // The whole library has functions in place of the stubs.
    objects.pop();
    let (timings, bytes) = (&compiled.timings, compiled.bytes.len());
    tracing::debug!(?timings, bytes, deferred = deferred.len(), "compiled the first part of a program");
    let part = |functions: Vec<&Function>| Part {
        names: functions.iter().map(|function| function.name.clone()).collect(),
        object: ArcSwapOption::empty(),
        taken_by: AtomicU32::new(0),
    };
    let deferred = Deferred {
        program: Arc::clone(program),
        targets: targets.clone(),
        first: objects,
        share,
        names: deferred.iter().map(|function| function.name.clone()).collect(),
        modules: in_modules(deferred, 1).into_iter().map(part).collect(),
    };
    Ok(Some((compiled, deferred)))
}

impl Deferred {
    /// Returns the number of deferred functions.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns about how much longer code generation of these functions takes than that of the
    /// others.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Returns true if no function is deferred.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Compiles what no thread of this process compiles yet, until nothing is left or `stops` says
    /// so.
    ///
    /// # Errors
    /// As [`crate::compile`].
    pub fn work(&self, stops: &dyn Fn() -> bool) -> Result<(), Error> {
        for part in &self.modules {
            if stops() {
                break;
            }
            let process = process::id();
            if part.object.load().is_none() && part.taken_by.swap(process, Relaxed) != process {
                let functions = self.functions(&part.names);
                let (object, ..) = object(&self.program, &kernel_batch(&self.targets, &functions))?;
                part.object.store(Some(Arc::new(object)));
            }
        }
        Ok(())
    }

    /// Returns true once every function is compiled.
    pub fn is_done(&self) -> bool {
        self.modules.iter().all(|part| part.object.load().is_some())
    }

    /// Links the whole library, with a table of the deferred functions.
    ///
    /// # Errors
    /// A failure of LLVM or of the linker.
    ///
    /// # Panics
    /// If it is not done.
    pub fn link(&self) -> Result<Vec<u8>, Error> {
        let deferred = self.modules.iter().map(|part| part.object.load_full().expect("every part is compiled"));
        let table = in_context(|context| {
            let machine = Machine::new(self.targets.host(), Codegen::Fast)?;
            let emit = open(context, &machine, self.targets.host());
            lower_table(&emit, &self.program.module, &self.functions(&self.names))?;
            machine.object(emit.module)
        })?;
        let objects: Vec<Object> =
            self.first.iter().cloned().chain(deferred.map(|object| (*object).clone())).chain([table]).collect();
        link(self.targets.host(), &objects)
    }

    fn functions(&self, names: &[Arc<str>]) -> Vec<&Function> {
        names.iter().filter_map(|name| self.program.module.function(name)).collect()
    }
}

fn kernel_batch<'p>(targets: &'p Compilation, functions: &'p [&'p Function]) -> Batch<'p> {
    Batch { functions, target: targets.device(), codegen: Codegen::Less, versioned: false }
}

fn stubs(program: &Program, targets: &Compilation, functions: &[&Function]) -> Result<TimedObject, Error> {
    in_context(|context| {
        let start = Instant::now();
        let machine = Machine::new(targets.device(), Codegen::Fast)?;
        let emit = open(context, &machine, targets.device());
        lower_stubs(&emit, &program.module, functions)?;
        let lowered = start.elapsed();
        Ok((machine.object(emit.module)?, lowered, start.elapsed() - lowered))
    })
}

fn ops_of(functions: &[&Function]) -> usize {
    functions.iter().map(|function| function.inst_count()).sum()
}

/// Distributes functions over LLVM modules of about equal work, at least as many as `threads`.
fn in_modules(mut functions: Vec<&Function>, threads: usize) -> Vec<Vec<&Function>> {
    let count = ops_of(&functions).div_ceil(MODULE).max(threads).min(functions.len());
    functions.sort_by_key(|function| std::cmp::Reverse(function.inst_count()));
    let mut modules: Vec<(usize, Vec<&Function>)> = vec![(0, Vec::new()); count];
    for function in functions {
        let least = modules.iter_mut().min_by_key(|(ops, _)| *ops).expect("there are functions, so modules");
        least.0 += function.inst_count();
        least.1.push(function);
    }
    modules.into_iter().map(|(_, functions)| functions).collect()
}
