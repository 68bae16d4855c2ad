//! Compiles a module to machine code.
use crate::{
    Error, Executable, Options, Report, Specialize, VariantReport,
    cache::{self, Key, Outcome},
    deferred::{Deferred, Entry},
    dump::{Dump, with_lines},
    library,
    meta::{describe, drop_unread, grids, lines_of},
    stages::{pass_options, program, start, targets},
    weights::{Constants, by_name, weights_by_name},
};
use disc_codegen::{
    host::{Program, reached},
    target::{Compilation, Target, TargetError},
};
use disc_ir::{
    Function, FunctionKind, Lines, Module, OpKind, Origin,
    graph::PREPARE,
    ops::Stage,
    text::{number_ops, split_lines},
};
use disc_passes::{options::Options as PassOptions, pass::PassManager, pipeline};
use disc_ral::{Image, Library, ModuleMeta, Prepared, Weight, WeightState};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Instant,
};

/// Machine code and the metadata that the runtime needs.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// A shared object for [`Report::target`]: the first one, if functions are deferred.
    pub(crate) code: Arc<[u8]>,
    /// The functions that the code lacks; `None` if it is whole.
    pub(crate) deferred: Option<Arc<Deferred>>,
    /// That of the code in the cache; `None` if the cache does not take it.
    pub(crate) key: Option<Key>,
    /// The kernels for a device that is no CPU.
    pub image: Option<Image>,
    pub meta: Arc<ModuleMeta>,
    pub report: Report,
    pub(crate) constants: Arc<Constants>,
    pub(crate) origins: Arc<Origins>,
    pub(crate) targets: Compilation,
    /// The source of specialised versions; `None` if there will be none.
    pub(crate) source: Option<Source>,
}

/// By the group of kernels, the ops of the source program that they compute.
pub(crate) type Origins = BTreeMap<String, BTreeSet<Origin>>;

/// The original program, and the recipes of its prepared weights.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) module: Arc<Module>,
    pub(crate) recipes: Recipes,
    /// Milliseconds that the compilation took, in any process: a version is worth about as much.
    pub(crate) spent_ms: f64,
}

/// Names of prepared weights by recipe: the text of the ops that prepare them.
pub(crate) type Recipes = Arc<HashMap<String, Arc<str>>>;

/// Data of a compilation besides its code.
#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The recipes of the prepared weights.
    pub(crate) recipes: Recipes,
    /// Milliseconds that it took.
    pub(crate) spent_ms: f64,
}

/// Parses a module and verifies it.
///
/// # Errors
/// Diagnostics with positions in the text.
pub fn parse(text: &str) -> Result<Module, Error> {
    let module = disc_ir::text::parse(text)?;
    disc_ir::verify::verify(&module, Stage::Tensor)?;
    Ok(module)
}

/// Compiles a module from its current stage: any but the last.
///
/// # Errors
/// A program that is not well formed, a target or a device that does not exist, or a failure of the
/// compiler.
pub fn compile(module: Module, options: &Options) -> Result<Artifact, Error> {
    compile_first(module, options, None)
}

/// Compiles a module for a first call whose inputs have these sizes: functions that the call does
/// not run may be compiled later, while calls are served.
///
/// # Errors
/// As [`compile`].
pub fn compile_first(mut module: Module, options: &Options, first: Option<&[Vec<i64>]>) -> Result<Artifact, Error> {
    guarded(|| {
        options.check()?;
        // Only the cache needs the text.
        let text = if options.cache.is_some() { number_ops(&mut module) } else { String::new() };
        match cache::find(&text, options, &targets(options)?, first.is_some()) {
            Ok((artifact, made)) => {
                Ok(with_source(artifact.with_lines(Some(&module.lines)), made, keeps_source(&module, options)?.then_some(module)))
            }
            Err(asked) => compile_as(module, &text, asked, options, first),
        }
    })
}

/// Compiles a module from its text, which is not parsed if the cache knows it.
///
/// # Errors
/// As [`parse`] and [`compile`].
pub fn compile_text(text: &str, options: &Options) -> Result<Artifact, Error> {
    compile_text_first(text, options, None)
}

/// Compiles a module from its text, for a first call as [`compile_first`] does.
///
/// # Errors
/// As [`parse`] and [`compile`].
pub fn compile_text_first(text: &str, options: &Options, first: Option<&[Vec<i64>]>) -> Result<Artifact, Error> {
    guarded(|| {
        options.check()?;
        let asks = options.cache.is_some() && options.specialization()? == Specialize::Off;
        // The cache knows the text that a module prints as, without lines of the model.
        let split = asks.then(|| split_lines(text)).flatten();
        let (plain, lines) = split.as_ref().map_or((text, None), |(plain, lines)| (plain.as_str(), Some(lines)));
        match asks.then(|| Ok::<_, Error>(cache::find(plain, options, &targets(options)?, first.is_some()))).transpose()? {
            Some(Ok((artifact, _))) => Ok(artifact.with_lines(lines)),
            Some(Err(asked)) => compile_asked(parse(text)?, plain, asked, options, first),
            None => compile_first(parse(text)?, options, first),
        }
    })
}

/// Compiles a module whose text missed in the cache: asks it again only if the module prints
/// differently.
fn compile_asked(
    mut module: Module,
    asked_for: &str,
    asked: Outcome,
    options: &Options,
    first: Option<&[Vec<i64>]>,
) -> Result<Artifact, Error> {
    if asked == Outcome::Miss && number_ops(&mut module) != asked_for {
        return compile_first(module, options, first);
    }
    compile_as(module, asked_for, asked, options, first)
}

/// Returns true if shape-specialised versions of the module may be compiled later.
fn keeps_source(module: &Module, options: &Options) -> Result<bool, Error> {
    // A version is compiled and tried for the host's processors only.
    let is_host = options.is_host();
    Ok(is_host && start(module)? == Stage::Tensor && options.specialization()? != Specialize::Off)
}

fn with_source(mut artifact: Artifact, made: Made, module: Option<Module>) -> Artifact {
    let Made { recipes, spent_ms } = made;
    artifact.source = module.map(|module| Source { module: Arc::new(module), recipes, spent_ms });
    artifact
}

/// Compiles a module that the cache does not have, and stores the code if the lookup was a miss.
fn compile_as(
    module: Module,
    text: &str,
    asked: Outcome,
    options: &Options,
    first: Option<&[Vec<i64>]>,
) -> Result<Artifact, Error> {
    let source = keeps_source(&module, options)?.then(|| module.clone());
    let (mut artifact, recipes) = compile_inner(module, options, None, first)?;
    artifact.report.cache = asked;
    artifact.key = cache::key(text, options, &artifact.targets);
    let made = Made { recipes, spent_ms: spent_ms(&artifact) };
    match &artifact.deferred {
        _ if asked != Outcome::Miss => {}
        None => cache::keep(text, options, &artifact, &made),
        Some(deferred) => deferred.keep(Entry {
            text: text.to_owned(),
            options: options.clone(),
            artifact: Artifact { deferred: None, ..artifact.clone() },
            made: made.clone(),
        }),
    }
    Ok(with_source(artifact, made, source))
}

/// Returns the milliseconds that the compilation of all functions takes: deferred ones take as long
/// as others.
fn spent_ms(artifact: &Artifact) -> f64 {
    let share = artifact.deferred.as_ref().map_or(0.0, |deferred| deferred.share());
    let ms = |(name, ms): &(String, f64)| if name == "codegen" { ms * (1.0 + share) } else { *ms };
    artifact.report.stages_ms.iter().map(ms).sum()
}

/// Compiles a module. Its prepared weights are not prepared again if they match one of these
/// recipes.
pub(crate) fn compile_sharing(module: Module, ready: Recipes, options: &Options) -> Result<Artifact, Error> {
    Ok(compile_inner(module, options, Some(ready), None)?.0)
}

/// Runs compiler code: a panic in it is a failure of the compiler, not of the process.
pub(crate) fn guarded<T>(run: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        Err(Error::compile(format!("the compiler failed: {}", text.unwrap_or("a panic without a message"))))
    })
}

fn compile_inner(
    mut module: Module,
    options: &Options,
    ready: Option<Recipes>,
    first: Option<&[Vec<i64>]>,
) -> Result<(Artifact, Recipes), Error> {
    let began = Instant::now();
    let targets = targets(options)?;
    // A missing library is reported before any work is done.
    let choices = library::choices(options, &targets)?;
    let mut dump = Dump::new(options)?;
    let mut report = Report { target: targets.to_string(), dims: signature(&module), ..Report::default() };
    dump.write("input.disc", || with_lines(&module))?;
    let is_shared = ready.is_some();
    let recipes = run_passes(&mut module, options, ready.unwrap_or_default(), &mut dump, &mut report)?;
    if is_shared {
        drop_unread(&mut module);
    }
    let time = Instant::now();
    let program = Arc::new(program(module, &targets, choices)?);
    let lowered = time.elapsed();
    dump.program(&program, &targets)?;
    let time = Instant::now();
    let llvm = disc_llvm::Options { threads: compile_threads(options) };
    let (compiled, deferred) = code(&program, &targets, &llvm, first)?;
    report.stage("codegen", lowered + time.elapsed().saturating_sub(compiled.timings.link));
    report.stage("link", compiled.timings.link);
    report.code_bytes = compiled.bytes.len();
    count_kernels(&program, &mut report);
    let constants =
        program.module.weights.iter().filter_map(|w| w.data.as_ref().map(|data| (w.name.to_string(), data.bytes.clone())));
    let meta = Arc::new(describe(&program));
    report.deferred = deferred.as_ref().map_or(0, disc_llvm::Deferred::len);
    let artifact = Artifact {
        code: compiled.bytes.into(),
        deferred: deferred.map(|functions| Deferred::new(functions, Arc::clone(&meta))),
        key: None,
        image: image(&program, &targets)?,
        meta,
        report,
        constants: Arc::new(constants.collect()),
        origins: Arc::new(program.origins.clone()),
        targets,
        source: None,
    };
    let Report { kernels, versions, code_bytes, .. } = artifact.report;
    tracing::info!(kernels, versions, code_bytes, milliseconds = began.elapsed().as_millis() as u64, "a program is compiled");
    Ok((artifact, recipes))
}

/// Generates the code of a program, or of the part of it that a first call runs.
fn code(
    program: &Arc<Program>,
    targets: &Compilation,
    llvm: &disc_llvm::Options,
    first: Option<&[Vec<i64>]>,
) -> Result<(disc_llvm::Compiled, Option<disc_llvm::Deferred>), Error> {
    let entry =
        program.module.functions.iter().find(|function| function.kind == FunctionKind::Host && &*function.name != PREPARE);
    // A prediction that fails costs time and nothing else.
    let predict = |(sizes, entry): (&[Vec<i64>], &Function)| guarded(|| Ok(reached(&program.module, &entry.name, sizes))).ok()?;
    let wanted = first.zip(entry).and_then(predict);
    if let Some(wanted) = wanted
        && let Some((compiled, deferred)) = disc_llvm::compile_first(program, targets, llvm, &wanted)?
    {
        return Ok((compiled, Some(deferred)));
    }
    Ok((disc_llvm::compile(program, targets, llvm)?, None))
}

/// Returns the kernels of a program in the form that the device loads: PTX, or for an interpreter
/// their text.
fn image(program: &Program, targets: &Compilation) -> Result<Option<Image>, Error> {
    if targets.device().is_cpu() {
        return Ok(None);
    }
    let module = &program.module;
    let on_device = |function: &&Function| matches!(function.kind, FunctionKind::Kernel | FunctionKind::Routine);
    let functions: Vec<Function> = module.functions.iter().filter(on_device).cloned().collect();
    let kernels = grids(module).map(|kernel| kernel.name.clone()).collect();
    let text = match targets.device() {
        Target::Nvptx { .. } => disc_llvm::ptx(program, targets)?,
        _ => Module { functions, ..Module::default() }.to_string(),
    };
    Ok(Some(Image { target: targets.device().to_string(), code: text.into_bytes().into(), kernels }))
}

/// Runs the passes from the module's stage to buffers. Returns the recipes of prepared weights.
fn run_passes(
    module: &mut Module,
    options: &Options,
    ready: Recipes,
    dump: &mut Dump,
    report: &mut Report,
) -> Result<Recipes, Error> {
    let time = Instant::now();
    let stage = start(module)?;
    disc_ir::verify::verify(module, stage)?;
    let mut manager = PassManager::new(PassOptions { ready, ..pass_options(options)? });
    manager.dump = dump.is_wanted().then_some(with_lines as fn(&Module) -> String);
    pipeline::run(module, stage, Stage::Buffer, &mut manager)?;
    report.passes_ms = manager.records.iter().map(|r| (r.name.to_owned(), r.time.as_secs_f64() * 1e3)).collect();
    report.stage("passes", time.elapsed());
    for record in manager.records {
        dump.write(&format!("{}.disc", record.name), || record.dump.unwrap_or_default())?;
    }
    Ok(Arc::new(manager.cx.recipes))
}

/// Counts the launches of one call, and the kernels by kind; code that runs once per load is
/// excluded.
fn count_kernels(program: &Program, report: &mut Report) {
    let functions = &program.module.functions;
    let is_variant = |name: &str| program.module.function(name).is_some_and(|function| function.variant_of.is_some());
    let (variants, entries): (Vec<_>, Vec<_>) = program.launches.iter().partition(|(name, _)| is_variant(name));
    let calls = entries.into_iter().filter(|(entry, _)| &**entry != PREPARE);
    for (kind, count) in calls.flat_map(|(_, counts)| counts) {
        *report.kernels_by_kind.entry(kind.name().into()).or_default() += count;
    }
    report.kernels = report.kernels_by_kind.values().sum();
    for (name, counts) in variants {
        let variant = functions.iter().find(|function| function.name == *name);
        let entry = variant.and_then(|variant| program.module.function(variant.variant_of.as_ref()?));
        let guard = variant.zip(entry).map_or(Vec::new(), |(variant, entry)| variant.guard(entry));
        let when: Vec<String> = guard.iter().map(ToString::to_string).collect();
        report.variants.push(VariantReport { when: when.join(", "), kernels: counts.values().sum() });
    }
    report.syncs = functions.iter().filter(|f| f.variant_of.is_none() && &*f.name != PREPARE).map(fetches).sum();
    report.versions = functions.iter().filter(|f| f.kind == FunctionKind::Kernel).count();
    report.notes.clone_from(&program.notes);
}

/// Counts the reads of a device's memory in a host program.
fn fetches(function: &Function) -> usize {
    function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::Fetch).count()
}

/// Compilation uses as many threads as a call may.
fn compile_threads(options: &Options) -> usize {
    options.threads.unwrap_or_else(disc_ral::default_threads).max(1)
}

/// Formats the entry's parameters, results and facts.
fn signature(module: &Module) -> String {
    let Some(entry) = module.functions.iter().find(|f| &*f.name != PREPARE) else { return String::new() };
    let list = |types: Vec<String>| types.join(", ");
    let parameters = entry.parameters().iter().map(|&p| match entry.name_of(p) {
        Some(name) => format!("{name}: {}", entry.ty(p)),
        None => entry.ty(p).to_string(),
    });
    let results = entry.results.iter().map(ToString::to_string);
    let facts = list(entry.facts.iter().map(|f| f.to_string()).collect());
    let facts = if facts.is_empty() { facts } else { format!(" where {facts}") };
    format!("({}) -> ({}){facts}", list(parameters.collect()), list(results.collect()))
}

impl Artifact {
    /// Returns the artifact of the cache with the lines of the program at hand: the code does not
    /// depend on them.
    fn with_lines(mut self, lines: Option<&Lines>) -> Self {
        if let Some(lines) = lines.filter(|lines| !lines.is_empty()) {
            Arc::make_mut(&mut self.meta).lines = lines_of(&self.origins, lines);
        }
        self
    }

    /// Loads the code into this process, with the model's weights by name; the program's own
    /// constants come from the artifact.
    ///
    /// # Errors
    /// A weight that is missing or of another type or shape, a device that is not there, a CPU that
    /// cannot run the code, or no memory for packed weights.
    pub fn load(&self, weights: Vec<(String, Weight)>, options: &Options) -> Result<Executable, Error> {
        guarded(|| {
            options.check()?;
            if options.pin_threads {
                disc_ral::pin_workers();
            }
            let library = self.library()?;
            let weights = weights_by_name(&self.meta, &self.constants, by_name(weights))?;
            let place = cache::Place::of(self, &weights, options);
            let found = place.as_ref().and_then(cache::Place::find);
            let is_found = found.is_some();
            let inner = self.executable(library, weights, options, found)?;
            let outcome = match &place {
                None => Outcome::Off,
                Some(_) if is_found => Outcome::Hit,
                Some(place) => {
                    place.keep(&inner.weight_state());
                    place.missed()
                }
            };
            Executable::new(inner, self, outcome, options)
        })
    }

    /// Takes functions in place of the artifact's code, such as some that have another machine run
    /// it, with weights as [`Artifact::load`] does. No versions are specialised for it.
    ///
    /// # Errors
    /// As [`Artifact::load`].
    pub fn load_code(
        &self,
        code: disc_ral::Code,
        weights: Vec<(String, Weight)>,
        options: &Options,
    ) -> Result<Executable, Error> {
        guarded(|| {
            let weights = weights_by_name(&self.meta, &self.constants, by_name(weights))?;
            let settings = disc_ral::ExecutableOptions { threads: options.threads, ..Default::default() };
            let inner = disc_ral::Executable::new(options.open_device()?, code, self.meta.clone(), weights, settings)?;
            Executable::new(inner, self, Outcome::Off, &Options { specialize: Specialize::Off, ..options.clone() })
        })
    }

    /// Loads the code of a specialised version, with the weights that the general code reads.
    pub(crate) fn load_sharing(&self, state: &WeightState, options: &Options) -> Result<disc_ral::Executable, Error> {
        self.executable(self.library()?, self.shared(state)?, options, None)
    }

    /// Returns the shared object for [`Report::target`], whole: waits for functions that are
    /// deferred.
    ///
    /// # Errors
    /// A failure of the compiler.
    pub fn code(&self) -> Result<Arc<[u8]>, Error> {
        self.deferred.as_ref().map_or_else(|| Ok(Arc::clone(&self.code)), |deferred| deferred.bytes())
    }

    /// Returns true unless functions are deferred that are not compiled yet.
    pub fn is_whole(&self) -> bool {
        self.deferred.as_ref().is_none_or(|deferred| deferred.is_whole())
    }

    fn library(&self) -> Result<Arc<Library>, Error> {
        self.targets.host().check_host().map_err(|e| Error::target(e.to_string()))?;
        // SAFETY: the code was made by this compiler for this metadata, and nobody can change it.
        Ok(Arc::new(unsafe { Library::load(&self.code)? }))
    }

    fn executable(
        &self,
        library: Arc<Library>,
        weights: Vec<Weight>,
        options: &Options,
        prepared: Option<Prepared>,
    ) -> Result<disc_ral::Executable, Error> {
        let mut code = disc_ral::Code::from_library(library, &self.meta)?;
        if let Some(deferred) = &self.deferred {
            let deferred: Arc<dyn disc_ral::Deferred> = deferred.clone();
            code = code.with_deferred(&deferred)?;
        }
        if let Some(image) = &self.image {
            if options.is_host() {
                let (target, device) = (image.target.to_string(), "cpu".to_owned());
                return Err(Error::target(TargetError::OtherDevice { target, device }.to_string()));
            }
            code = code.with_image(image.clone());
        }
        let gemm = library::gemm(options, &self.targets)?;
        let (release_weights, threads, waits) = (options.release_weights, options.threads, options.waits());
        let settings = disc_ral::ExecutableOptions { release_weights, threads, gemm, waits };
        let (device, meta) = (options.open_device()?, self.meta.clone());
        library::check_device(options, &*device)?;
        Ok(disc_ral::Executable::with_prepared(device, code, meta, weights, settings, prepared)?)
    }

    /// Returns the weights in the order of the metadata, out of those that the general code reads.
    pub(crate) fn shared(&self, state: &WeightState) -> Result<Vec<Weight>, Error> {
        weights_by_name(&self.meta, &self.constants, |meta| match self.constants.contains_key(&meta.name) {
            true => None,
            false => state.weight(&meta.name, meta.dtype, &meta.sizes),
        })
    }
}
