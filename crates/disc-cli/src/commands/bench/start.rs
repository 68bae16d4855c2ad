//! Times the first result of a model that torch saved, stage by stage: `disc bench --start`.
//! Python, which has torch, captures, compiles and calls it.
use crate::{
    answer::Answer,
    commands::torch_model::{Fault, python},
    progress::Progress,
};
use disc_ir::{Code, Diagnostic};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::{
    fmt::Write,
    process::{Command, Stdio},
};

/// The Python module that does the work, and answers with one line of JSON.
const WORKER: &str = "disc.torch.first_result";

/// The last line that the worker prints.
#[derive(Deserialize)]
struct Reply {
    error: Option<Fault>,
    #[serde(default)]
    tree: String,
    #[serde(default)]
    milliseconds: Map<String, Value>,
}

/// Returns the tree of stages, and the times of the calls.
pub(in crate::commands) fn start(file: &str) -> Result<Answer, Vec<Diagnostic>> {
    if let Err(error) = std::fs::File::open(file) {
        return Err(vec![Diagnostic::new(Code::E0101, format!("{file} cannot be read: {error}"))]);
    }
    let python = python();
    let broken = |why: String| {
        let error = Diagnostic::new(Code::E0700, format!("a model of torch is compiled by `{}`: {why}", python.display()));
        vec![error.help("DISC_PYTHON names an interpreter that has torch and disc")]
    };
    let progress = Progress::spinner("compiling");
    let run = Command::new(&python).args(["-m", WORKER, file]).stdin(Stdio::null()).stderr(Stdio::inherit()).output();
    drop(progress);
    let done = run.map_err(|error| broken(error.to_string()))?;
    let text = String::from_utf8_lossy(&done.stdout);
    let reply: Option<Reply> = text.lines().last().and_then(|line| serde_json::from_str(line).ok());
    let reply = reply.ok_or_else(|| broken(format!("it ended with {} and no answer", done.status)))?;
    if let Some(fault) = reply.error {
        return Err(vec![fault.into()]);
    }
    let mut shown = format!("{}\n\n", reply.tree);
    for (name, milliseconds) in &reply.milliseconds {
        let _ = writeln!(shown, "{name:<44}{:9.1}", milliseconds.as_f64().unwrap_or(f64::NAN));
    }
    Ok(Answer::new(shown, json!({ "tree": reply.tree, "milliseconds": reply.milliseconds })))
}
