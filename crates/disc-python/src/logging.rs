//! Hands events of `tracing` to the loggers of Python: `disc.compile`, `disc.cache` and
//! `disc.runtime`.
//!
//! Events come from threads that do not hold the GIL and may hold locks, so none of them waits for
//! it: they are queued, and whoever holds the GIL in this module next delivers them. A compilation
//! does every 50 ms, and each call looks if there are some.
//!
//! Invariant: nothing is queued unless Python has a handler and a logger of this level.
use pyo3::{
    intern,
    prelude::*,
    types::{PyDict, PyTuple},
};
use std::{
    collections::VecDeque,
    fmt::{self, Write},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span,
    subscriber::Interest,
};
use tracing_subscriber::{
    Layer,
    layer::{Context, Filter},
    registry::{LookupSpan, Scope},
};

/// Events that wait at most; the oldest go first.
const MOST: usize = 10_000;

/// The level down to which Python wants events, as a number of its own: 0 for none.
static WANTED: AtomicU8 = AtomicU8::new(0);
static IS_WAITING: AtomicBool = AtomicBool::new(false);
static WAITING: Mutex<VecDeque<Entry>> = Mutex::new(VecDeque::new());

/// An event that Python has not seen yet.
struct Entry {
    logger: &'static str,
    level: u8,
    message: String,
    /// Seconds since the epoch.
    time: f64,
}

/// Starts to log to standard error, as `DISC_LOG` says, and to Python.
pub(crate) fn start(py: Python<'_>) {
    look(py);
    disc::log::start_with(Bridge.with_filter(Wanted), || WANTED.load(Ordering::Relaxed) != 0);
}

/// Asks Python which events it wants: the user may configure logging at any time.
pub(crate) fn look(py: Python<'_>) {
    let wanted = || -> PyResult<u8> {
        let logging = py.import(intern!(py, "logging"))?;
        let logger = |name: &str| logging.call_method1(intern!(py, "getLogger"), (name,));
        // Without a handler Python would print warnings itself, which we do already.
        if !logger("disc")?.call_method0(intern!(py, "hasHandlers"))?.extract::<bool>()? {
            return Ok(0);
        }
        let mut least = u8::MAX;
        for name in LOGGERS {
            let level: i64 = logger(name)?.call_method0(intern!(py, "getEffectiveLevel"))?.extract()?;
            least = least.min(u8::try_from(level).unwrap_or(u8::MAX).max(1));
        }
        Ok(if least > python_level(Level::ERROR) { 0 } else { least })
    };
    WANTED.store(wanted().unwrap_or(0), Ordering::Relaxed);
}

/// Hands over what waits. A handler that raises is Python's to report, not ours.
pub(crate) fn deliver(py: Python<'_>) {
    if !IS_WAITING.swap(false, Ordering::Relaxed) {
        return;
    }
    let entries = std::mem::take(&mut *waiting());
    for entry in entries {
        let _ = hand_over(py, entry);
    }
    look(py);
}

/// Returns true if `deliver` has something to do.
pub(crate) fn is_waiting() -> bool {
    IS_WAITING.load(Ordering::Relaxed)
}

fn waiting() -> std::sync::MutexGuard<'static, VecDeque<Entry>> {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hand_over(py: Python<'_>, entry: Entry) -> PyResult<()> {
    let logging = py.import(intern!(py, "logging"))?;
    let logger = logging.call_method1(intern!(py, "getLogger"), (entry.logger,))?;
    if !logger.call_method1(intern!(py, "isEnabledFor"), (entry.level,))?.extract::<bool>()? {
        return Ok(());
    }
    let empty = PyTuple::empty(py);
    let record = (entry.logger, entry.level, "(disc)", 0, entry.message, empty, py.None());
    let record = logger.call_method1(intern!(py, "makeRecord"), record)?;
    let times = record.getattr(intern!(py, "__dict__"))?.cast_into::<PyDict>()?;
    times.set_item("created", entry.time)?;
    times.set_item("msecs", entry.time.fract() * 1e3)?;
    logger.call_method1(intern!(py, "handle"), (record,))?;
    Ok(())
}

const LOGGERS: [&str; 3] = ["disc.compile", "disc.cache", "disc.runtime"];

/// Returns the logger of a part of disc.
fn logger(target: &str) -> &'static str {
    let [compile, cache, runtime] = LOGGERS;
    let parts = [("disc::cache", cache), ("disc::tier", runtime), ("disc::library", runtime), ("disc_ral", runtime)];
    parts.iter().find(|(part, _)| target.starts_with(part)).map_or(compile, |(_, logger)| logger)
}

fn python_level(level: Level) -> u8 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

/// Passes the events that Python wants. Python has no level for traces, and the spans of calls and
/// kernels would cost each call time.
struct Wanted;

impl Wanted {
    fn may_pass(metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("disc") && *metadata.level() <= Level::DEBUG
    }
}

impl<S> Filter<S> for Wanted {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        let wanted = WANTED.load(Ordering::Relaxed);
        // A span is context of the events in it, whatever its level.
        wanted != 0 && Self::may_pass(metadata) && (metadata.is_span() || python_level(*metadata.level()) >= wanted)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::may_pass(metadata) { Interest::sometimes() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::DEBUG)
    }
}

struct Bridge;

/// The fields of a span, as text.
struct Fields(String);

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Bridge {
    fn on_new_span(&self, attributes: &span::Attributes<'_>, id: &span::Id, context: Context<'_, S>) {
        let mut text = Text::default();
        attributes.record(&mut text);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Fields(text.0));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            let extensions = span.extensions();
            let fields = extensions.get::<Fields>().map_or("", |fields| &fields.0);
            let _ = write!(text.0, "{} {}: ", span.name(), fields.trim());
        }
        event.record(&mut text);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        let metadata = event.metadata();
        let entry = Entry {
            logger: logger(metadata.target()),
            level: python_level(*metadata.level()),
            message: text.0.trim_end().to_owned(),
            time,
        };
        let mut waiting = waiting();
        if waiting.len() >= MOST {
            waiting.pop_front();
        }
        waiting.push_back(entry);
        IS_WAITING.store(true, Ordering::Relaxed);
    }
}

/// Writes the message, then `name=value` for each other field.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?} "),
            name => write!(self.0, "{name}={value:?} "),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}
