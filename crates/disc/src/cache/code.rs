//! Stores compiled code in the cache: an artifact as bytes.
//!
//! An entry is the length of a JSON text, the text, the code, the kernels of a device as text, and
//! the program's constants one after the other.
use super::{Cache, Key, Level, Outcome};
use crate::{Artifact, Options, Report, VariantReport, compile::Made, deferred, library, weights::Constants};
use disc_codegen::{host::Offers, target::Compilation};
use disc_ir::Origin;
use disc_ral::{Image, ModuleMeta};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// The JSON text, which describes the other parts of an entry.
#[derive(Serialize, Deserialize)]
struct Description {
    meta: ModuleMeta,
    kernels_by_kind: BTreeMap<String, usize>,
    variants: Vec<VariantReport>,
    versions: usize,
    syncs: usize,
    dims: String,
    notes: Vec<String>,
    target: String,
    code: usize,
    image: Option<ImageDescription>,
    constants: Vec<(String, usize)>,
    recipes: BTreeMap<String, String>,
    origins: BTreeMap<String, Vec<u32>>,
    spent_ms: f64,
}

/// The kernels of a device; their names are those of the metadata.
#[derive(Serialize, Deserialize)]
struct ImageDescription {
    target: String,
    bytes: usize,
}

/// Returns the cache and key for the code of a module; `None` if the cache must not be used: dumps
/// and `fuel` exist to watch the compiler run.
fn place(text: &str, options: &Options, targets: &Compilation) -> Option<(Cache, Key)> {
    let is_plain = options.fuel.is_none() && options.dump_directory().is_none();
    let cache = Cache::new(options.cache.clone().filter(|_| is_plain)?);
    // If the requested library cannot be used, no code can be found.
    let choices = choices(options, library::offers(options, targets).ok()?);
    let (targets, llvm) = (targets.to_string(), disc_llvm::llvm_version());
    Some((cache, Key::of(&[b"code", llvm.as_bytes(), targets.as_bytes(), choices.as_bytes(), text.as_bytes()])))
}

/// Serialises what determines the generated code besides the targets, the compiler and the program:
/// options by their values, `winograd` with its default, and of `library` what it offers here.
fn choices(options: &Options, offers: Offers) -> String {
    format!("{}winograd={} offers={offers:?}", options.code_key(), options.allows_winograd())
}

/// Returns cached code of a module and the data of its compilation, or the outcome of the lookup.
/// `in_part` allows code whose functions are deferred.
pub(crate) fn find(text: &str, options: &Options, targets: &Compilation, in_part: bool) -> Result<(Artifact, Made), Outcome> {
    let (cache, key) = place(text, options, targets).ok_or(Outcome::Off)?;
    if in_part && let Some(found) = deferred::pending(&key, options) {
        tracing::info!("code of a program: this process has it");
        return Ok(found);
    }
    let found = cache.get_as(Level::Code, &key, |bytes| decode(&bytes, targets, key)).ok_or(cache.missed());
    tracing::info!("code of a program: {}", found.as_ref().map_or_else(|missed| missed.name(), |_| Outcome::Hit.name()));
    found
}

/// Returns the key of the code of a module; `None` if the cache must not be used.
pub(crate) fn key(text: &str, options: &Options, targets: &Compilation) -> Option<Key> {
    place(text, options, targets).map(|(_, key)| key)
}

/// Stores the code of a module.
pub(crate) fn keep(text: &str, options: &Options, artifact: &Artifact, made: &Made) {
    if let Some((cache, key)) = place(text, options, &artifact.targets)
        && let Some(bytes) = encode(artifact, made)
    {
        cache.put(Level::Code, &key, &bytes);
    }
}

fn encode(artifact: &Artifact, made: &Made) -> Option<Vec<u8>> {
    let constants: BTreeMap<&String, &Arc<[u8]>> = artifact.constants.iter().collect();
    let description = Description {
        // The lines are those of one program; another one with this code has its own.
        meta: ModuleMeta { lines: BTreeMap::new(), ..ModuleMeta::clone(&artifact.meta) },
        kernels_by_kind: artifact.report.kernels_by_kind.clone(),
        variants: artifact.report.variants.clone(),
        versions: artifact.report.versions,
        syncs: artifact.report.syncs,
        dims: artifact.report.dims.clone(),
        notes: artifact.report.notes.clone(),
        target: artifact.targets.to_string(),
        code: artifact.code.len(),
        image: artifact.image.as_ref().map(|image| ImageDescription { target: image.target.clone(), bytes: image.code.len() }),
        spent_ms: made.spent_ms,
        recipes: made.recipes.iter().map(|(recipe, name)| (recipe.clone(), name.to_string())).collect(),
        origins: artifact.origins.iter().map(|(group, ops)| (group.clone(), ops.iter().map(|op| op.0).collect())).collect(),
        constants: constants.iter().map(|(name, bytes)| ((*name).clone(), bytes.len())).collect(),
    };
    let text = serde_json::to_vec(&description).ok()?;
    let image: &[u8] = artifact.image.as_ref().map_or(&[], |image| &image.code);
    let mut bytes = [&(text.len() as u64).to_le_bytes()[..], &text, &artifact.code, image].concat();
    constants.values().for_each(|constant| bytes.extend_from_slice(constant));
    Some(bytes)
}

fn decode(bytes: &[u8], targets: &Compilation, key: Key) -> Option<(Artifact, Made)> {
    let (length, rest) = bytes.split_first_chunk::<8>()?;
    let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    let description: Description = serde_json::from_slice(text).ok()?;
    if description.target != targets.to_string() {
        return None;
    }
    let (code, mut rest) = rest.split_at_checked(description.code)?;
    let image = match description.image {
        None => None,
        Some(ImageDescription { target, bytes }) => {
            let (code, after) = rest.split_at_checked(bytes)?;
            rest = after;
            let kernels = description.meta.grids.iter().map(|name| name.as_str().into()).collect();
            Some(Image { target, code: code.into(), kernels })
        }
    };
    let mut constants = Constants::default();
    for (name, length) in description.constants {
        let (constant, after) = rest.split_at_checked(length)?;
        constants.insert(name, constant.into());
        rest = after;
    }
    let report = Report {
        kernels: description.kernels_by_kind.values().sum(),
        kernels_by_kind: description.kernels_by_kind,
        variants: description.variants,
        versions: description.versions,
        syncs: description.syncs,
        target: description.target,
        dims: description.dims,
        notes: description.notes,
        code_bytes: code.len(),
        cache: Outcome::Hit,
        ..Report::default()
    };
    let recipes = description.recipes.into_iter().map(|(recipe, name)| (recipe, name.into())).collect();
    let origins = description.origins.into_iter().map(|(group, ops)| (group, ops.into_iter().map(Origin).collect()));
    let artifact = Artifact {
        code: code.into(),
        deferred: None,
        key: Some(key),
        image,
        meta: Arc::new(description.meta),
        report,
        constants: Arc::new(constants),
        origins: Arc::new(origins.collect()),
        targets: targets.clone(),
        source: None,
    };
    rest.is_empty().then(|| (artifact, Made { recipes: Arc::new(recipes), spent_ms: description.spent_ms }))
}
