//! Gives the compiler a build id: a hash of the sources that determine its output. Cached code of
//! another build is never used.
use sha2::{Digest, Sha256};
use std::{
    env, fs,
    path::{Path, PathBuf},
};

/// Sources that determine generated code, its stored form, and the text of captures.
const SOURCES: [&str; 10] = [
    "disc/src",
    "disc-abi/src",
    "disc-codegen/src",
    "disc-ir/src",
    "disc-llvm/build.rs",
    "disc-llvm/shim",
    "disc-llvm/src",
    "disc-passes/src",
    "disc-python/src",
    "disc-ral/src",
];

fn main() {
    let crates = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("..");
    let mut files = Vec::new();
    let manifests =
        SOURCES.iter().filter_map(|source| source.split_once('/')).map(|(name, _)| crates.join(name).join("Cargo.toml"));
    let shared = ["../Cargo.toml", "../Cargo.lock"].map(|name| crates.join(name));
    for source in SOURCES.iter().map(|source| crates.join(source)).chain(manifests).chain(shared) {
        println!("cargo::rerun-if-changed={}", source.display());
        collect(&source, &mut files);
    }
    files.sort();
    files.dedup();
    let mut hash = Sha256::new();
    for name in ["CARGO_PKG_VERSION", "PROFILE", "OPT_LEVEL", "TARGET"] {
        hash.update(env::var(name).unwrap_or_default());
        hash.update([0]);
    }
    for file in &files {
        let content = fs::read(file).expect("a source file can be read");
        let name = file.strip_prefix(&crates).expect("sources lie beside this crate");
        hash.update(name.to_string_lossy().as_bytes());
        hash.update((content.len() as u64).to_le_bytes());
        hash.update(content);
    }
    let id: String = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo::rustc-env=DISC_BUILD_ID={id}");
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    match fs::read_dir(path) {
        Ok(entries) => entries.flatten().for_each(|entry| collect(&entry.path(), files)),
        Err(_) if path.is_file() => files.push(path.to_owned()),
        // A crate that is built alone has its version instead.
        Err(_) => {}
    }
}
