//! Names the facade's interface in one place, and turns its errors into exceptions.

use crate::errors::Failure;

pub(crate) use disc::{
    Artifact, Error, Executable, Options, Report, SetError, Specializations, VariantReport, background, cache, capture,
    compile_first, compile_text_first, devices, dtype_of_runtime, import, package, parse, simt,
};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Ir(diagnostics) => Failure::first_of(diagnostics),
            other => {
                let (code, message) = (other.code(), other.message());
                Failure { op: other.op(), dims: other.dims(), help: other.help(), ..Failure::new(code, message) }
            }
        }
    }
}
