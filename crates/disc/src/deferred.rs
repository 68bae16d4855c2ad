//! Compiles the functions that a first call did not run, while calls are served: after the first
//! call on the background thread, at once where a call waits for one of them.
//!
//! Invariants:
//! - the same call gives the same bits before and after: the functions are those of a compilation
//!   in one part, and a call that needs one that is not there waits for it;
//! - a forked child compiles for itself what its parent had not ended;
//! - code that the cache keeps is finished before the process exits, within [`PATIENCE`]; other
//!   code is left.
use crate::{
    Artifact, Error, Options, Report,
    cache::{self, Key, Outcome},
    compile::{Made, guarded},
    tier::background,
};
use arc_swap::ArcSwapOption;
use disc_ral::{Code, Library, ModuleMeta};
use std::{
    fmt, process,
    sync::{
        Arc, Mutex, MutexGuard, TryLockError, Weak,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

/// Time at the exit of a process for code that the cache keeps.
const PATIENCE: Duration = Duration::from_secs(5);
/// Deep enough for the recursion of LLVM's passes.
const STACK: usize = 16 << 20;
/// A thread that waits for another one looks this often.
const POLL: Duration = Duration::from_micros(500);

/// Code that the cache will keep, by its key, and the process that compiles it.
static PENDING: Mutex<Vec<Pending>> = Mutex::new(Vec::new());
type Pending = (Key, u32, Weak<Deferred>);

/// The functions of an artifact that its first library lacks.
pub(crate) struct Deferred {
    own: Weak<Self>,
    /// Dropped when they are compiled.
    functions: ArcSwapOption<disc_llvm::Deferred>,
    meta: Arc<ModuleMeta>,
    /// The whole code as bytes and as it is called, or the reason why there is none.
    whole: ArcSwapOption<Result<Whole, Error>>,
    /// The process of which a thread links, or 0.
    linked_by: AtomicU32,
    /// The process whose background thread compiles, or 0.
    submitted_by: AtomicU32,
    /// `None` if the cache does not take the code, or has it.
    entry: ArcSwapOption<Entry>,
}

struct Whole {
    bytes: Arc<[u8]>,
    code: Arc<Code>,
}

/// An entry of the cache that waits for the whole code.
pub(crate) struct Entry {
    pub(crate) text: String,
    pub(crate) options: Options,
    pub(crate) artifact: Artifact,
    pub(crate) made: Made,
}

impl Deferred {
    pub(crate) fn new(functions: disc_llvm::Deferred, meta: Arc<ModuleMeta>) -> Arc<Self> {
        Arc::new_cyclic(|own| Self {
            own: own.clone(),
            functions: ArcSwapOption::from_pointee(functions),
            meta,
            whole: ArcSwapOption::empty(),
            linked_by: AtomicU32::new(0),
            submitted_by: AtomicU32::new(0),
            entry: ArcSwapOption::empty(),
        })
    }

    /// Stores the whole code in the cache when it is there.
    pub(crate) fn keep(&self, mut entry: Entry) {
        // The lines are those of one program; another one with this code has its own.
        Arc::make_mut(&mut entry.artifact.meta).lines.clear();
        if let (Some(key), Some(mut pending)) = (entry.artifact.key, lock_pending()) {
            pending.retain(|(.., deferred)| deferred.strong_count() > 0);
            pending.push((key, process::id(), self.own.clone()));
        }
        self.entry.store(Some(Arc::new(entry)));
    }

    /// Returns the whole code as bytes: waits for it.
    pub(crate) fn bytes(&self) -> Result<Arc<[u8]>, Error> {
        match &*self.finished() {
            Ok(whole) => Ok(Arc::clone(&whole.bytes)),
            Err(error) => Err(error.clone()),
        }
    }

    /// As [`disc_llvm::Deferred::share`].
    pub(crate) fn share(&self) -> f64 {
        self.functions.load().as_ref().map_or(0.0, |functions| functions.share())
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole.load().is_some()
    }

    /// Compiles on this thread what no other one compiles, then ends if that was all.
    fn work(&self, stops: &dyn Fn() -> bool) {
        let Some(functions) = self.functions.load_full() else { return };
        match guarded(|| Ok(functions.work(stops)?)) {
            Err(error) => self.end(Err(error)),
            Ok(()) if functions.is_done() && self.linked_by.swap(process::id(), Relaxed) != process::id() => {
                self.end(guarded(|| self.link(&functions)));
                self.store();
            }
            Ok(()) => {}
        }
    }

    fn end(&self, whole: Result<Whole, Error>) {
        if whole.is_err() {
            self.entry.store(None);
        }
        self.whole.store(Some(Arc::new(whole)));
        self.functions.store(None);
    }

    /// Stores the whole code in the cache.
    fn store(&self) {
        let whole = self.whole.load_full();
        if let (Some(Ok(whole)), Some(entry)) = (whole.as_deref(), self.entry.load_full()) {
            let artifact = Artifact { code: Arc::clone(&whole.bytes), ..entry.artifact.clone() };
            cache::keep(&entry.text, &entry.options, &artifact, &entry.made);
            self.entry.store(None);
        }
    }

    fn link(&self, functions: &disc_llvm::Deferred) -> Result<Whole, Error> {
        let began = Instant::now();
        let bytes = functions.link()?;
        // SAFETY: the code was made by this compiler for this metadata, and nobody can change it.
        let library = Arc::new(unsafe { Library::load(&bytes)? });
        let code = Arc::new(Code::from_library(library, &self.meta)?);
        let milliseconds = began.elapsed().as_millis() as u64;
        tracing::info!(functions = functions.len(), milliseconds, "deferred functions are compiled");
        Ok(Whole { bytes: bytes.into(), code })
    }

    /// Waits for the outcome: compiles beside the background thread, with the caller's priority, on
    /// a thread whose stack is deep enough.
    fn finished(&self) -> Arc<Result<Whole, Error>> {
        if !self.is_whole() {
            let helped = thread::scope(|scope| helper().spawn_scoped(scope, || self.work(&|| false)).is_ok());
            if !helped {
                self.work(&|| false);
            }
        }
        // Other threads of this process compile the parts that are left; the last one links.
        loop {
            match self.whole.load_full() {
                Some(whole) => return whole,
                None => thread::sleep(POLL),
            }
        }
    }
}

/// Takes the lock for a moment. Returns `None` where nobody releases it: in a child that was forked
/// while another thread had it.
fn lock_pending() -> Option<MutexGuard<'static, Vec<Pending>>> {
    for _ in 0..100 {
        match PENDING.try_lock() {
            Ok(pending) => return Some(pending),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => thread::sleep(POLL),
        }
    }
    None
}

/// Returns code that this process has compiled in part, and that the cache of `options` will keep.
pub(crate) fn pending(key: &Key, options: &Options) -> Option<(Artifact, Made)> {
    let pending = lock_pending()?;
    let deferred = pending.iter().filter(|(other, ..)| other == key).find_map(|(.., deferred)| {
        let deferred = deferred.upgrade()?;
        let is_kept_there = deferred.entry.load().as_ref().is_some_and(|entry| entry.options.cache == options.cache);
        is_kept_there.then_some(deferred)
    })?;
    let entry = deferred.entry.load_full()?;
    let report = Report { cache: Outcome::Hit, stages_ms: Vec::new(), passes_ms: Vec::new(), ..entry.artifact.report.clone() };
    Some((Artifact { deferred: Some(deferred), report, ..entry.artifact.clone() }, entry.made.clone()))
}

/// Compiles and stores the code that the cache will keep, before the process exits. It gives up
/// when `go_on` returns false, and after [`PATIENCE`].
pub fn finish(mut go_on: impl FnMut() -> bool) {
    let (began, is_given_up) = (Instant::now(), AtomicBool::new(false));
    let stops = || began.elapsed() > PATIENCE || is_given_up.load(Relaxed);
    let pending = lock_pending().map_or_else(Vec::new, |mut pending| std::mem::take(&mut *pending));
    // A forked child leaves them to its parent.
    let own = pending.iter().filter(|(_, process, _)| *process == process::id());
    for deferred in own.filter_map(|(.., deferred)| deferred.upgrade()) {
        let is_open = || deferred.entry.load().is_some() && !matches!(deferred.whole.load().as_deref(), Some(Err(_)));
        thread::scope(|scope| {
            let _ = helper().spawn_scoped(scope, || deferred.work(&stops));
            while is_open() && !stops() && go_on() {
                thread::sleep(POLL);
            }
            if is_open() {
                is_given_up.store(true, Relaxed);
                // The background thread ends with what it is at, too.
                deferred.entry.store(None);
            }
        });
    }
}

fn helper() -> thread::Builder {
    thread::Builder::new().name("disc-deferred".into()).stack_size(STACK)
}

impl fmt::Debug for Deferred {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Deferred").field("is_whole", &self.is_whole()).finish_non_exhaustive()
    }
}

impl disc_ral::Deferred for Deferred {
    fn start(&self) {
        if self.is_whole() || self.submitted_by.swap(process::id(), Relaxed) == process::id() {
            return;
        }
        let Some(own) = self.own.upgrade() else { return };
        let job = move || {
            let stops = || match background::stops_since() {
                None => false,
                Some(time) => own.entry.load().is_none() || time.elapsed() > PATIENCE,
            };
            own.work(&stops);
        };
        if !background::submit(Box::new(job)) {
            self.submitted_by.store(0, Relaxed);
        }
    }

    fn whole(&self) -> Option<Result<Arc<Code>, String>> {
        let whole = self.whole.load();
        whole.as_ref().map(|whole| as_runtime(whole))
    }

    fn finish(&self) -> Result<Arc<Code>, String> {
        as_runtime(&self.finished())
    }
}

fn as_runtime(whole: &Result<Whole, Error>) -> Result<Arc<Code>, String> {
    match whole {
        Ok(whole) => Ok(Arc::clone(&whole.code)),
        Err(error) => Err(error.to_string()),
    }
}
