//! Exports the IR, the compiler and the runtime to Python: the extension module `disc._disc`, a
//! thin layer.
//!
//! It is not the package's interface. That is `disc`, written in Python; the contents of this
//! module may change with it.
//!
//! Invariant: an op of the IR never needs a change here, everything is generic over the op table.
mod cache;
mod call;
mod capture;
mod cli;
mod compile;
mod errors;
mod facade;
mod import;
mod ir;
mod logging;
mod package;
mod partition;
mod prefault;
mod warm;
mod watch;

use pyo3::prelude::*;

/// Describes an unexpected object in messages: its type.
fn describe(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().fully_qualified_name().map(|name| name.to_string());
    format!("an object of type `{}`", name.as_deref().unwrap_or("object"))
}

/// The compiled part of disc.
#[pymodule]
fn _disc(module: &Bound<'_, PyModule>) -> PyResult<()> {
    logging::start(module.py());
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<prefault::MemoryAhead>()?;
    module.add_class::<ir::PyBuilder>()?;
    module.add_class::<ir::PyDim>()?;
    module.add_class::<ir::PyFact>()?;
    module.add_class::<ir::PyValue>()?;
    module.add_class::<compile::PyArtifact>()?;
    module.add_class::<call::PyExecutable>()?;
    module.add_class::<call::PyDeviceTensor>()?;
    module.add_class::<call::PyProfiler>()?;
    module.add_class::<call::PyWatch>()?;
    module.add_class::<watch::PyModuleWatch>()?;
    module.add_class::<watch::PyWeightWatch>()?;
    module.add_class::<warm::PyWarmCall>()?;
    module.add_class::<warm::PyWarmCalls>()?;
    module.add_class::<warm::PyWarmGraph>()?;
    module.add_class::<warm::PyGraphCall>()?;
    module.add_class::<package::PyPackage>()?;
    module.add_function(wrap_pyfunction!(ir::ops, module)?)?;
    module.add_function(wrap_pyfunction!(compile::compile, module)?)?;
    module.add_function(wrap_pyfunction!(compile::check_runs, module)?)?;
    module.add_function(wrap_pyfunction!(compile::devices, module)?)?;
    module.add_function(wrap_pyfunction!(capture::write_capture, module)?)?;
    module.add_function(wrap_pyfunction!(package::export_package, module)?)?;
    module.add_function(wrap_pyfunction!(import::import_package, module)?)?;
    module.add_function(wrap_pyfunction!(partition::partition, module)?)?;
    module.add_function(wrap_pyfunction!(warm::call_method, module)?)?;
    module.add_function(wrap_pyfunction!(watch::watches_torch_calls, module)?)?;
    module.add_function(wrap_pyfunction!(watch::watches_torch_modes, module)?)?;
    module.add_function(wrap_pyfunction!(call::load_code, module)?)?;
    module.add_function(wrap_pyfunction!(compile::set_package_folders, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_directory, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_get, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_is_shared, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_may_hold_weights, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_put, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_clear, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_counts, module)?)?;
    module.add_function(wrap_pyfunction!(cache::cache_write_out, module)?)?;
    module.add_function(wrap_pyfunction!(cli::main_disc, module)?)?;
    module.add_function(wrap_pyfunction!(cli::main_disc_opt, module)?)?;
    module.add_function(wrap_pyfunction!(compile::await_specializations, module)?)?;
    let finish = wrap_pyfunction!(compile::finish_abandoned, module)?;
    module.py().import("atexit")?.call_method1("register", (finish,))?;
    Ok(())
}
