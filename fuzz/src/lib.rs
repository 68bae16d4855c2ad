//! Opens packages that a fuzzer made, and reads all that a package holds.
//!
//! Invariant: no code of a package is mapped or run, so nothing here asks for an executable or a
//! session.

use disc_ral::{NewPart, OpenOptions, Package, Verify, checksum, read_archive, write_archive};
use serde_json::{Value, json};

/// The public key of the signed package in the corpus.
pub const PUBLIC_KEY: &str = include_str!("public.pem");
/// Lines between the parts of a package in a text.
const SEPARATOR: &[u8] = b"\n---\n";
/// The names of the parts in a text, in order.
const NAMES: [&str; 6] = [
    "manifest.json",
    "signature.json",
    "targets/t/module.json",
    "targets/t/constants.safetensors",
    "weights.safetensors",
    "targets/t/prepared.bin",
];
const CODE: &str = "targets/t/code.so";

/// Opens a file with and without a required signature, and reads what it holds. Returns true if
/// it is a package.
pub fn open(file: &[u8]) -> bool {
    let signed = OpenOptions { require_signature: Some(PUBLIC_KEY.into()), ..options(Verify::Off) };
    let _ = Package::from_bytes(file, &signed);
    let Ok(package) = Package::from_bytes(file, &options(Verify::Off)) else { return false };
    let is_whole = package.verify().is_ok();
    assert_eq!(is_whole, Package::from_bytes(file, &options(Verify::All)).is_ok());
    let _ = package.weights();
    for entry in package.entries() {
        assert_eq!(package.entry(entry.name()).expect("an entry of the package").inputs(), entry.inputs());
        let _ = (entry.outputs().len(), entry.facts().len(), entry.structure());
    }
    for name in package.manifest().parts.keys() {
        assert!(package.part(name).is_some(), "{name}");
    }
    let _ = format!("{package:?} {:?} {:?}", package.manifest(), package.module().prepared_bytes());
    for site in &package.module().sites {
        let _ = site.message(&[1, -1]);
    }
    is_whole
}

fn options(verify: Verify) -> OpenOptions {
    OpenOptions { verify, ..OpenOptions::default() }
}

/// Returns a container with the parts of `file` and with the right checksums in all places, so
/// that a changed part is read and not refused; `None` if `file` is no container.
pub fn mend(file: &[u8]) -> Option<Vec<u8>> {
    let parts = read_archive(file).ok()?;
    let parts: Vec<(&str, &[u8])> = parts.iter().map(|part| (&*part.name, &file[part.range()])).collect();
    let (_, manifest) = parts.first()?;
    let manifest = with_checksums(manifest, &parts[1..]);
    let pieces = |&(name, bytes): &(_, _)| NewPart { name, pieces: vec![bytes] };
    let mut all: Vec<NewPart<'_>> = parts.iter().map(pieces).collect();
    all[0].pieces = vec![&manifest];
    let mut out = Vec::new();
    write_archive(&all, &mut out).ok()?;
    Some(out)
}

/// Returns a package with the parts in a text, whose manifest has the right checksums.
pub fn package_of(text: &[u8]) -> Vec<u8> {
    let mut parts: Vec<(&str, &[u8])> = NAMES.into_iter().zip(split(text)).collect();
    parts.retain(|(name, bytes)| *name != "signature.json" || !bytes.is_empty());
    parts.push((CODE, b"\x7fELF?"));
    let manifest = with_checksums(parts[0].1, &parts[1..]);
    parts[0].1 = &manifest;
    let parts: Vec<_> = parts.into_iter().map(|(name, bytes)| NewPart { name, pieces: vec![bytes] }).collect();
    let mut out = Vec::new();
    write_archive(&parts, &mut out).expect("names that are fine");
    out
}

fn split(mut text: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(at) = text.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        found.push(&text[..at]);
        text = &text[at + SEPARATOR.len()..];
    }
    found.push(text);
    found
}

/// Writes size and checksum of each part into a manifest, which stays as it is if it is no object
/// or if nothing in it is of another value.
fn with_checksums(manifest: &[u8], parts: &[(&str, &[u8])]) -> Vec<u8> {
    let Ok(Value::Object(mut object)) = serde_json::from_slice(manifest) else { return manifest.to_vec() };
    let Some(Value::Object(known)) = object.get_mut("parts") else { return manifest.to_vec() };
    let before = known.clone();
    for (name, bytes) in parts.iter().filter(|(name, _)| *name != "signature.json") {
        known.insert((*name).into(), json!({ "bytes": bytes.len(), "blake3": checksum(&[bytes]) }));
    }
    // A signed manifest keeps its bytes.
    if *known == before { manifest.to_vec() } else { Value::Object(object).to_string().into_bytes() }
}
