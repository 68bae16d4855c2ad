//! Times the first result of a model that torch saved, stage by stage: `disc bench --start`.
//! Python, which has torch, captures, compiles and calls it.
use crate::{
    answer::Answer,
    commands::python::{Worker, check_file},
    progress::Progress,
};
use disc_ir::Diagnostic;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The Python module that does the work.
const WORKER: &str = "disc.torch.files.first_result";

#[derive(Deserialize)]
struct Times {
    tree: String,
    milliseconds: Map<String, Value>,
}

/// Returns the tree of stages, and the times of the calls.
pub(in crate::commands) fn start(file: &str) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    check_file(file).map_err(single)?;
    let progress = Progress::spinner("compiling");
    let Times { tree, milliseconds } = Worker::new(WORKER).argument(file).ask("").map_err(single)?;
    drop(progress);
    let mut shown = format!("{tree}\n\n");
    for (name, value) in &milliseconds {
        let _ = writeln!(shown, "{name:<44}{:9.1}", value.as_f64().unwrap_or(f64::NAN));
    }
    Ok(Answer::new(shown, json!({ "tree": tree, "milliseconds": milliseconds })))
}
