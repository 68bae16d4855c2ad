//! Writes captures of calls: `write_capture`.
use crate::{
    call::hold,
    errors::{Failure, guarded},
    facade::{self, capture},
    ir::PyBuilder,
};
use disc_ir::interp::Tensor;
use pyo3::prelude::*;
use std::{collections::BTreeMap, path::PathBuf};

/// Writes one call of a program to a file: a Builder or IR text, the inputs as they were before the
/// call, weights by name, the outputs or the error, the compiler's options by name, and the target.
#[pyfunction]
#[pyo3(signature = (path, source, inputs, weights, *, outputs = Vec::new(), error = None, options = BTreeMap::new(), target = None, threads = None))]
#[allow(clippy::too_many_arguments, reason = "they are keywords of Python")]
pub(crate) fn write_capture(
    path: PathBuf,
    source: &Bound<'_, PyAny>,
    inputs: Vec<Bound<'_, PyAny>>,
    weights: Vec<(String, Bound<'_, PyAny>)>,
    outputs: Vec<Bound<'_, PyAny>>,
    error: Option<String>,
    options: BTreeMap<String, Bound<'_, PyAny>>,
    target: Option<String>,
    threads: Option<usize>,
) -> PyResult<()> {
    guarded(|| {
        let module = match source.cast::<PyBuilder>() {
            Ok(builder) => builder.get().finished()?,
            Err(_) => facade::parse(&source.extract::<String>()?).map_err(Failure::from)?,
        };
        let tensors = |list: &[Bound<'_, PyAny>]| list.iter().map(tensor).collect::<PyResult<Vec<_>>>();
        let text = |(name, value): (String, Bound<'_, PyAny>)| Ok((name, value.str()?.to_string()));
        let facts = capture::CallFacts {
            target,
            threads,
            options: options.into_iter().filter(|(_, value)| !value.is_none()).map(text).collect::<PyResult<_>>()?,
            outputs: tensors(&outputs)?.iter().map(capture::Output::of).collect(),
            error,
        };
        let weights = weights.into_iter().map(|(name, value)| Ok((name, tensor(&value)?))).collect::<PyResult<_>>()?;
        let entry = module.functions.first().map(|function| function.name.to_string()).unwrap_or_default();
        let captured = capture::Capture { module, entry, inputs: tensors(&inputs)?, weights, facts };
        Ok(captured.write(&path).map_err(Failure::from)?)
    })
}

fn tensor(object: &Bound<'_, PyAny>) -> PyResult<Tensor> {
    let held = hold(object, || "a tensor of the call".to_owned())?;
    let dtype = facade::dtype_of_runtime(held.dtype());
    Ok(Tensor::new(dtype, held.sizes().to_vec(), held.elements()).map_err(Failure::from)?)
}
