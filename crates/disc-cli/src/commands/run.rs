//! Runs an entry on given or random inputs: `disc run`.
use super::arguments::ProgramArguments;
use crate::{
    answer::Answer,
    npy,
    run::{self, Data, On},
    source::Source,
};
use disc_ir::{Code, Diagnostic, interp::Tensor};
use serde_json::json;

pub(super) fn run(given: &ProgramArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    let (module, _) = source.module(None)?;
    let entry = run::entry(&module, given.data.entry.as_deref()).map_err(single)?;
    let data = Data::new(&module, entry, &given.data).map_err(single)?;
    let options = given.machine.options();
    let results = run::run(&module, &entry.name, &data, given.on, &options)?;
    if let Some(folder) = &given.output {
        save(folder, &results).map_err(single)?;
    }
    let mut text: String = results.iter().map(|tensor| format!("{}\n", run::summary(tensor))).collect();
    let mut json = json!({ "entry": &*entry.name, "results": results.iter().map(run::json).collect::<Vec<_>>() });
    let mut is_negative = false;
    if given.check {
        let expected = run::run(&module, &entry.name, &data, On::Interpreter, &options)?;
        let difference = run::difference(&results, &expected);
        is_negative = difference.is_some();
        text += &format!("check: {}\n", difference.as_deref().unwrap_or("as the interpreter"));
        json["difference"] = json!(difference);
    }
    Ok(Answer { is_negative, ..Answer::new(text, json) })
}

/// Writes `output0.npy` and so on.
fn save(folder: &std::path::Path, results: &[Tensor]) -> Result<(), Diagnostic> {
    std::fs::create_dir_all(folder).map_err(|e| Diagnostic::new(Code::E0700, format!("{}: {e}", folder.display())))?;
    results.iter().enumerate().try_for_each(|(i, tensor)| npy::write(&folder.join(format!("output{i}.npy")), tensor))
}
