//! Compiles a program and reports on it: `disc compile`.
use super::{arguments::CompileArguments, report};
use crate::{
    answer::{Answer, diagnostics},
    source::Source,
};
use disc_ir::{Code, Diagnostic};

pub(super) fn compile(given: &CompileArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let (module, _) = source.module(None)?;
    let options = disc::Options { dump: given.dump.clone(), ..given.machine.options() };
    let artifact = disc::compile(module, &options).map_err(diagnostics)?;
    if let Some(path) = &given.output {
        let wrong = |e: std::io::Error| vec![Diagnostic::new(Code::E0700, format!("{}: {e}", path.display()))];
        std::fs::write(path, &artifact.code).map_err(wrong)?;
    }
    Ok(Answer::new(report::text(&artifact.report), report::json(&artifact.report)))
}
