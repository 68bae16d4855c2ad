//! The library that products are offered to: loaded once a process, with the choices that earlier processes made.
//!
//! Choices are an entry of the cache on disk, of the level `choices`, for this CPU and release of the library. Without a cache they are this
//! process's alone.
use crate::{
    Error, LibraryChoice, Options,
    cache::{Cache, Key, Level},
};
use disc_ral::{Decision, OnDecision, OneDnn, Policy, ProductLibrary, Products};
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

/// What decides whether two modules share choices.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Asked {
    path: Option<PathBuf>,
    is_measured: bool,
    cache: Option<PathBuf>,
}

/// Those that were asked for in this process; none where there is no library.
static KNOWN: Mutex<Option<HashMap<Asked, Option<Arc<Products>>>>> = Mutex::new(None);

/// The library that a module's products are offered to, if its options ask for one and there is one.
pub(crate) fn products(options: &Options) -> Result<Option<Arc<Products>>, Error> {
    let (path, is_measured) = match &options.library {
        LibraryChoice::Off => return Ok(None),
        LibraryChoice::Auto => (None, true),
        LibraryChoice::OneDnn(path) => (path.clone(), false),
    };
    let asked = Asked { path, is_measured, cache: options.cache.clone().filter(|_| is_measured) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(found) = known.get(&asked) {
        return Ok(found.clone());
    }
    let found = match load(&asked) {
        Ok(products) => Some(Arc::new(products)),
        Err(reason) if is_measured => {
            tracing::info!("no library for products: {reason}");
            None
        }
        Err(reason) => return Err(Error::argument(format!("the library oneDNN was asked for, and cannot be used: {reason}"))),
    };
    known.insert(asked, found.clone());
    Ok(found)
}

fn load(asked: &Asked) -> Result<Products, String> {
    let library = OneDnn::load(asked.path.as_deref())?;
    if !asked.is_measured {
        return Ok(Products::new(Box::new(library), Policy::Always, Vec::new(), None));
    }
    let key = Key::of(&[b"choices", cpu().as_bytes(), library.name().as_bytes()]);
    let stored = asked.cache.as_deref().and_then(|directory| Cache::new(directory).get(Level::Choices, &key));
    let known: Vec<Decision> = stored.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
    let store = |directory: &PathBuf| {
        let directory = directory.clone();
        Box::new(move |all: &[Decision]| keep(&directory, &key, all)) as OnDecision
    };
    Ok(Products::new(Box::new(library), Policy::Measured, known, asked.cache.as_ref().map(store)))
}

fn keep(directory: &Path, key: &Key, all: &[Decision]) {
    // A choice has numbers and names alone, which JSON can always say.
    if let Ok(bytes) = serde_json::to_vec(all) {
        Cache::new(directory).put(Level::Choices, key, &bytes);
    }
}

/// What tells apart CPUs on which other choices are right.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, name)| name.trim().to_owned())
}
