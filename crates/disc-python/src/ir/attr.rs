//! Reads attributes from Python objects, by the kind that the op table declares.
use super::{dim, literal};
use crate::errors::Failure;
use disc_ir::{Attr, Code, DType, Type, attr::AttrKind, ops::AttrDef, text::closest};
use pyo3::{
    prelude::*,
    types::{PyBool, PyDict, PyString},
};

/// Reads the attributes of an op or a composition in keyword arguments, by name; `None` omits an
/// attribute.
pub(super) fn read_all(op: &str, declared: &'static [AttrDef], given: &Bound<'_, PyDict>) -> PyResult<Vec<(&'static str, Attr)>> {
    let mut attrs = Vec::with_capacity(given.len());
    for (name, value) in given {
        let name = name.extract::<String>()?;
        let Some(attr) = declared.iter().find(|attr| attr.name == name) else {
            return Err(unknown(op, declared, &name).into());
        };
        if !value.is_none() {
            attrs.push((attr.name, read(op, attr.name, attr.kind, &value)?));
        }
    }
    Ok(attrs)
}

fn unknown(op: &str, declared: &[AttrDef], name: &str) -> Failure {
    let names: Vec<&str> = declared.iter().map(|attr| attr.name).collect();
    let failure = Failure::new(Code::E0202, format!("`{op}` has no attribute `{name}`")).in_op(op);
    match closest(name, names.iter().copied()) {
        Some(near) => failure.help(format!("is `{near}` meant?")),
        None if names.is_empty() => failure.help("it has no attributes"),
        None => failure.help(format!("its attributes are {}", names.join(", "))),
    }
}

fn read(op: &str, name: &str, kind: AttrKind, value: &Bound<'_, PyAny>) -> PyResult<Attr> {
    if let Some(attr) = convert(kind, value)? {
        return Ok(attr);
    }
    let (expected, came) = (kind.describe(), value.repr()?.to_string());
    let message = format!("`{op}`: attribute `{name}` must be {expected}, not {}", shortened(&came));
    Err(Failure::new(Code::E0202, message).in_op(op).into())
}

fn shortened(text: &str) -> String {
    const MOST: usize = 80;
    if text.chars().count() <= MOST { text.to_owned() } else { text.chars().take(MOST).chain("...".chars()).collect() }
}

/// Converts an object to an attribute; `None` if it has another form.
fn convert(kind: AttrKind, value: &Bound<'_, PyAny>) -> PyResult<Option<Attr>> {
    Ok(match kind {
        AttrKind::Int => integer(value).map(Attr::Int),
        AttrKind::Float => value.extract::<f64>().ok().filter(|_| !value.is_instance_of::<PyBool>()).map(Attr::Float),
        AttrKind::Bool => value.cast::<PyBool>().ok().map(|truth| Attr::Bool(truth.is_true())),
        AttrKind::Enum(words) => {
            let word = value.extract::<String>().ok();
            word.and_then(|word| words.iter().find(|known| **known == word)).map(|word| Attr::Enum(word))
        }
        AttrKind::Str => value.extract::<String>().ok().map(|text| Attr::Str(text.into())),
        AttrKind::Symbol => value.extract::<String>().ok().map(|name| Attr::Symbol(name.into())),
        AttrKind::DType => value.extract::<String>().ok().and_then(|name| DType::from_name(&name)).map(Attr::DType),
        AttrKind::Type => {
            value.extract::<(Bound<'_, PyAny>, String)>().ok().map(|_| read_type(value)).transpose()?.map(Attr::Type)
        }
        AttrKind::Ints => elements(value).and_then(|items| items.iter().map(integer).collect()).map(Attr::Ints),
        AttrKind::Dim => is_dim(value).then(|| dim::read(value)).transpose()?.map(Attr::Dim),
        AttrKind::Dims => match elements(value).filter(|items| items.iter().all(is_dim)) {
            Some(items) => Some(Attr::Dims(items.iter().map(dim::read).collect::<PyResult<_>>()?)),
            None => None,
        },
        AttrKind::Literal => Some(Attr::Literal(literal::read(value, None)?)),
    })
}

fn integer(value: &Bound<'_, PyAny>) -> Option<i64> {
    if value.is_instance_of::<PyBool>() { None } else { value.extract::<i64>().ok() }
}

fn is_dim(value: &Bound<'_, PyAny>) -> bool {
    value.is_instance_of::<dim::PyDim>() || value.is_instance_of::<PyString>() || integer(value).is_some()
}

fn elements<'py>(value: &Bound<'py, PyAny>) -> Option<Vec<Bound<'py, PyAny>>> {
    if value.is_instance_of::<PyString>() { None } else { value.try_iter().ok()?.collect::<PyResult<_>>().ok() }
}

/// The element type of a name.
pub(super) fn read_dtype(name: &str) -> PyResult<DType> {
    DType::from_name(name).ok_or_else(|| {
        let names = DType::ALL.map(DType::name).join(", ");
        Failure::new(Code::E0102, format!("there is no element type `{name}`")).help(format!("there are {names}")).into()
    })
}

/// A tensor type: a pair of sizes and the name of an element type.
pub(super) fn read_type(pair: &Bound<'_, PyAny>) -> PyResult<Type> {
    let Ok((dims, dtype)) = pair.extract::<(Bound<'_, PyAny>, String)>() else {
        let came = crate::describe(pair);
        return Err(Failure::argument(format!("a type is {came}, expected a pair of sizes and element type")).into());
    };
    Ok(Type::tensor(dim::read_all(&dims)?, read_dtype(&dtype)?))
}
