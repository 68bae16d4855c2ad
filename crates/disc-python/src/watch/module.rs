//! Notices changes of what decides the code of a module: `ModuleWatch`.
use super::{
    dict::{DictWatches, Watched},
    list::ListWatch,
    weights::PyWeightWatch,
};
use crate::{
    call::{PlainCalls, TorchModes},
    errors::guarded,
};
use pyo3::{PyTraverseError, PyVisit, ffi, intern, prelude::*, types::PyList};

/// Dicts, lists, variables, classes and modes as they were.
#[pyclass(name = "ModuleWatch", module = "disc._disc", frozen)]
pub(crate) struct PyModuleWatch {
    dicts: DictWatches,
    /// Asks torch for its modes, with the type of tensors that are made without one.
    torch: Option<(TorchModes, i8)>,
    lists: Vec<ListWatch>,
    /// Variables that functions enclose, with their values.
    cells: Vec<(Py<PyAny>, Py<PyAny>)>,
    /// Objects, and the addresses of their classes.
    kinds: Vec<(Py<PyAny>, usize)>,
    /// Functions without arguments, and what they gave.
    modes: Vec<(Py<PyAny>, Py<PyAny>)>,
    /// Asks torch if a call is traced or within autocast; `None` where functions of `plain` do.
    calls: Option<&'static PlainCalls>,
    /// Functions without arguments, and what they have to give where nobody else looks at the call.
    plain: Vec<(Py<PyAny>, Py<PyAny>)>,
    tensors: Py<PyWeightWatch>,
    same: Py<PyAny>,
}

/// A change of a dict: its position, the key, the value then and the value now.
type Row<'py> = (usize, Bound<'py, PyAny>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);
type Pairs<'py> = Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>;

#[pymethods]
impl PyModuleWatch {
    /// Notes dicts (each with the set of keys that count or None, and a function that says of a
    /// value what counts or None), lists, variables that functions enclose with their values, the
    /// classes of objects, what functions without arguments give (`modes`: always; `plain`: asked
    /// by `serves` only), and tensors. `same(then, now)` compares values that are other objects.
    #[new]
    #[pyo3(signature = (*, dicts, lists, cells, objects, modes, plain, tensors, same))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn new(
        py: Python<'_>,
        dicts: Vec<Watched<'_>>,
        lists: Vec<Bound<'_, PyList>>,
        cells: Pairs<'_>,
        objects: Vec<Bound<'_, PyAny>>,
        modes: Pairs<'_>,
        plain: Pairs<'_>,
        tensors: Py<PyWeightWatch>,
        same: Py<PyAny>,
    ) -> PyResult<Self> {
        let pairs = |found: Pairs<'_>| found.into_iter().map(|(a, b)| (a.unbind(), b.unbind())).collect();
        guarded(|| {
            Ok(Self {
                dicts: DictWatches::new(py, dicts)?,
                calls: PlainCalls::get(),
                torch: TorchModes::get().map(|modes| (modes, modes.default_type())),
                lists: lists.iter().map(ListWatch::new).collect(),
                cells: pairs(cells),
                kinds: objects.into_iter().map(|object| (object.clone().unbind(), object.get_type_ptr().addr())).collect(),
                modes: pairs(modes),
                plain: pairs(plain),
                tensors,
                same,
            })
        })
    }

    /// Returns true if all is as it was.
    fn holds(&self, py: Python<'_>) -> PyResult<bool> {
        guarded(|| self.is_unchanged(py))
    }

    /// Returns true if all is as it was, `weights` are, if they are given, and nobody else looks at
    /// the call.
    #[pyo3(name = "serves")]
    fn serves_call(&self, py: Python<'_>, weights: Option<&Bound<'_, PyWeightWatch>>) -> PyResult<bool> {
        guarded(|| self.serves(py, weights.map(Bound::get)))
    }

    /// Returns the changes of dicts, and the positions of lists, of variables, of objects and of
    /// modes that changed, and true if a tensor did.
    #[expect(clippy::type_complexity, reason = "the parts of one report, taken apart at once")]
    fn changes<'py>(&self, py: Python<'py>) -> PyResult<(Vec<Row<'py>>, Vec<usize>, Vec<usize>, Vec<usize>, Vec<usize>, bool)> {
        guarded(|| {
            let same = self.same.bind(py);
            let rows = self.dicts.changes(py, same)?;
            let rows = rows.into_iter().map(|(i, (key, then, now))| (i, key, then, now)).collect();
            let lists = changed(&self.lists, |list| list.holds(py, same))?;
            let cells = changed(&self.cells, |cell| is_cell(cell, py, same))?;
            let kinds = changed(&self.kinds, |(object, kind)| Ok(object.bind(py).get_type_ptr().addr() == *kind))?;
            let modes = changed(&self.modes, |(ask, value)| is_mode(ask.bind(py), value.bind(py)))?;
            Ok((rows, lists, cells, kinds, modes, !self.tensors.get().holds(py)?))
        })
    }

    /// Takes the present value of a dict's item for the one that it had.
    fn accept(&self, position: usize, key: &Bound<'_, PyAny>) -> PyResult<()> {
        guarded(|| self.dicts.accept(position, key))
    }

    /// Takes the present elements of a list for those that it had.
    fn accept_list(&self, py: Python<'_>, position: usize) -> PyResult<()> {
        guarded(|| self.lists.get(position).map_or(Ok(()), |list| list.accept(py)))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.dicts.traverse(&visit)?;
        self.lists.iter().try_for_each(|list| list.traverse(&visit))?;
        self.kinds.iter().try_for_each(|(object, _)| visit.call(object))?;
        for (a, b) in self.cells.iter().chain(&self.modes) {
            visit.call(a)?;
            visit.call(b)?;
        }
        visit.call(&self.tensors)
    }
}

impl PyModuleWatch {
    /// Returns true if all is as it was, `weights` are, and nobody else looks at the call.
    pub(crate) fn serves(&self, py: Python<'_>, weights: Option<&PyWeightWatch>) -> PyResult<bool> {
        if self.torch.is_some_and(|(modes, _)| !modes.are_none()) || !are_modes(py, &self.plain)? {
            return Ok(false);
        }
        if let Some(calls) = self.calls
            && !calls.are_now(py)?
        {
            return Ok(false);
        }
        if !self.is_unchanged(py)? {
            return Ok(false);
        }
        weights.map_or(Ok(true), |weights| weights.holds(py))
    }

    fn is_unchanged(&self, py: Python<'_>) -> PyResult<bool> {
        let same = self.same.bind(py);
        if self.torch.is_some_and(|(modes, default)| modes.default_type() != default) || !self.dicts.hold(py, same)? {
            return Ok(false);
        }
        if self.kinds.iter().any(|(object, kind)| object.bind(py).get_type_ptr().addr() != *kind) {
            return Ok(false);
        }
        for list in &self.lists {
            if !list.holds(py, same)? {
                return Ok(false);
            }
        }
        for cell in &self.cells {
            if !is_cell(cell, py, same)? {
                return Ok(false);
            }
        }
        Ok(are_modes(py, &self.modes)? && self.tensors.get().holds(py)?)
    }
}

/// Returns the positions of those that are not as they were.
fn changed<T>(all: &[T], holds: impl Fn(&T) -> PyResult<bool>) -> PyResult<Vec<usize>> {
    let mut found = Vec::new();
    for (i, one) in all.iter().enumerate() {
        if !holds(one)? {
            found.push(i);
        }
    }
    Ok(found)
}

/// Returns true if a variable has the value that it had; one that was deleted has not.
fn is_cell((cell, value): &(Py<PyAny>, Py<PyAny>), py: Python<'_>, same: &Bound<'_, PyAny>) -> PyResult<bool> {
    match cell.bind(py).getattr(intern!(py, "cell_contents")) {
        Ok(now) => Ok(now.is(value) || same.call1((value, now))?.is_truthy()?),
        Err(_) => Ok(false),
    }
}

#[inline]
fn are_modes(py: Python<'_>, modes: &[(Py<PyAny>, Py<PyAny>)]) -> PyResult<bool> {
    for (ask, value) in modes {
        if !is_mode(ask.bind(py), value.bind(py))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a function gives what it gave.
#[inline]
fn is_mode(ask: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let py = ask.py();
    // SAFETY: a live object; the result is a new reference, or null with an exception.
    let now = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyObject_CallNoArgs(ask.as_ptr()))? };
    if now.is(value) { Ok(true) } else { now.eq(value) }
}

/// Returns true if watches ask torch itself for the default type, and for modes that see functions
/// and ops: whoever makes one need not name them.
#[pyfunction]
pub(crate) fn watches_torch_modes() -> bool {
    TorchModes::get().is_some()
}

/// Returns true if watches ask torch itself for traces and autocast: whoever makes one need not
/// name them.
#[pyfunction]
pub(crate) fn watches_torch_calls() -> bool {
    PlainCalls::get().is_some()
}
