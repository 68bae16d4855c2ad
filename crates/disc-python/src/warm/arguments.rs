//! Compares the arguments of a call with those of one that was served, and finds the tensors among
//! them: `Arguments`.
//!
//! Invariant: no code of Python runs meanwhile, so that what is borrowed lives.
use crate::errors::Failure;
use pyo3::{
    PyTraverseError, PyVisit, ffi,
    prelude::*,
    sync::PyOnceLock,
    types::{PyDict, PyFloat, PyList, PyString, PyTuple, PyType},
};
use smallvec::SmallVec;

/// The arguments of a call: a tuple of the module and what came by position, and keywords.
pub(super) struct Given<'a, 'py> {
    pub(super) arguments: Borrowed<'a, 'py, PyTuple>,
    pub(super) keywords: Option<Borrowed<'a, 'py, PyDict>>,
}

/// The tensors of a call, in the order of the inputs of the code.
pub(super) type Inputs<'py> = SmallVec<[Option<Bound<'py, PyAny>>; 8]>;

/// The arguments of calls of one form.
pub(super) struct Arguments {
    positional: Vec<Pattern>,
    keywords: Vec<(Py<PyString>, Pattern)>,
    inputs: usize,
}

/// An argument, or a part of one.
enum Pattern {
    /// A dense tensor: the input of this number.
    Input(usize),
    /// This object, or one that is equal to it by its own type's comparison.
    Constant(Py<PyAny>, Comparison),
    Tuple(Vec<Pattern>),
    List(Vec<Pattern>),
    /// Keys in their order.
    Dict(Vec<(Key, Pattern)>),
}

/// A key of a dict.
struct Key(Py<PyAny>, Comparison);

/// The objects of its type that take the place of a constant, beside itself.
#[derive(Clone, Copy)]
enum Comparison {
    None,
    Equal,
    /// NaN for NaN, and not 0.0 for -0.0.
    Float,
}

impl Arguments {
    /// Reads patterns: `("input", number)`, `("constant", value)`, `("tuple" or "list", parts)`,
    /// `("dict", pairs)`.
    pub(super) fn new(positional: &Bound<'_, PyList>, keywords: &Bound<'_, PyDict>, inputs: usize) -> PyResult<Self> {
        Ok(Self {
            positional: positional.iter().map(|row| Pattern::new(&row)).collect::<PyResult<_>>()?,
            keywords: keywords
                .iter()
                .map(|(name, row)| Ok((name.cast_into::<PyString>()?.unbind(), Pattern::new(&row)?)))
                .collect::<PyResult<_>>()?,
            inputs,
        })
    }

    /// Returns the tensors of a call; `None` for one of another form.
    #[inline]
    pub(super) fn take<'py>(&self, py: Python<'py>, given: &Given<'_, 'py>) -> PyResult<Option<Inputs<'py>>> {
        let mut inputs = Inputs::new();
        inputs.resize(self.inputs, None);
        let (count, keywords) = (given.arguments.len(), given.keywords.map_or(0, |keywords| keywords.len()));
        if count != self.positional.len() + 1 || keywords != self.keywords.len() {
            return Ok(None);
        }
        for (i, pattern) in self.positional.iter().enumerate() {
            if !pattern.take(given.arguments.get_borrowed_item(i + 1)?, &mut inputs)? {
                return Ok(None);
            }
        }
        let Some(keywords) = given.keywords else { return Ok(Some(inputs)) };
        for (name, pattern) in &self.keywords {
            // SAFETY: a dict, and a text that can be hashed; the result is borrowed from the dict,
            // which no code of Python changes meanwhile.
            let found = unsafe { ffi::PyDict_GetItemWithError(keywords.as_ptr(), name.as_ptr()) };
            // SAFETY: as above.
            if found.is_null() || !pattern.take(unsafe { Borrowed::from_ptr(py, found) }, &mut inputs)? {
                return Ok(None);
            }
        }
        Ok(Some(inputs))
    }

    pub(super) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        let keywords = self.keywords.iter().map(|(_, pattern)| pattern);
        self.positional.iter().chain(keywords).try_for_each(|pattern| pattern.traverse(visit))
    }
}

impl Pattern {
    fn new(row: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (kind, what) = row.extract::<(String, Bound<'_, PyAny>)>()?;
        let parts = || what.try_iter()?.map(|part| Self::new(&part?)).collect::<PyResult<_>>();
        match kind.as_str() {
            "input" => Ok(Pattern::Input(what.extract()?)),
            "constant" => {
                let comparison = Comparison::of(&what)?;
                Ok(Pattern::Constant(what.unbind(), comparison))
            }
            "tuple" => Ok(Pattern::Tuple(parts()?)),
            "list" => Ok(Pattern::List(parts()?)),
            "dict" => {
                let pair = |pair: PyResult<Bound<'_, PyAny>>| {
                    let (key, part) = pair?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
                    let comparison = Comparison::of(&key)?;
                    Ok((Key(key.unbind(), comparison), Self::new(&part)?))
                };
                Ok(Pattern::Dict(what.try_iter()?.map(pair).collect::<PyResult<_>>()?))
            }
            other => Err(Failure::argument(format!("there is no kind {other:?} of arguments")).into()),
        }
    }

    /// Takes the tensors of an argument; returns false for one of another form.
    fn take<'py>(&self, object: Borrowed<'_, 'py, PyAny>, inputs: &mut Inputs<'py>) -> PyResult<bool> {
        let py = object.py();
        match self {
            Pattern::Input(number) => {
                let is_tensor = TorchTypes::get(py)?.is_plain(object);
                if is_tensor {
                    inputs[*number] = Some(object.to_owned());
                }
                Ok(is_tensor)
            }
            Pattern::Constant(constant, comparison) => {
                Ok(object.is(constant) || comparison.holds(object, constant.bind_borrowed(py))?)
            }
            Pattern::Tuple(parts) => {
                let Ok(tuple) = object.cast_exact::<PyTuple>() else { return Ok(false) };
                let mut i = 0;
                let holds = |part: &Pattern| {
                    i += 1;
                    part.take(tuple.get_borrowed_item(i - 1)?, inputs)
                };
                Ok(tuple.len() == parts.len() && all(parts.iter(), holds)?)
            }
            Pattern::List(parts) => {
                let Ok(list) = object.cast_exact::<PyList>() else { return Ok(false) };
                let mut i = 0;
                let holds = |part: &Pattern| {
                    i += 1;
                    part.take(list.get_item(i - 1)?.as_borrowed(), inputs)
                };
                Ok(list.len() == parts.len() && all(parts.iter(), holds)?)
            }
            Pattern::Dict(pairs) => {
                let Ok(dict) = object.cast_exact::<PyDict>() else { return Ok(false) };
                if dict.len() != pairs.len() {
                    return Ok(false);
                }
                for ((key, value), (Key(noted, comparison), part)) in dict.iter().zip(pairs) {
                    let is_same = key.is(noted) || comparison.holds(key.as_borrowed(), noted.bind_borrowed(py))?;
                    if !is_same || !part.take(value.as_borrowed(), inputs)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Pattern::Input(_) => Ok(()),
            Pattern::Constant(value, _) => visit.call(value),
            Pattern::Tuple(parts) | Pattern::List(parts) => parts.iter().try_for_each(|part| part.traverse(visit)),
            Pattern::Dict(pairs) => pairs.iter().try_for_each(|(Key(key, _), part)| {
                visit.call(key)?;
                part.traverse(visit)
            }),
        }
    }
}

impl Comparison {
    /// Returns the comparison for a constant: only types of Python's own are compared, whose
    /// comparison runs no other code.
    fn of(constant: &Bound<'_, PyAny>) -> PyResult<Self> {
        use pyo3::types::{PyBytes, PyInt};
        let is_equal = constant.is_exact_instance_of::<PyInt>()
            || constant.is_exact_instance_of::<PyString>()
            || constant.is_exact_instance_of::<PyBytes>();
        Ok(match constant {
            _ if constant.is_exact_instance_of::<PyFloat>() => Comparison::Float,
            _ if is_equal || TorchTypes::get(constant.py())?.device.is(constant.get_type()) => Comparison::Equal,
            _ => Comparison::None,
        })
    }

    fn holds(self, value: Borrowed<'_, '_, PyAny>, constant: Borrowed<'_, '_, PyAny>) -> PyResult<bool> {
        if value.get_type_ptr() != constant.get_type_ptr() {
            return Ok(false);
        }
        match self {
            Comparison::None => Ok(false),
            Comparison::Equal => value.eq(constant),
            Comparison::Float => {
                let (value, constant) = (value.extract::<f64>()?, constant.extract::<f64>()?);
                Ok(value.to_bits() == constant.to_bits() || (value.is_nan() && constant.is_nan()))
            }
        }
    }
}

fn all<'a>(parts: impl Iterator<Item = &'a Pattern>, mut holds: impl FnMut(&Pattern) -> PyResult<bool>) -> PyResult<bool> {
    for part in parts {
        if !holds(part)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Types of torch.
struct TorchTypes {
    /// Those of dense tensors that are no more than that.
    plain: [Py<PyType>; 3],
    device: Py<PyType>,
}

impl TorchTypes {
    #[inline]
    fn get(py: Python<'_>) -> PyResult<&Self> {
        static FOUND: PyOnceLock<TorchTypes> = PyOnceLock::new();
        FOUND.get_or_try_init(py, || {
            let (torch, nn) = (py.import("torch")?, py.import("torch.nn")?);
            let kind = |module: &Bound<'_, PyModule>, name| Ok::<_, PyErr>(module.getattr(name)?.cast_into::<PyType>()?.unbind());
            let plain = [kind(&torch, "Tensor")?, kind(&nn, "Parameter")?, kind(&nn, "Buffer")?];
            Ok(Self { plain, device: kind(&torch, "device")? })
        })
    }

    #[inline]
    fn is_plain(&self, object: Borrowed<'_, '_, PyAny>) -> bool {
        let kind = object.get_type_ptr().cast::<ffi::PyObject>();
        self.plain.iter().any(|plain| plain.as_ptr() == kind)
    }
}

/// Returns true if a tensor is of the class `torch.Tensor` itself.
pub(super) fn is_of_base_class(object: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(TorchTypes::get(object.py())?.plain[0].as_ptr() == object.get_type_ptr().cast())
}
