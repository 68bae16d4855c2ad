//! Notices that the items of a dict changed: `DictWatch`.
use pyo3::{
    PyTraverseError, PyVisit, ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyAny, PyDict},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// A dict, and the items of it that count.
pub(super) struct DictWatch {
    dict: Py<PyDict>,
    /// The keys that count; all without it.
    names: Option<Py<PyAny>>,
    /// Says of a value what counts; without it the value itself does.
    kind: Option<Py<PyAny>>,
    /// The items as they were, or what counted of them.
    noted: Py<PyDict>,
    /// The number of all items, and the version of the dict, when the items were last compared.
    length: AtomicU64,
    version: AtomicU64,
    has_versions: bool,
}

/// An item that is not as it was: its key, the value then and the value now.
pub(super) type Change<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

impl DictWatch {
    pub(super) fn new(
        dict: &Bound<'_, PyDict>,
        names: Option<Bound<'_, PyAny>>,
        kind: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = dict.py();
        let noted = PyDict::new(py);
        for (key, value) in dict.iter() {
            if counts(names.as_ref(), &key)? {
                noted.set_item(key, what_counts(kind.as_ref(), value)?)?;
            }
        }
        let has_versions = has_versions(py)?;
        Ok(Self {
            length: AtomicU64::new(dict.len() as u64),
            version: AtomicU64::new(if has_versions { version(dict) } else { 0 }),
            dict: dict.clone().unbind(),
            names: names.map(Bound::unbind),
            kind: kind.map(Bound::unbind),
            noted: noted.unbind(),
            has_versions,
        })
    }

    /// Returns true if the items that count are as they were. `same` compares values that are other
    /// objects.
    #[inline]
    pub(super) fn holds(&self, py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
        let dict = self.dict.bind(py);
        let is_untouched = match self.has_versions {
            true => version(dict) == self.version.load(Ordering::Relaxed),
            false => dict.len() as u64 == self.length.load(Ordering::Relaxed) && self.has_same_objects(py),
        };
        Ok(is_untouched || self.compare(py, same)?)
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
        let dict = self.dict.bind(py);
        let (length, version) = (dict.len() as u64, if self.has_versions { version(dict) } else { 0 });
        if !self.changes(py, same, true)?.is_empty() {
            return Ok(false);
        }
        self.length.store(length, Ordering::Relaxed);
        self.version.store(version, Ordering::Relaxed);
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
        for (key, value) in items {
            if !counts(names, &key)? {
                continue;
            }
            let before = noted.get_item(&key)?;
            met += usize::from(before.is_some());
            let value = what_counts(kind, value)?;
            let is_same = match &before {
                None => false,
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

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.dict)?;
        visit.call(&self.noted)?;
        visit.call(&self.kind)
    }

    /// Takes the present value of an item for the one that it had.
    pub(super) fn accept(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
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
    // SAFETY: `has_versions` found the field here: behind the header and the number of items.
    unsafe { dict.as_ptr().cast::<u64>().add(3).read() }
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
