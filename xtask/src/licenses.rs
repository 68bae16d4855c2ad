//! Collects the licence texts of every crate that is linked into the wheel, in one file.
//!
//! The texts of LLVM, zlib, zstd, libstdc++ and Rust's own libraries are in licenses/, written
//! once.
//!
//! - A crate without a licence file is an error, unless it names a licence whose text stands for
//!   all (`STANDARD`).

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use anyhow::{Context, Result, bail};
use cargo_metadata::{CargoOpt, DependencyKind, Metadata, MetadataCommand, Package, PackageId};

const SHIPPED: &str = "disc-python";
const FILE: &str = "RUST_CRATES.txt";
const STARTS: &[&str] = &["license", "licence", "copying", "copyright", "notice", "unlicense"];
/// Texts without a name of a person in them: the crate need not bring its own copy.
const STANDARD: &[(&str, &str)] = &[("Apache-2.0", include_str!("../../LICENSE"))];

pub(crate) fn write(root: &Path, out: &Path) -> Result<()> {
    let metadata = MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .features(CargoOpt::AllFeatures)
        .other_options(["--filter-platform".to_owned(), "x86_64-unknown-linux-gnu".to_owned()])
        .exec()?;
    let packages = linked(&metadata)?;
    let text = document(&packages)?;
    fs::create_dir_all(out).with_context(|| out.display().to_string())?;
    fs::write(out.join(FILE), text)?;
    eprintln!("licences of {} crates: {}", packages.len(), out.join(FILE).display());
    Ok(())
}

/// The outside crates that the shipped one reaches through ordinary dependencies.
fn linked(metadata: &Metadata) -> Result<Vec<&Package>> {
    let Some(resolve) = &metadata.resolve else { bail!("cargo metadata gave no dependency graph") };
    let nodes: BTreeMap<&PackageId, _> = resolve.nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name == SHIPPED).context("the shipped crate exists")?;
    let mut reached = BTreeSet::new();
    let mut open = vec![&start.id];
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            let normal = |d: &&cargo_metadata::NodeDep| d.dep_kinds.iter().any(|k| k.kind == DependencyKind::Normal);
            open.extend(nodes[id].deps.iter().filter(normal).map(|dependency| &dependency.pkg));
        }
    }
    let mut packages: Vec<&Package> =
        metadata.packages.iter().filter(|package| package.source.is_some() && reached.contains(&package.id)).collect();
    packages.sort_by_key(|package| (package.name.to_string(), package.version.clone()));
    Ok(packages)
}

/// Lists each text once, under the names of the crates that have it.
fn document(packages: &[&Package]) -> Result<String> {
    let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let license = package.license.as_deref().unwrap_or("see below");
        for text in texts(package.name.as_str(), license, &files(package)?)? {
            owners.entry(text).or_default().push(format!("{} {} ({license})", package.name, package.version));
        }
    }
    let mut sections: Vec<(Vec<String>, String)> = owners.into_iter().map(|(text, owners)| (owners, text)).collect();
    sections.sort();
    let mut document = String::from("Licences of the Rust crates that are linked into this package.\n");
    for (owners, text) in sections {
        document += &format!("\n{}\n{}\n\n{}\n", "=".repeat(80), owners.join("\n"), text.trim_end());
    }
    Ok(document)
}

fn files(package: &Package) -> Result<Vec<String>> {
    let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
    let mut texts = Vec::new();
    let mut paths: Vec<_> = fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?.into_iter().map(|e| e.path()).collect();
    paths.sort();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
        if STARTS.iter().any(|start| name.starts_with(start)) && !name.ends_with(".rs") {
            texts.push(fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
    }
    Ok(texts)
}

fn texts(name: &str, license: &str, files: &[String]) -> Result<Vec<String>> {
    if !files.is_empty() {
        return Ok(files.to_vec());
    }
    let standard = STANDARD.iter().find(|(id, _)| license.split([' ', '/', '(', ')']).any(|word| word == *id));
    match standard {
        Some((_, text)) => Ok(vec![(*text).to_owned()]),
        None => bail!("crate `{name}` ({license}) has no licence file: replace the crate, or write its text down"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_without_a_text_is_an_error() {
        assert!(texts("a", "BSD-3-Clause", &[]).is_err());
        assert!(texts("a", "MIT", &[]).is_err());
    }

    #[test]
    fn its_own_text_comes_before_the_standard_one() {
        assert_eq!(texts("a", "MIT OR Apache-2.0", &["own".to_owned()]).unwrap(), ["own"]);
        assert!(texts("a", "MIT OR Apache-2.0", &[]).unwrap()[0].contains("Apache License"));
    }
}
