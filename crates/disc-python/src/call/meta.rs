//! Converts metadata of compiled modules to Python data, and back.
use crate::errors::Failure;
use disc_ral::{DType, EntryMeta, InputMeta, ModuleMeta, OutputMeta, Site, WeightMeta};
use pyo3::{prelude::*, types::PyDict};

/// Returns a signature: name, inputs and outputs with name, dtype and dims, and constraints as
/// text.
pub(crate) fn entry_dict<'py>(py: Python<'py>, entry: &EntryMeta) -> PyResult<Bound<'py, PyDict>> {
    let inputs = entry.inputs.iter().map(|input| {
        let row = row(py, &input.name, input.dtype, &input.dims)?;
        row.set_item("host", input.host)?;
        row.set_item("written", input.written)?;
        Ok(row)
    });
    let outputs = entry.outputs.iter().map(|output| {
        let row = row(py, &output.name, output.dtype, &output.dims)?;
        row.set_item("host", output.host)?;
        row.set_item("alias", output.alias)?;
        Ok(row)
    });
    let dict = PyDict::new(py);
    dict.set_item("name", &entry.name)?;
    dict.set_item("symbol", &entry.symbol)?;
    dict.set_item("inputs", inputs.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("outputs", outputs.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("constraints", &entry.constraints)?;
    Ok(dict)
}

fn row<'py>(py: Python<'py>, name: &str, dtype: DType, dims: &[String]) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", name)?;
    row.set_item("dtype", dtype.name())?;
    row.set_item("dims", dims)?;
    Ok(row)
}

/// Reads metadata from a dict with `entries` (as [`entry_dict`] makes them), `weights` and `sites`.
/// Absent keys are empty lists.
pub(crate) fn read(dict: &Bound<'_, PyDict>) -> PyResult<ModuleMeta> {
    Ok(ModuleMeta {
        entries: rows(dict, "entries")?.iter().map(entry).collect::<PyResult<_>>()?,
        weights: rows(dict, "weights")?.iter().map(weight).collect::<PyResult<_>>()?,
        sites: rows(dict, "sites")?.iter().map(site).collect::<PyResult<_>>()?,
        ..ModuleMeta::default()
    })
}

fn entry(dict: &Bound<'_, PyDict>) -> PyResult<EntryMeta> {
    Ok(EntryMeta {
        name: required(dict, "name")?,
        symbol: required(dict, "symbol")?,
        inputs: rows(dict, "inputs")?.iter().map(input).collect::<PyResult<_>>()?,
        outputs: rows(dict, "outputs")?.iter().map(output).collect::<PyResult<_>>()?,
        constraints: optional(dict, "constraints")?,
        temporary_bytes: None,
    })
}

fn input(dict: &Bound<'_, PyDict>) -> PyResult<InputMeta> {
    Ok(InputMeta {
        name: required(dict, "name")?,
        dtype: dtype(dict)?,
        dims: required(dict, "dims")?,
        host: optional(dict, "host")?,
        written: optional(dict, "written")?,
    })
}

fn output(dict: &Bound<'_, PyDict>) -> PyResult<OutputMeta> {
    Ok(OutputMeta {
        name: required(dict, "name")?,
        dtype: dtype(dict)?,
        dims: required(dict, "dims")?,
        host: optional(dict, "host")?,
        alias: optional(dict, "alias")?,
    })
}

fn weight(dict: &Bound<'_, PyDict>) -> PyResult<WeightMeta> {
    Ok(WeightMeta {
        name: required(dict, "name")?,
        dtype: dtype(dict)?,
        sizes: required(dict, "sizes")?,
        prepare_only: optional(dict, "prepare_only")?,
    })
}

fn site(dict: &Bound<'_, PyDict>) -> PyResult<Site> {
    Ok(Site {
        code: required(dict, "code")?,
        op: optional(dict, "op")?,
        template: required(dict, "template")?,
        dims: optional(dict, "dims")?,
        kernel_values: optional(dict, "kernel_values")?,
    })
}

fn rows<'py>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let Some(list) = dict.get_item(key)? else { return Ok(Vec::new()) };
    list.try_iter()?.map(|item| Ok(item?.cast_into::<PyDict>()?)).collect()
}

fn required<'py, T: for<'a> FromPyObject<'a, 'py>>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<T> {
    let Some(value) = dict.get_item(key)? else {
        return Err(Failure::argument(format!("metadata without {key:?}")).into());
    };
    value.extract().map_err(Into::into)
}

fn optional<'py, T: Default + for<'a> FromPyObject<'a, 'py>>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<T> {
    match dict.get_item(key)? {
        Some(value) if !value.is_none() => value.extract().map_err(Into::into),
        _ => Ok(T::default()),
    }
}

fn dtype(dict: &Bound<'_, PyDict>) -> PyResult<DType> {
    let name: String = required(dict, "dtype")?;
    let known = DType::ALL.into_iter().find(|dtype| dtype.name() == name);
    known.ok_or_else(|| Failure::argument(format!("there is no element type `{name}`")).into())
}
