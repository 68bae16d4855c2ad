//! Exports the op table as Python data.

use disc_ir::{
    DType,
    ops::{Arity, FAMILIES, OPS, OpDef, OperandDef, Stages},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyList},
};

/// Every op: a list of dicts with name, family, doc, operands, attrs, results, regions, traits and
/// stages.
#[pyfunction]
pub(crate) fn ops(py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
    crate::errors::guarded(|| {
        let rows = OPS.iter().map(|def| row(py, def)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)
    })
}

fn row<'py>(py: Python<'py>, def: &OpDef) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", def.name)?;
    row.set_item("family", FAMILIES.iter().find(|(_, ops)| ops.contains(&def.kind)).map(|(name, _)| *name))?;
    row.set_item("doc", unindented(def.doc))?;
    row.set_item("operands", values(py, def.operands)?)?;
    row.set_item("results", values(py, def.results)?)?;
    let attrs = def.attrs.iter().map(|attr| {
        let entry = PyDict::new(py);
        entry.set_item("name", attr.name)?;
        let form = format!("{:?}", attr.kind);
        entry.set_item("kind", form.split('(').next())?;
        entry.set_item("expects", attr.kind.describe())?;
        entry.set_item("required", attr.required)?;
        Ok(entry)
    });
    row.set_item("attrs", attrs.collect::<PyResult<Vec<_>>>()?)?;
    row.set_item("regions", def.regions)?;
    row.set_item("traits", def.traits.iter().map(|t| format!("{t:?}")).collect::<Vec<_>>())?;
    row.set_item("stages", stages(def.stages))?;
    Ok(row)
}

fn values<'py>(py: Python<'py>, defs: &[OperandDef]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let entries = defs.iter().map(|def| {
        let entry = PyDict::new(py);
        entry.set_item("name", def.name)?;
        let arity = match def.arity {
            Arity::One => "one",
            Arity::Optional => "optional",
            Arity::Many => "many",
        };
        entry.set_item("arity", arity)?;
        entry.set_item("dtypes", def.class.members().map(DType::name).collect::<Vec<_>>())?;
        Ok(entry)
    });
    entries.collect()
}

/// Returns the stages where the op is legal: names of stages, or the forms that stand for several.
fn stages(stages: Stages) -> Vec<&'static str> {
    match stages {
        Stages::Tensor => vec!["tensor"],
        Stages::Kernel => vec!["kernel"],
        Stages::Both => vec!["tensor", "kernel"],
        Stages::Only(stages) => stages.iter().map(|stage| stage.name()).collect(),
    }
}

/// Removes the space after the slashes of doc comments.
fn unindented(doc: &str) -> String {
    doc.lines().map(str::trim).collect::<Vec<_>>().join("\n").trim().to_owned()
}
