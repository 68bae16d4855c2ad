//! Runs captured calls again, and makes failing ones minimal: `disc replay` and `disc reduce`.
use super::arguments::{MachineArguments, ReduceArguments, ReplayArguments};
use crate::{
    answer::{Answer, diagnostics},
    run::difference_beyond,
};
use disc::{
    ActivationForm, Options,
    capture::{self, Capture, Replay},
};
use disc_ir::Diagnostic;
use serde_json::json;

/// The difference that is allowed where rows are rounded to steps of int8, as `disc.check` allows.
const INT8_TOLERANCE: f64 = 2e-2;

/// Runs a captured call. The answer is negative if compiled code fails, or gives other results than
/// the interpreter or than the captured call.
pub(super) fn replay(given: &ReplayArguments) -> Result<Answer, Vec<Diagnostic>> {
    let capture = Capture::read(&given.file).map_err(diagnostics)?;
    let options = options(&capture, &given.machine)?;
    let replay = capture::replay(&capture, &options);
    let fault = fault(&replay, &options);
    let bits = match &replay.differing_bits {
        None => "the capture has no results",
        Some(outputs) if outputs.is_empty() => "the results are those of the capture, bit by bit",
        Some(_) => "the results differ in bits from those of the capture",
    };
    let captured = capture.facts.error.as_ref().map(|error| format!("captured failure: {error}\n")).unwrap_or_default();
    let expected = fault.as_deref().unwrap_or("as the interpreter");
    let differs = replay.differing_bits.as_ref().is_some_and(|outputs| !outputs.is_empty());
    let json = json!({
        "entry": capture.entry, "fault": fault, "differing_outputs": replay.differing_bits, "captured_error": capture.facts.error,
    });
    let answer = Answer::new(format!("{captured}replay: {expected}; {bits}\n"), json);
    Ok(Answer { is_negative: fault.is_some() || differs, ..answer })
}

/// Makes a captured call minimal, and writes it beside the old one; nothing is written for a call
/// that is right.
pub(super) fn reduce(given: &ReduceArguments) -> Result<Answer, Vec<Diagnostic>> {
    let capture = Capture::read(&given.file).map_err(diagnostics)?;
    let options = options(&capture, &given.machine)?;
    let mut fails = |part: &Capture| fault(&capture::replay(part, &options), &options).is_some();
    let Some(reduced) = capture::reduce(&capture, &mut fails).map_err(diagnostics)? else {
        let text = "the call gives the right result; nothing to reduce\n";
        return Ok(Answer::new(text, json!({ "capture": null, "ops": null, "runs": 1, "program": null })));
    };
    let stem = given.file.file_stem().unwrap_or_default().to_string_lossy();
    let output = given.output.clone().unwrap_or_else(|| given.file.with_file_name(format!("{stem}-reduced.discap")));
    reduced.capture.write(&output).map_err(diagnostics)?;
    let text = reduced.capture.module.to_string();
    let path = output.display().to_string();
    let json = json!({ "capture": path, "ops": reduced.ops, "runs": reduced.runs, "program": text });
    Ok(Answer::new(format!("{text}\nwrote {path}: {} ops, after {} runs\n", reduced.ops, reduced.runs), json))
}

/// Returns the options of the captured call, with the machine of the command line.
fn options(capture: &Capture, machine: &MachineArguments) -> Result<Options, Vec<Diagnostic>> {
    let mut options = Options::default();
    for (name, text) in &capture.facts.options {
        // Python writes True and False.
        let text = if matches!(&**text, "True" | "False") { text.to_lowercase() } else { text.clone() };
        options.set_text(name, &text).map_err(diagnostics)?;
    }
    let MachineArguments { target, threads } = machine;
    Ok(Options { target: target.clone().or(options.target), threads: threads.or(options.threads), ..options })
}

/// Returns the first difference between compiled code and the interpreter; a call that both refuse
/// has none.
fn fault(replay: &Replay, options: &Options) -> Option<String> {
    // A number halfway between two steps is rounded up or down by the last bit of an earlier sum.
    let least = if options.activations == ActivationForm::Int8 { INT8_TOLERANCE } else { 0.0 };
    match (&replay.compiled, &replay.expected) {
        (Ok(found), Ok(expected)) => difference_beyond(found, expected, least),
        (Err(error), Ok(_)) => Some(format!("compiled code fails: {}", error.message())),
        (Ok(_), Err(error)) => Some(format!("the interpreter fails: {}", error.message)),
        (Err(_), Err(_)) => None,
    }
}
