//! Makes a function of the IR that has the signature of a package's entry, so that values for both
//! are made in one way.
use disc::ral::Entry;
use disc_ir::{Code, Diagnostic, Module};

/// Returns a module with one function without a body: its parameters are the entry's inputs.
///
/// # Errors
/// Dims that are not those of the IR, which no compiler of ours writes.
pub(crate) fn module_of(entry: Entry<'_>) -> Result<Module, Diagnostic> {
    let parameters = entry.inputs().iter().enumerate().map(|(i, input)| {
        let is_number = |dim: &str| dim.bytes().all(|byte| byte.is_ascii_digit());
        let dim = |dim: &String| if is_number(dim) { format!("{dim}x") } else { format!("[{dim}]x") };
        format!("%p{i}: tensor<{}{}>", input.dims().iter().map(dim).collect::<String>(), input.dtype())
    });
    let text = format!("func @entry({}) {{\n  return\n}}\n", parameters.collect::<Vec<_>>().join(", "));
    let wrong = |error: Option<&Diagnostic>| {
        let why = error.map_or_else(String::new, |error| format!(": {}", error.message));
        Diagnostic::new(Code::E0901, format!("entry `manifest.json`: the signature of `{}` cannot be read{why}", entry.name()))
    };
    let mut module = disc_ir::parse(&text).map_err(|errors| wrong(errors.first()))?;
    let function = module.functions.first_mut().ok_or_else(|| wrong(None))?;
    function.name = entry.name().into();
    for (parameter, input) in function.parameters().to_vec().into_iter().zip(entry.inputs()) {
        function.set_name(parameter, input.name());
    }
    Ok(module)
}
