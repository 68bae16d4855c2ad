//! Summarises a package, whether or not this processor can run it.
use super::list;
use crate::{answer::Answer, commands::package::failed};
use disc::ral::{Archive, EntryInfo, InputInfo, OpenOptions, OutputInfo, SIGNATURE, Source, TargetInfo, bytes_of};
use disc_ir::Diagnostic;
use serde_json::{Value, json};
use std::path::Path;

pub(in crate::commands) fn inspect(path: &Path, options: &OpenOptions) -> Result<Answer, Vec<Diagnostic>> {
    let archive = Archive::open(path, options).map_err(failed)?;
    let weights = archive.weights().map_err(failed)?;
    let bytes: usize = weights.iter().map(|(_, dtype, sizes)| bytes_of(*dtype, sizes).unwrap_or(0)).sum();
    let manifest = archive.manifest();
    let is_signed = archive.parts().any(|(name, _)| name == SIGNATURE);
    let mut text = format!("package of {}, format {}\n", manifest.build, manifest.format_version);
    text += match (is_signed, options.require_signature.is_some()) {
        (true, true) => "signed by the owner of the key\n",
        (true, false) => "signed, by whom is not checked\n",
        (false, _) => "not signed\n",
    };
    text.extend(manifest.entries.iter().map(of_entry));
    text += "\ntargets\n";
    text.extend(manifest.targets.iter().chain(&manifest.device_targets).map(of_target));
    text += &format!("\nweights: {}, {bytes} bytes\n\nparts\n", weights.len());
    let wide = archive.parts().map(|(name, _)| name.len()).max().unwrap_or(0);
    text.extend(archive.parts().map(|(name, bytes)| format!("  {name:<wide$}  {} bytes\n", bytes.len())));
    let parts: Vec<Value> = archive.parts().map(|(name, bytes)| json!({ "name": name, "bytes": bytes.len() })).collect();
    let json = json!({
        "format_version": manifest.format_version, "build": manifest.build, "signed": is_signed,
        "entries": manifest.entries.iter().map(entry_json).collect::<Vec<_>>(),
        "targets": manifest.targets.iter().chain(&manifest.device_targets).map(target_json).collect::<Vec<_>>(),
        "weights": { "count": weights.len(), "bytes": bytes }, "parts": parts,
    });
    Ok(Answer::new(text, json))
}

fn of_entry(entry: &EntryInfo) -> String {
    let input = |input: &InputInfo| {
        let written = if input.is_written() { ", written" } else { "" };
        format!("{}: {}[{}]{written}", input.name(), input.dtype(), input.dims().join(", "))
    };
    let output = |output: &OutputInfo| {
        let source = match output.source() {
            Source::Input(i) => entry.inputs.get(i).map_or_else(String::new, |input| format!(", the input {}", input.name())),
            Source::Output(_) => String::new(),
        };
        format!("{}: {}[{}]{source}", output.name(), output.dtype(), output.dims().join(", "))
    };
    let mut text = format!("\nentry {}\n", entry.name);
    text += &list("takes", &entry.inputs.iter().map(input).collect::<Vec<_>>());
    text += &list("gives", &entry.outputs.iter().map(output).collect::<Vec<_>>());
    text += &list("facts", &entry.facts);
    let memory: Vec<String> =
        entry.temporary_bytes.iter().map(|(target, bytes)| format!("{bytes} bytes at most ({target})")).collect();
    text + &list("memory", &memory)
}

fn of_target(target: &TargetInfo) -> String {
    let runs = match (target.runs_here(), &target.device) {
        (true, None) => "runs here".into(),
        // A device is asked for when a package is opened on it.
        (true, Some(device)) => format!("runs here on a device for `{device}`"),
        (false, _) => "does not run here".to_owned(),
    };
    let prepared = if target.prepared { ", with prepared weights" } else { "" };
    format!("  {} ({}), {runs}{prepared}\n    needs {}\n", target.name, target.arch, target.features.join(" "))
}

fn entry_json(entry: &EntryInfo) -> Value {
    let input = |input: &InputInfo| json!({ "name": input.name(), "dtype": input.dtype().name(), "dims": input.dims(), "written": input.is_written() });
    let output = |output: &OutputInfo| json!({ "name": output.name(), "dtype": output.dtype().name(), "dims": output.dims() });
    json!({
        "name": entry.name, "inputs": entry.inputs.iter().map(input).collect::<Vec<_>>(),
        "outputs": entry.outputs.iter().map(output).collect::<Vec<_>>(), "facts": entry.facts, "temporary_bytes": entry.temporary_bytes,
    })
}

fn target_json(target: &TargetInfo) -> Value {
    let processor = target.name.rsplit(' ').next().unwrap_or_default();
    json!({
        "name": target.name, "device": target.device, "arch": target.arch, "extensions": processor.split('+').skip(1).collect::<Vec<_>>(),
        "features": target.features, "prepared": target.prepared, "runs_here": target.runs_here(),
    })
}
