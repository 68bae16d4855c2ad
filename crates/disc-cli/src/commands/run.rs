//! Runs an entry on given or random inputs: `disc run`.
use super::{arguments::ProgramArguments, package};
use crate::{
    answer::{Answer, diagnostics},
    arrays,
    run::{self, Data, Loaded, On},
    source::Source,
};
use disc_ir::{Code, Diagnostic, interp::Tensor};
use serde_json::{Value, json};
use std::{path::Path, time::Duration};

/// The results of one call, with the names of outputs, and the times of all.
struct Outcome {
    entry: String,
    results: Vec<(String, Tensor)>,
    times: Vec<Duration>,
}

/// Runs an entry of a package.
pub(super) fn package(given: &ProgramArguments) -> Result<Answer, Vec<Diagnostic>> {
    if given.check || given.on == On::Interpreter {
        return Err(vec![Diagnostic::new(Code::E0700, "--check and --on interp are for IR text: a package is compiled code")]);
    }
    let package = package::open(&given.file, &given.trust, given.machine.target.as_ref(), &given.device)?;
    let entry = package::entry(&package, given.data.entry.as_deref())?;
    let mut calls = package::calls(entry, &given.data).map_err(|error| vec![error])?;
    let data = calls.pop().filter(|_| calls.is_empty()).ok_or_else(|| vec![run::several(calls.len() + 1)])?;
    let loaded = Loaded::of_package(&package, given.machine.threads).map_err(diagnostics)?;
    let caller = loaded.entry_of(entry).map_err(diagnostics)?;
    let (results, times) = caller.repeat(&data.inputs, given.calls()).map_err(diagnostics)?;
    let results = caller.outputs.into_iter().map(|(name, _)| name).zip(results).collect();
    let outcome = Outcome { entry: entry.name().into(), results, times };
    if let Some(path) = &given.output {
        check_name(path).map_err(|error| vec![error])?;
        save(path, &outcome.results).map_err(|error| vec![error])?;
    }
    let named = |(name, tensor): &(String, Tensor)| format!("{name}: {}\n", run::summary(tensor));
    let text = outcome.results.iter().map(named).collect::<String>() + &outcome.times_text(given);
    let result = |(name, tensor): &(String, Tensor)| {
        let mut row = run::json(tensor);
        row["name"] = json!(name);
        // A file has them.
        if given.output.is_some() {
            row.as_object_mut().map(|row| row.remove("elements"));
        }
        row
    };
    let json = outcome.json(given, outcome.results.iter().map(result).collect());
    Ok(Answer::new(text, json))
}

/// Runs an entry of IR text.
pub(super) fn text(given: &ProgramArguments, source: &Source) -> Result<Answer, Vec<Diagnostic>> {
    let single = |error: Diagnostic| vec![error];
    package::check_text(&given.trust)?;
    let (module, _) = source.module(None)?;
    let entry = run::entry(&module, given.data.entry.as_deref()).map_err(single)?;
    let (named, outputs) = source.named(entry);
    let data = Data::new(&module, &named, &given.data).map_err(single)?;
    let options = disc::Options { device: given.device.device.clone(), ..given.machine.options() };
    let (results, times) = match given.on {
        On::Interpreter => (run::run(&module, &entry.name, &data, On::Interpreter, &options)?, Vec::new()),
        On::Cpu => {
            let loaded = Loaded::new(module.clone(), &data.weights, &options).map_err(diagnostics)?;
            let called = loaded.entry(&entry.name).and_then(|caller| caller.repeat(&data.inputs, given.calls()));
            called.map_err(diagnostics)?
        }
    };
    let named = outputs.into_iter().zip(results);
    let outcome = Outcome { entry: entry.name.to_string(), results: named.collect(), times };
    given.output.as_deref().map_or(Ok(()), check_name).map_err(single)?;
    match &given.output {
        Some(path) if arrays::is_npz(path) => save(path, &outcome.results).map_err(single)?,
        Some(folder) => save_each(folder, &outcome.results).map_err(single)?,
        None => {}
    }
    let lines = outcome.results.iter().map(|(_, tensor)| format!("{}\n", run::summary(tensor)));
    let mut text = lines.collect::<String>() + &outcome.times_text(given);
    let mut json = outcome.json(given, outcome.results.iter().map(|(_, tensor)| run::json(tensor)).collect());
    let mut is_negative = false;
    if given.check {
        let expected = run::run(&module, &entry.name, &data, On::Interpreter, &options)?;
        let results: Vec<Tensor> = outcome.results.into_iter().map(|(_, tensor)| tensor).collect();
        let difference = run::difference(&results, &expected);
        is_negative = difference.is_some();
        text += &format!("check: {}\n", difference.as_deref().unwrap_or("as the interpreter"));
        json["difference"] = json!(difference);
    }
    Ok(Answer { is_negative, ..Answer::new(text, json) })
}

impl ProgramArguments {
    fn calls(&self) -> usize {
        self.repeat.unwrap_or(1) as usize
    }
}

impl Outcome {
    /// Returns a line about the times of the calls, if it was asked for.
    fn times_text(&self, given: &ProgramArguments) -> String {
        let mut sorted: Vec<f64> = self.times.iter().map(microseconds).collect();
        let Some(first) = sorted.first().copied().filter(|_| given.repeat.is_some()) else { return String::new() };
        sorted.sort_unstable_by(f64::total_cmp);
        let (count, median) = (sorted.len(), sorted[sorted.len() / 2]);
        format!("{count} calls: first {first:.1} us, least {:.1}, median {median:.1}, most {:.1}\n", sorted[0], sorted[count - 1])
    }

    fn json(&self, given: &ProgramArguments, results: Vec<Value>) -> Value {
        let mut json = json!({ "entry": self.entry, "results": results });
        if given.repeat.is_some() {
            json["times_us"] = json!(self.times.iter().map(microseconds).collect::<Vec<_>>());
        }
        json
    }
}

fn microseconds(time: &Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// Refuses names of files that hold only one array.
fn check_name(path: &Path) -> Result<(), Diagnostic> {
    if path.extension().is_some_and(|extension| extension == "npy") {
        let error = Diagnostic::new(Code::E0700, format!("{}: results are written as .npz", path.display()));
        return Err(error.help("name a file that ends in .npz"));
    }
    Ok(())
}

/// Writes one .npz file.
fn save(path: &Path, results: &[(String, Tensor)]) -> Result<(), Diagnostic> {
    let arrays: Vec<(&str, &Tensor)> = results.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    arrays::write_several(path, &arrays)
}

/// Writes `output0.npy` and so on.
fn save_each(folder: &Path, results: &[(String, Tensor)]) -> Result<(), Diagnostic> {
    std::fs::create_dir_all(folder).map_err(|error| arrays::unwritten(folder, error))?;
    results.iter().try_for_each(|(name, tensor)| arrays::write(&folder.join(format!("{name}.npy")), tensor))
}
