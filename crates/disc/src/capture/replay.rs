//! Runs a captured call again, compiled and by the interpreter.

use super::{Capture, Output};
use crate::{
    Artifact, Error, Options, Specialize, compile,
    stages::quantized,
    tensors::{dtype_of_runtime, from_host, to_host},
};
use disc_ir::{
    Code, Diagnostic,
    interp::{Limits, Tensor, run_with},
};
use disc_ral::{HostOutput, HostOutputs, TensorRef, Weight};
use std::slice;

/// The outcome of running a captured call again.
#[derive(Debug)]
pub struct Replay {
    /// The outputs of compiled code, or its failure.
    pub compiled: Result<Vec<Tensor>, Error>,
    /// The outputs of the interpreter, or its failure. It computes with the weights that compiled
    /// code reads: quantised, if the options say so.
    pub expected: Result<Vec<Tensor>, Diagnostic>,
    /// Outputs of the captured call that compiled code did not compute again bit by bit; `None` if
    /// the capture has no outputs.
    pub differing_bits: Option<Vec<usize>>,
}

/// Runs a captured call again with these options; target and threads are those of the capture,
/// unless the options name others.
pub fn replay(capture: &Capture, options: &Options) -> Replay {
    let options = &Options {
        target: options.target.clone().or_else(|| capture.facts.target.clone()),
        threads: options.threads.or(capture.facts.threads),
        specialize: Specialize::Off,
        ..options.clone()
    };
    // A module that cannot be quantised fails when it is compiled, too.
    let module = quantized(capture.module.clone(), options).unwrap_or_else(|_| capture.module.clone());
    let expected = {
        let weight = |name: &str| capture.weights.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor.clone());
        run_with(&module, &capture.entry, &capture.inputs, &weight, Limits::default())
    };
    let compiled = compiled(capture, options);
    let captured = &capture.facts.outputs;
    let differing_bits = compiled.as_ref().ok().filter(|_| !captured.is_empty()).map(|outputs| {
        let again: Vec<Output> = outputs.iter().map(Output::of).collect();
        (0..captured.len().max(again.len())).filter(|&i| captured.get(i) != again.get(i)).collect()
    });
    Replay { compiled, expected, differing_bits }
}

fn compiled(capture: &Capture, options: &Options) -> Result<Vec<Tensor>, Error> {
    let artifact: Artifact = compile(capture.module.clone(), options)?;
    let weights = capture.weights.iter().map(|(name, tensor)| Ok((name.clone(), Weight::from(to_host(tensor)?))));
    let executable = artifact.load(weights.collect::<Result<_, Error>>()?, options)?;
    let missing = || Error::argument(format!("the program has no entry `{}`", capture.entry));
    let entry = executable.meta().entry(&capture.entry).ok_or_else(missing)?;
    let meta = &executable.meta().entries[entry];
    let mut inputs = capture.inputs.iter().map(to_host).collect::<Result<Vec<_>, _>>()?;
    let mut outputs = HostOutputs::new();
    let refs: Vec<TensorRef<'_>> = inputs
        .iter_mut()
        .enumerate()
        .map(|(i, input)| match meta.inputs.get(i).is_some_and(|meta| meta.written) {
            true => input.as_written_input(),
            false => input.as_input(),
        })
        .collect();
    executable.with_session(|session| executable.run(entry, session, &refs, &mut outputs))?;
    (0..meta.outputs.len()).map(|i| output(&outputs, i)).collect()
}

fn output(outputs: &HostOutputs, index: usize) -> Result<Tensor, Error> {
    let lost = || Error::from(Diagnostic::new(Code::E0609, format!("output {index} was not made")));
    match outputs.get(index).ok_or_else(lost)? {
        HostOutput::Fresh(tensor) => from_host(tensor),
        HostOutput::Alias { dtype, data, sizes, strides: None, .. } => {
            let bytes = disc_ral::bytes_of(*dtype, sizes).ok_or_else(lost)?;
            // SAFETY: a contiguous view of an input, which the caller still has.
            let bytes = unsafe { slice::from_raw_parts(*data, bytes) };
            Ok(Tensor::new(dtype_of_runtime(*dtype), sizes.clone(), bytes.to_vec())?)
        }
        HostOutput::Alias { .. } => Err(Error::from(Diagnostic::new(Code::E0609, "an output is a strided view"))),
    }
}
