//! Exports programs as packages: compiles them for each target, and writes code, weights and
//! manifest into one file. docs/package.md describes the format; disc-ral reads it.

mod input_names;
mod merge;

use crate::{
    Artifact, Error, LibraryChoice, Options, Specialize, VERSION, compile, compile::guarded, dump::with_lines, weights::Constants,
};
use disc_ir::Module;
use disc_ral::{
    Blobs, EntryInfo, EntryMeta, FORMAT_VERSION, IR, InputInfo, MANIFEST, Manifest, ModuleMeta, NewPart, OutputInfo, PartInfo,
    Source, StoredTensor, TargetInfo, WEIGHTS, Weight, checksum, write_archive, write_atomically, write_safetensors,
};
use std::{collections::BTreeMap, io::Write, path::Path, sync::Arc};

/// A program that becomes an entry of a package, or all entries that it has.
pub struct Program {
    pub module: Module,
    /// The values of its weights.
    pub weights: Vec<(String, Weight)>,
    /// The view of its callers; `None` for a program that keeps its functions' names and outputs.
    pub entry: Option<EntryView>,
}

/// An entry as callers see it: what the compiled function has beside it stays hidden.
pub struct EntryView {
    pub name: String,
    /// For each input, its name, which may be any text; `None` for the names of the parameters.
    pub inputs: Option<Vec<String>>,
    /// For each output, its name and where its value is.
    pub outputs: Vec<(String, Source)>,
    /// The structure of arguments and results, for who reads the package.
    pub structure: Option<serde_json::Value>,
}

/// Settings of an export beside those of the compiler.
#[derive(Clone, Debug, Default)]
pub struct ExportOptions {
    /// The targets to compile for: processors such as `x86-64-v3`, and devices such as
    /// `nvptx:sm_90` or `nvptx:sm_90 on x86-64-v3`, whose host program is for this machine's
    /// processor unless it is named. None: the one of the compiler's options, which may name a
    /// device.
    pub targets: Vec<String>,
    /// Keep the program as text.
    pub ir: bool,
    /// Keep weights as kernels read them, for processors that this machine can run. On a device
    /// they are prepared when the package is loaded.
    pub prepared: bool,
}

/// Code for one target, and the weights that its `prepare` entries made here.
struct Compiled {
    artifact: Artifact,
    info: TargetInfo,
    module: Vec<u8>,
    prepared: Option<Arc<Blobs>>,
}

/// Compiles programs, and writes them to `path` as one package. An older file of that name is
/// replaced when the new one is complete.
///
/// # Errors
/// As [`compile`], two entries of one name, a weight without a value, or a failure to write.
pub fn export(programs: Vec<Program>, path: &Path, options: &Options, export: &ExportOptions) -> Result<(), Error> {
    guarded(|| {
        let package = Package::new(programs, options, export)?;
        let written = write_atomically(path, |out| package.write(out));
        written.map_err(|error| Error::argument(format!("{} cannot be written: {error}", path.display())))
    })
}

/// Compiles programs. Returns them as a package in memory.
///
/// # Errors
/// As [`export`].
pub fn export_bytes(programs: Vec<Program>, options: &Options, export: &ExportOptions) -> Result<Vec<u8>, Error> {
    guarded(|| {
        let mut bytes = Vec::new();
        Package::new(programs, options, export)?.write(&mut bytes).map_err(|error| Error::argument(error.to_string()))?;
        Ok(bytes)
    })
}

/// Everything that a package has, compiled.
struct Package {
    entries: Vec<EntryInfo>,
    targets: Vec<Compiled>,
    weights: Vec<(String, Weight)>,
    text: Option<String>,
}

impl Package {
    fn new(programs: Vec<Program>, options: &Options, export: &ExportOptions) -> Result<Self, Error> {
        let mut views = Vec::new();
        let mut sources = Vec::new();
        for Program { module, weights, entry } in programs {
            sources.push(merge::Source { module, entry: entry.as_ref().map(|view| view.name.clone()), weights });
            views.extend(entry);
        }
        let merged = merge::merge(sources)?;
        let text = export.ir.then(|| with_lines(&merged.module));
        let names: Vec<Option<&String>> = match &export.targets[..] {
            [] => vec![None],
            names => names.iter().map(Some).collect(),
        };
        let mut targets: Vec<Compiled> = Vec::new();
        for name in names {
            let compiled = Compiled::new(&merged, &views, name, options, export.prepared)?;
            if targets.iter().any(|other| other.info.name == compiled.info.name) {
                return Err(Error::argument(format!("the target `{}` is named twice", compiled.info.name)));
            }
            targets.push(compiled);
        }
        let meta = &targets.first().ok_or_else(|| Error::argument("an export needs a target"))?.artifact.meta;
        let entries = meta.entries.iter().map(|entry| describe(entry, views.iter().find(|view| view.name == entry.name)));
        let mut entries: Vec<EntryInfo> = entries.collect::<Result<_, _>>()?;
        for entry in &mut entries {
            entry.temporary_bytes = targets.iter().filter_map(|target| target.temporary_bytes(&entry.name)).collect();
        }
        Ok(Self { entries, targets, weights: merged.weights, text })
    }

    fn write(&self, out: &mut dyn Write) -> std::io::Result<()> {
        let weights: Vec<_> = self.weights.iter().map(|(name, weight)| plain(name, weight)).collect();
        let (header, tensors) = write_safetensors(&weights);
        let constants: Vec<Vec<u8>> = self.targets.iter().map(Compiled::constants).collect();
        let mut parts: Vec<(String, Vec<&[u8]>)> = Vec::new();
        parts.extend(self.text.iter().map(|text| (IR.to_owned(), vec![text.as_bytes()])));
        for (target, constants) in self.targets.iter().zip(&constants) {
            parts.push((target.info.code(), vec![&target.artifact.code]));
            let kernels = target.artifact.image.as_ref().zip(target.info.kernels());
            parts.extend(kernels.map(|(image, name)| (name, vec![&*image.code])));
            parts.push((target.info.module(), vec![&target.module]));
            parts.push((target.info.constants(), vec![constants]));
        }
        parts.push((WEIGHTS.into(), [&header[..]].into_iter().chain(tensors).collect()));
        for target in &self.targets {
            let blobs = target.prepared.as_ref().map(|blobs| blobs.contents());
            parts.extend(blobs.map(|bytes| (target.info.prepared_weights(), vec![bytes])));
        }
        let info =
            |pieces: &[&[u8]]| PartInfo { bytes: pieces.iter().map(|piece| piece.len() as u64).sum(), blake3: checksum(pieces) };
        let infos = |is_device: bool| {
            let infos = self.targets.iter().map(|target| &target.info);
            infos.filter(|info| info.device.is_some() == is_device).cloned().collect()
        };
        let manifest = Manifest {
            format_version: FORMAT_VERSION,
            build: format!("disc {VERSION} ({})", &env!("DISC_BUILD_ID")[..16]),
            entries: self.entries.clone(),
            targets: infos(false),
            device_targets: infos(true),
            parts: parts.iter().map(|(name, pieces)| (name.clone(), info(pieces))).collect::<BTreeMap<_, _>>(),
        };
        let manifest = serde_json::to_vec_pretty(&manifest)?;
        let first = NewPart { name: MANIFEST, pieces: vec![&manifest] };
        let others = parts.iter().map(|(name, pieces)| NewPart { name, pieces: pieces.clone() });
        write_archive(&[first].into_iter().chain(others).collect::<Vec<_>>(), out)
    }
}

fn plain<'a>(name: &'a str, weight: &'a Weight) -> StoredTensor<'a> {
    StoredTensor { name: name.into(), dtype: weight.dtype(), sizes: weight.sizes().into(), bytes: weight.bytes() }
}

impl Compiled {
    fn new(
        merged: &merge::Merged,
        views: &[EntryView],
        target: Option<&String>,
        options: &Options,
        is_prepared: bool,
    ) -> Result<Self, Error> {
        let options = Options {
            target: target.cloned().or_else(|| options.target.clone()),
            // A device has a target of its own, and would be that of every name here.
            device: options.device.clone().filter(|_| target.is_none()),
            library: LibraryChoice::Off,
            specialize: Specialize::Off,
            ..options.clone()
        };
        let mut artifact = compile(merged.module.clone(), &options)?;
        input_names::apply(Arc::make_mut(&mut artifact.meta), views)?;
        let device = artifact.image.as_ref().map(|image| image.target.clone());
        let host = artifact.targets.host();
        let (arch, features) = host.needs().ok_or_else(|| Error::target(format!("no package for `{host}` yet")))?;
        let name = artifact.targets.to_string();
        let prepared = match is_prepared && device.is_none() && host.check_host().is_ok() {
            true => artifact.load(merged.weights.clone(), &options)?.prepared_weights(),
            false => None,
        };
        let info = TargetInfo {
            folder: folder(&name),
            name,
            device,
            arch: arch.into(),
            features: features.into_iter().map(str::to_owned).collect(),
            prepared: prepared.is_some(),
        };
        let module = serde_json::to_vec(&*artifact.meta).map_err(|error| Error::compile(error.to_string()))?;
        Ok(Self { artifact, info, module, prepared })
    }

    /// Returns the name of the target, and the bytes of temporary memory of an entry.
    fn temporary_bytes(&self, entry: &str) -> Option<(String, String)> {
        let entry = self.artifact.meta.entries.iter().find(|other| other.name == entry)?;
        Some((self.info.name.clone(), entry.temporary_bytes.clone()?))
    }

    /// Returns the program's constants as a file.
    fn constants(&self) -> Vec<u8> {
        let meta: &ModuleMeta = &self.artifact.meta;
        let constants: &Constants = &self.artifact.constants;
        let mut entries = Vec::new();
        for weight in &meta.weights {
            let Some(bytes) = constants.get(&weight.name) else { continue };
            let is_whole = weight.bytes() == Some(bytes.len());
            let sizes: &[i64] = if is_whole { &weight.sizes } else { &[] };
            entries.push(StoredTensor { name: (&*weight.name).into(), dtype: weight.dtype, sizes: sizes.into(), bytes });
        }
        let (header, pieces) = write_safetensors(&entries);
        [header, pieces.concat()].concat()
    }
}

/// Returns the folder for the parts of a target: a name of a part has no `:` and no space.
fn folder(target: &str) -> String {
    format!("targets/{}", target.replace(':', "-").replace(" on ", "/"))
}

/// Describes an entry for its callers.
fn describe(entry: &EntryMeta, view: Option<&EntryView>) -> Result<EntryInfo, Error> {
    let inputs = entry.inputs.iter().map(|input| InputInfo::new(&input.name, input.dtype, input.dims.clone(), input.written));
    let output = |(name, source): &(String, Source)| {
        let missing = || Error::argument(format!("output `{name}` of `{}` has no value", entry.name));
        match *source {
            Source::Output(i) => {
                let made = entry.outputs.get(i).ok_or_else(missing)?;
                Ok(OutputInfo::new(name, made.dtype, made.dims.clone(), *source))
            }
            Source::Input(i) => {
                let given = entry.inputs.get(i).ok_or_else(missing)?;
                Ok(OutputInfo::new(name, given.dtype, given.dims.clone(), *source))
            }
        }
    };
    let all = || entry.outputs.iter().enumerate().map(|(i, output)| (output.name.clone(), Source::Output(i))).collect::<Vec<_>>();
    let outputs = view.map_or_else(all, |view| view.outputs.clone());
    Ok(EntryInfo {
        name: entry.name.clone(),
        inputs: inputs.collect(),
        outputs: outputs.iter().map(output).collect::<Result<_, Error>>()?,
        facts: entry.constraints.clone(),
        temporary_bytes: BTreeMap::new(),
        structure: view.and_then(|view| view.structure.clone()),
    })
}
