//! The served model: the signature of its entry, and the requests that can run as one.

use crate::{datatype, error::Failure, options::ServeOptions};
use disc_ral::{Entry, Error, HostTensor, InputInfo, OpenOptions, OutputInfo, Package, Session, SessionOptions, code};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Joined runs that are compared with a separate run of each request.
const TRIALS: u32 = 3;

/// The one version of a model.
pub(crate) const VERSION: &str = "1";

pub(crate) struct Model {
    pub(crate) name: String,
    entry: String,
    package: Package,
    session: SessionOptions,
    /// Requests may be joined along their first axis.
    joins: AtomicBool,
    /// Joined runs that are still to be compared with a separate run of each request.
    trials: AtomicU32,
}

/// The sizes that requests must share to be joined: all but the first of each input.
pub(crate) type Key = Vec<Vec<i64>>;

impl Model {
    pub(crate) fn open(options: &ServeOptions) -> Result<Self, Error> {
        let mut open = OpenOptions { device: options.device.clone(), ..OpenOptions::default() };
        if let Some(key) = &options.require_signature {
            open = open.require_signature_by(key)?;
        }
        let package = Package::open_with(&options.package, &open)?;
        let entry = package.entry(&options.entry)?;
        if let Some(input) = entry.inputs().iter().find(|input| input.is_written()) {
            let message = format!("`{}` writes to its input `{}`, and so cannot be served", entry.name(), input.name());
            return Err(Error::new(code::BAD_ARGUMENT, input.name(), message));
        }
        let joins = options.max_batch > 1 && shares_rows(entry);
        if options.max_batch > 1 && !joins {
            tracing::warn!("requests are not joined: the inputs and outputs do not share a symbolic first dim");
        }
        let name = options.package.file_stem().map_or_else(|| "model".into(), |stem| stem.to_string_lossy().into_owned());
        let threads = options.threads.unwrap_or_else(|| (disc_ral::default_threads() / options.workers.max(1)).max(1));
        let session = SessionOptions { threads: Some(threads), device: options.device.clone() };
        let (joins, trials) = (AtomicBool::new(joins), AtomicU32::new(TRIALS));
        Ok(Self { name, entry: options.entry.clone(), package: package.clone(), session, joins, trials })
    }

    pub(crate) fn session(&self) -> Result<Session, Error> {
        Session::new(&self.package, self.session.clone())
    }

    pub(crate) fn entry_name(&self) -> &str {
        &self.entry
    }

    pub(crate) fn inputs(&self) -> &[InputInfo] {
        self.package.entry(&self.entry).map_or(&[], Entry::inputs)
    }

    pub(crate) fn outputs(&self) -> &[OutputInfo] {
        self.package.entry(&self.entry).map_or(&[], Entry::outputs)
    }

    /// Returns what the protocol calls the model's metadata.
    pub(crate) fn metadata(&self) -> Value {
        let port = |name: &str, dtype, dims: &[String]| {
            let shape: Vec<i64> = dims.iter().map(|dim| dim.parse().unwrap_or(-1)).collect();
            json!({ "name": name, "datatype": datatype::name(dtype), "shape": shape })
        };
        let inputs = self.inputs().iter().map(|input| port(input.name(), input.dtype(), input.dims()));
        let outputs = self.outputs().iter().map(|output| port(output.name(), output.dtype(), output.dims()));
        json!({
            "name": self.name,
            "versions": [VERSION],
            "platform": "disc",
            "inputs": inputs.collect::<Vec<_>>(),
            "outputs": outputs.collect::<Vec<_>>(),
        })
    }

    /// Checks the sizes of an input that the signature fixes. Those with a name are the code's to
    /// check.
    pub(crate) fn check(&self, input: &InputInfo, sizes: &[i64]) -> Result<(), Failure> {
        let fits = |(dim, &size): (&String, &i64)| size >= 0 && dim.parse().map_or(true, |fixed: i64| fixed == size);
        if sizes.len() == input.dims().len() && input.dims().iter().zip(sizes).all(fits) {
            return Ok(());
        }
        let (name, dims) = (input.name(), input.dims().join(", "));
        Err(Failure::bad_request(format!("input `{name}` has shape [{dims}], {sizes:?} came")))
    }

    /// Returns the key and the rows of a request that may be joined with others.
    pub(crate) fn key(&self, inputs: &[HostTensor]) -> Option<(Key, usize)> {
        let rows = *inputs.first()?.sizes().first()?;
        let same = inputs.iter().all(|input| input.sizes().first() == Some(&rows));
        let key = || inputs.iter().map(|input| input.sizes()[1..].to_vec()).collect();
        (self.joins.load(Ordering::Relaxed) && same && rows > 0).then(|| (key(), rows as usize))
    }

    /// Returns true if this joined run is one of the first, which are compared.
    pub(crate) fn starts_trial(&self) -> bool {
        self.trials.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok()
    }

    /// Joins no request any more.
    pub(crate) fn stop_joining(&self) {
        tracing::warn!("requests are not joined any more: the rows of the model depend on each other");
        self.joins.store(false, Ordering::Relaxed);
    }
}

/// Returns true if the first axis of every input and output is the same dim, which nothing else
/// depends on.
fn shares_rows(entry: Entry<'_>) -> bool {
    let dims = || entry.inputs().iter().map(InputInfo::dims).chain(entry.outputs().iter().map(OutputInfo::dims));
    let Some(rows) = dims().next().and_then(<[String]>::first) else { return false };
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let is_name = rows.chars().all(is_letter) && !rows.starts_with(|c: char| c.is_ascii_digit());
    let mentions = |dim: &String| dim.split(|c| !is_letter(c)).any(|word| word == rows);
    let is_first = |dims: &[String]| dims.first() == Some(rows) && !dims[1..].iter().any(mentions);
    is_name && dims().all(is_first)
}
