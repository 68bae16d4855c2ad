//! Notices that the items of dicts changed: `DictWatches`.
use pyo3::{
    PyTraverseError, PyVisit, ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyAny, PyDict},
};
use std::{
    ptr,
    sync::atomic::{AtomicU64, Ordering},
};

/// The place of the version in a dict, in words: after the header and the number of items.
const VERSION: usize = 3;

/// Dicts, each with the items of it that count.
pub(super) struct DictWatches {
    /// All that is read of each dict where nothing changed, in the order of their addresses: a walk
    /// over them is a walk through memory.
    versions: Vec<Version>,
    /// The rest, in the same order.
    dicts: Vec<DictWatch>,
    has_versions: bool,
}

/// The version of a dict when its items were last compared.
pub(crate) struct Version {
    dict: usize,
    version: AtomicU64,
}

/// A dict, and the items of it that count.
struct DictWatch {
    /// The number of the dict for whoever asks.
    position: usize,
    dict: Py<PyDict>,
    /// The keys that count; all without it.
    names: Option<Py<PyAny>>,
    /// Says of a value what counts; without it the value itself does.
    kind: Option<Py<PyAny>>,
    /// The items as they were, or what counted of them.
    noted: Py<PyDict>,
    /// The number of all items when they were last compared.
    length: AtomicU64,
}

/// A dict, the keys that count, and what says of a value what counts.
pub(super) type Watched<'py> = (Bound<'py, PyDict>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// An item that is not as it was: its key, the value then and the value now.
pub(super) type Change<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl Version {
    /// Notes the version that a dict has now; 0 where dicts have none.
    pub(crate) fn new(dict: &Bound<'_, PyDict>) -> PyResult<Self> {
        let version = if has_versions(dict.py())? { version(dict) } else { 0 };
        Ok(Self { dict: dict.as_ptr().expose_provenance(), version: AtomicU64::new(version) })
    }

    /// Returns true if the dict has the version that was noted, which no dict has where there are
    /// none.
    ///
    /// # Safety
    /// The dict is alive.
    #[inline]
    pub(crate) unsafe fn holds(&self) -> bool {
        let noted = self.version.load(Ordering::Relaxed);
        // SAFETY: the caller's promise; a version that is not 0 was read from this place.
        noted != 0 && unsafe { ptr::with_exposed_provenance::<u64>(self.dict).add(VERSION).read() } == noted
    }

    fn renew(&self, version: u64) {
        self.version.store(version, Ordering::Relaxed);
    }

    /// Notes the version that the dict has now.
    pub(crate) fn note(&self, dict: &Bound<'_, PyDict>) {
        if self.version.load(Ordering::Relaxed) != 0 {
            self.renew(version(dict));
        }
    }
}

impl DictWatches {
    pub(super) fn new(py: Python<'_>, rows: Vec<Watched<'_>>) -> PyResult<Self> {
        let mut rows: Vec<_> = rows.into_iter().enumerate().collect();
        rows.sort_by_key(|(_, (dict, ..))| dict.as_ptr().addr());
        Ok(Self {
            versions: rows.iter().map(|(_, (dict, ..))| Version::new(dict)).collect::<PyResult<_>>()?,
            dicts: rows.into_iter().map(|(position, row)| DictWatch::new(position, row)).collect::<PyResult<_>>()?,
            has_versions: has_versions(py)?,
        })
    }

    /// Returns true if the items that count are as they were. `same` compares values that are other
    /// objects.
    pub(super) fn hold(&self, py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
        for (i, version) in self.versions.iter().enumerate() {
            // SAFETY: `dicts` keeps it alive.
            if !unsafe { version.holds() } && !self.holds(i, py, same)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn holds(&self, i: usize, py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
        let watch = &self.dicts[i];
        if !self.has_versions {
            return Ok(watch.is_untouched(py) || watch.compare(py, same)?);
        }
        let now = version(watch.dict.bind(py));
        let holds = watch.compare(py, same)?;
        if holds {
            self.versions[i].renew(now);
        }
        Ok(holds)
    }

    /// Returns all items that are not as they were, each with the number of its dict.
    pub(super) fn changes<'py>(&self, py: Python<'py>, same: &Bound<'py, PyAny>) -> PyResult<Vec<(usize, Change<'py>)>> {
        let mut found = Vec::new();
        for watch in &self.dicts {
            found.extend(watch.changes(py, same, false)?.into_iter().map(|change| (watch.position, change)));
        }
        found.sort_by_key(|(position, _)| *position);
        Ok(found)
    }

    /// Takes the present value of an item for the one that it had.
    pub(super) fn accept(&self, position: usize, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let found = self.dicts.iter().find(|watch| watch.position == position);
        found.map_or(Ok(()), |watch| watch.accept(key.py(), key))
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.dicts.iter().try_for_each(|watch| watch.traverse(visit))
    }
}

impl DictWatch {
    fn new(position: usize, (dict, names, kind): Watched<'_>) -> PyResult<Self> {
        let noted = PyDict::new(dict.py());
        for (key, value) in dict.iter() {
            if counts(names.as_ref(), &key)? {
                noted.set_item(key, what_counts(kind.as_ref(), value)?)?;
            }
        }
        Ok(Self {
            position,
            length: AtomicU64::new(dict.len() as u64),
            dict: dict.unbind(),
            names: names.map(Bound::unbind),
            kind: kind.map(Bound::unbind),
            noted: noted.unbind(),
        })
    }

    fn is_untouched(&self, py: Python<'_>) -> bool {
        self.dict.bind(py).len() as u64 == self.length.load(Ordering::Relaxed) && self.has_same_objects(py)
    }

    fn has_same_objects(&self, py: Python<'_>) -> bool {
        let dict = self.dict.as_ptr();
        // SAFETY: the GIL is held, and the keys can be hashed; the result is borrowed and compared.
        self.noted
            .bind(py)
            .iter()
            .all(|(key, value)| unsafe { ffi::PyDict_GetItemWithError(dict, key.as_ptr()) } == value.as_ptr())
    }

    #[cold]
    fn compare(&self, py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
        let length = self.dict.bind(py).len() as u64;
        if !self.changes(py, same, true)?.is_empty() {
            return Ok(false);
        }
        self.length.store(length, Ordering::Relaxed);
        Ok(true)
    }

    /// Returns the items that are not as they were; the first alone if `is_first` is asked for.
    pub(super) fn changes<'py>(&self, py: Python<'py>, same: &Bound<'py, PyAny>, is_first: bool) -> PyResult<Vec<Change<'py>>> {
        let noted = self.noted.bind(py);
        let names = self.names.as_ref().map(|names| names.bind(py));
        let kind = self.kind.as_ref().map(|kind| kind.bind(py));
        // No code of Python runs while these are gathered.
        let items: Vec<(Bound<'_, PyAny>, Bound<'_, PyAny>)> = self.dict.bind(py).iter().collect();
        let (mut found, mut met) = (Vec::new(), 0);
        // The order of a dict counts where all of it does: it may be walked over.
        let order: Vec<Bound<'_, PyAny>> = if names.is_none() { noted.keys().iter().collect() } else { Vec::new() };
        for (key, value) in items {
            if !counts(names, &key)? {
                continue;
            }
            let before = noted.get_item(&key)?;
            met += usize::from(before.is_some());
            let value = what_counts(kind, value)?;
            let is_in_place = names.is_some() || order.get(met.wrapping_sub(1)).map_or(Ok(false), |noted| noted.eq(&key))?;
            let is_same = match &before {
                None => false,
                Some(_) if !is_in_place => false,
                Some(before) => before.is(&value) || same.call1((before, &value))?.is_truthy()?,
            };
            if !is_same {
                found.push((key, before, Some(value)));
                if is_first {
                    return Ok(found);
                }
            }
        }
        if met != noted.len() {
            for (key, before) in noted.iter() {
                if !self.dict.bind(py).contains(&key)? {
                    found.push((key, Some(before), None));
                }
            }
        }
        Ok(found)
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.dict)?;
        visit.call(&self.noted)?;
        visit.call(&self.kind)
    }

    fn accept(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        match self.dict.bind(py).get_item(key)? {
            Some(value) => self.noted.bind(py).set_item(key, what_counts(self.kind.as_ref().map(|kind| kind.bind(py)), value)?),
            None if self.noted.bind(py).contains(key)? => self.noted.bind(py).del_item(key),
            None => Ok(()),
        }
    }
}

fn what_counts<'py>(kind: Option<&Bound<'py, PyAny>>, value: Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match kind {
        Some(kind) if !value.is_none() => kind.call1((value,)),
        _ => Ok(value),
    }
}

fn counts(names: Option<&Bound<'_, PyAny>>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
    names.map_or(Ok(true), |names| names.contains(key))
}

/// Returns the version of a dict (PEP 509), which each change of it makes another one.
#[inline]
fn version(dict: &Bound<'_, PyDict>) -> u64 {
    // SAFETY: `has_versions` found the field here.
    unsafe { dict.as_ptr().cast::<u64>().add(VERSION).read() }
}

/// Returns true if dicts of this Python have a version: of CPython before 3.13, and if it is seen
/// to change.
fn has_versions(py: Python<'_>) -> PyResult<bool> {
    static FOUND: PyOnceLock<bool> = PyOnceLock::new();
    FOUND
        .get_or_try_init(py, || {
            let name = py.import("sys")?.getattr("implementation")?.getattr("name")?;
            let now = py.version_info();
            if name.extract::<String>()? != "cpython" || (now.major, now.minor) >= (3, 13) {
                return Ok(false);
            }
            let dict = PyDict::new(py);
            let mut versions = vec![version(&dict)];
            dict.set_item("a", 1)?;
            versions.push(version(&dict));
            dict.set_item("a", 2)?;
            versions.push(version(&dict));
            dict.del_item("a")?;
            versions.push(version(&dict));
            let is_read_only = { dict.get_item("a")?.is_none() && version(&dict) == versions[3] };
            let all_differ = versions.iter().enumerate().all(|(i, v)| !versions[..i].contains(v));
            Ok(is_read_only && all_differ)
        })
        .copied()
}
