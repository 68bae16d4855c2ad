//! Runs the textual tests of a folder on a device: `disc test`.
use super::arguments::TestArguments;
use crate::{
    answer::{Answer, diagnostics},
    progress::Progress,
    run::Loaded,
};
use disc::Options;
use disc_filetests::{Checked, Compiled, Program, Weights, check_device};
use disc_ir::{Code, Diagnostic, Module, interp::Tensor};
use serde_json::json;
use std::{collections::HashMap, path::Path};

/// A device that runs the tests.
struct Tested {
    device: String,
}

pub(super) fn test(given: &TestArguments) -> Result<Answer, Vec<Diagnostic>> {
    disc::check_device(&given.on).map_err(diagnostics)?;
    if !Path::new(&given.folder).is_dir() {
        return Err(vec![Diagnostic::new(Code::E0101, format!("{} is no folder", given.folder.display()))]);
    }
    // The harness takes compilers that live as long as the process, and this is the only one.
    let tested: &'static dyn Compiled = Box::leak(Box::new(Tested { device: given.on.clone() }));
    let compiled: &'static [&'static dyn Compiled] = Box::leak(Box::new([tested]));
    let progress = Progress::spinner("testing");
    let found = check_device(&given.folder, compiled, &|name, _| progress.step(name));
    drop(progress);
    let (mut text, mut failures) = (String::new(), Vec::new());
    let mut skipped = 0;
    for (name, checked) in &found {
        match checked {
            Checked::Passed => {}
            Checked::Skipped(why) => {
                skipped += 1;
                text += &format!("skipped {name}: {why}\n");
            }
            Checked::Failed(why) => {
                text += &format!("failed {name}: {}\n", why.trim_end());
                failures.push(json!({ "file": name, "message": why }));
            }
        }
    }
    let (failed, passed) = (failures.len(), found.len() - failures.len() - skipped);
    let last = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    text += &format!("{passed} passed, {failed} failed{last}\n");
    let json = json!({ "on": given.on, "passed": passed, "failed": failed, "skipped": skipped, "failures": failures });
    Ok(Answer { is_negative: failed > 0, ..Answer::new(text, json) })
}

impl Compiled for Tested {
    fn name(&self) -> &str {
        &self.device
    }

    fn compile(&self, module: &Module, weights: Weights<'_>) -> Result<Box<dyn Program>, Diagnostic> {
        let names = module.weights.iter().map(|weight| weight.name.to_string());
        let weights: HashMap<String, Tensor> = names.filter_map(|name| Some((name.clone(), weights(&name)?))).collect();
        let options = Options { device: Some(self.device.clone()), ..Options::default() };
        Ok(Box::new(Ready(Loaded::new(module.clone(), &weights, &options).map_err(first)?)))
    }
}

/// A compiled file.
struct Ready(Loaded);

impl Program for Ready {
    fn run(&self, entry: &str, inputs: &[Tensor]) -> Result<Vec<Tensor>, Diagnostic> {
        self.0.entry(entry).and_then(|caller| caller.run(inputs)).map_err(first)
    }
}

fn first(error: disc::Error) -> Diagnostic {
    let unknown = || Diagnostic::new(Code::E0211, "an error without a message");
    diagnostics(error).into_iter().next().unwrap_or_else(unknown)
}
