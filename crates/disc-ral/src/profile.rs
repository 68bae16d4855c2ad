//! Times single launches, for profiles and traces. Off by default: a launch then costs one branch
//! more, and a call the comparison of a level.

use crate::{
    device::{Launch, LaunchFailure, Threads},
    kernel_names::{KernelNames, Known},
    meta::EntryMeta,
    session_state::SessionState,
    tensor::TensorRef,
};
use std::{sync::Arc, time::Instant};
use tracing::{Level, Span, field, span::EnteredSpan};

/// The target of the spans and events of `tracing` about calls and their kernels, which have the
/// level `TRACE`: a span `call` (`entry`, `sizes`), in it a span `kernel` for each launch (`name`,
/// `units`), and in that an event (`nanoseconds`, `threads`, `estimated`).
///
/// ```
/// use tracing_subscriber::{filter::Targets, layer::SubscriberExt, util::SubscriberInitExt};
///
/// let kernels = Targets::new().with_target(disc_ral::TRACE, tracing::Level::TRACE);
/// tracing_subscriber::registry().with(kernels).with(tracing_subscriber::fmt::layer()).init();
/// ```
pub const TRACE: &str = "disc::kernel";

/// One launch of a profiled session, in the order in which they happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchRecord {
    /// Address of the kernel's handle, on a CPU of its code: equal for launches of one kernel.
    pub kernel: usize,
    /// The name of the kernel: its group, the kind of group, and the version that was chosen for
    /// the sizes of the call, as `k3_reduction_split`. `None` for code of versions of disc that
    /// kept no names.
    pub name: Option<Arc<str>>,
    /// The modules of the model whose weights the kernel reads, as in
    /// [`ModuleMeta::sources`](crate::ModuleMeta::sources).
    pub sources: Arc<[String]>,
    /// The lines of the model that it computes, as in
    /// [`ModuleMeta::lines`](crate::ModuleMeta::lines).
    pub lines: Arc<[String]>,
    /// Units of work of the launch.
    pub units: i64,
    /// Estimated nanoseconds on one thread.
    pub cost: i64,
    /// Threads that took part.
    pub threads: u32,
    /// The moment of the launch.
    pub start: Instant,
    /// The time of the launch.
    pub nanoseconds: u64,
    /// A library computed the GEMM of this kernel; the epilogue has a record of its own.
    pub by_library: bool,
}

impl LaunchRecord {
    /// Returns the name, for people: it says if a library did the work.
    pub fn title(&self) -> String {
        title(self.name.as_deref(), self.by_library)
    }
}

fn title(name: Option<&str>, by_library: bool) -> String {
    let name = name.unwrap_or("kernel");
    if by_library { format!("{name} by the library") } else { name.to_owned() }
}

/// Names the kernels of launches for people; those of packages that older versions wrote have no
/// names, and get numbers.
#[derive(Default)]
pub struct LaunchNames {
    unnamed: Vec<usize>,
}

impl LaunchNames {
    /// Returns the name, as [`LaunchRecord::title`], with a number if the kernel has none.
    pub fn of(&mut self, launch: &LaunchRecord) -> String {
        match &launch.name {
            Some(_) => launch.title(),
            None => title(Some(&self.number(launch.kernel)), launch.by_library),
        }
    }

    fn number(&mut self, kernel: usize) -> String {
        let at = self.unnamed.iter().position(|&known| known == kernel).unwrap_or_else(|| {
            self.unnamed.push(kernel);
            self.unnamed.len() - 1
        });
        format!("kernel{at}")
    }
}

/// Is called around each launch of a session, on the thread of the call.
pub trait LaunchObserver: Send {
    /// A kernel begins, of this name ([`LaunchRecord::title`]).
    fn begin(&mut self, name: &str);

    /// It has ended, or failed.
    fn end(&mut self);
}

/// The launches of a session, and who wants to see them happen.
#[derive(Default)]
pub(crate) struct Profile {
    pub(crate) records: Vec<LaunchRecord>,
    observer: Option<Box<dyn LaunchObserver>>,
    /// Nobody asked for the records: the call is traced.
    is_passing: bool,
}

impl Profile {
    pub(crate) fn observed(observer: Box<dyn LaunchObserver>) -> Self {
        Self { observer: Some(observer), ..Self::default() }
    }

    /// Runs a launch and records it. `run` returns when the kernel has finished: the number of
    /// threads, or `None` if nothing was done after all.
    #[cold]
    #[inline(never)]
    pub(crate) fn record(
        &mut self,
        launch: &Launch,
        names: &KernelNames,
        by_library: bool,
        run: impl FnOnce() -> Result<Option<Threads>, LaunchFailure>,
    ) -> Result<Option<Threads>, LaunchFailure> {
        let kernel = launch.kernel.address();
        let Known { name, sources, lines } = names.get(kernel);
        let shown = title(name.as_deref(), by_library);
        let (units, cost) = (launch.units, launch.cost);
        let span = tracing::trace_span!(target: TRACE, "kernel", name = shown, units).entered();
        if let Some(observer) = &mut self.observer {
            observer.begin(&shown);
        }
        let start = Instant::now();
        let result = run();
        let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if let Some(observer) = &mut self.observer {
            observer.end();
        }
        if let Ok(Some(threads)) = result {
            tracing::trace!(target: TRACE, nanoseconds, threads, estimated = cost, "launched");
            if !self.is_passing {
                self.records.push(LaunchRecord {
                    kernel,
                    name,
                    sources,
                    lines,
                    units,
                    cost,
                    threads,
                    start,
                    nanoseconds,
                    by_library,
                });
            }
        }
        drop(span);
        result
    }
}

/// Returns true if a subscriber of `tracing` wants to know about calls and kernels. The level is
/// compared first: without such a subscriber in the process that is all.
pub(crate) fn is_traced() -> bool {
    tracing::enabled!(target: TRACE, Level::TRACE)
}

/// The span of a call.
pub(crate) struct Traced {
    span: EnteredSpan,
    is_passing: bool,
}

impl Traced {
    /// Begins a call; its launches are seen from now on.
    pub(crate) fn call(session: &mut SessionState, entry: &EntryMeta, inputs: &[TensorRef<'_>]) -> Self {
        let is_passing = session.profile.is_none();
        if is_passing {
            session.profile = Some(Box::new(Profile { is_passing, ..Profile::default() }));
        }
        let span = tracing::trace_span!(target: TRACE, "call", entry = entry.name, sizes = field::Empty);
        record_sizes(&span, entry, inputs);
        Self { span: span.entered(), is_passing }
    }

    pub(crate) fn end(self, session: &mut SessionState) {
        drop(self.span);
        if self.is_passing {
            session.profile = None;
        }
    }
}

fn record_sizes(span: &Span, entry: &EntryMeta, inputs: &[TensorRef<'_>]) {
    if span.is_disabled() {
        return;
    }
    let sizes: Vec<String> = entry.sizes_of(inputs).map(|(dim, size)| format!("{dim}={size}")).collect();
    span.record("sizes", sizes.join(" "));
}
