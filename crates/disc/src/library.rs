//! Loads the GEMM library once per process, with the choices that earlier processes made.
//!
//! Choices are an entry of the cache on disk, of the level `choices`, for this CPU, target of the
//! code and release of the library. Without a cache they stay in this process.
//!
//! The device of a GPU finds its libraries; their choices depend only on sizes.
//!
//! Invariant: a stored choice stays, whichever process made it, until the cache is cleared.
use crate::{
    Error, LibraryChoice, Options,
    cache::{Cache, Key, Level},
};
use disc_codegen::{
    host::{Choices, Offers},
    target::{Compilation, Target},
};
use disc_ral::{Decision, Device, GemmDispatch, GemmLibrary, OnDecision, OneDnn, Policy};
use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

/// The key by which modules share choices.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Asked {
    /// Whatever the system has, with choices for the code of a target.
    Measured { cache: Option<PathBuf>, target: String },
    /// From a file, by the name that the system has for it, or whatever the system has.
    Always(Option<PathBuf>),
}

/// The libraries that were requested in this process; `None` if a library could not be loaded.
static KNOWN: Mutex<Option<HashMap<Asked, Option<Arc<GemmDispatch>>>>> = Mutex::new(None);

/// Returns the dispatch for code of these targets, if the options ask for a library and there is
/// one.
pub(crate) fn gemm(options: &Options, targets: &Compilation) -> Result<Option<Arc<GemmDispatch>>, Error> {
    if !targets.device().is_cpu() {
        return Ok(None);
    }
    let unusable = |reason: String| Error::argument(format!("the library oneDNN was asked for, and cannot be used: {reason}"));
    let asked = match &options.library {
        LibraryChoice::Off => return Ok(None),
        choice @ (LibraryChoice::CublasLt | LibraryChoice::Cudnn) => return Err(missing(choice, NOT_FOR_IT)),
        LibraryChoice::Auto => Asked::Measured { cache: options.cache.clone(), target: targets.to_string() },
        LibraryChoice::OneDnn(None) => Asked::Always(None),
        LibraryChoice::OneDnn(Some(path)) => {
            let file = path.canonicalize().map_err(|error| unusable(format!("{}: {error}", path.display())))?;
            Asked::Always(Some(file))
        }
    };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let known = known.get_or_insert_default();
    if let Some(found) = known.get(&asked) {
        return Ok(found.clone());
    }
    let found = match (load(&asked), &asked) {
        (Ok(gemm), _) => Some(Arc::new(gemm)),
        (Err(reason), Asked::Measured { .. }) => {
            tracing::info!("no library for matrix products: {reason}");
            None
        }
        (Err(reason), Asked::Always(_)) => return Err(unusable(reason)),
    };
    known.insert(asked, found.clone());
    Ok(found)
}

/// Returns the choices that code depends on.
pub(crate) fn choices(options: &Options, targets: &Compilation) -> Result<Choices, Error> {
    Ok(Choices { offers: offers(options, targets)?, tf32: options.allows_tf32() })
}

/// Returns the products that code offers to the library that it will be loaded with.
pub(crate) fn offers(options: &Options, targets: &Compilation) -> Result<Offers, Error> {
    match (targets.device(), &options.library) {
        (Target::Nvptx { .. }, LibraryChoice::Auto) => return Ok(Offers::ProductsAndConvolutions),
        (Target::Nvptx { .. }, LibraryChoice::CublasLt) => return Ok(Offers::Products),
        (Target::Nvptx { .. }, LibraryChoice::Cudnn) => return Ok(Offers::Convolutions),
        (device, choice @ (LibraryChoice::CublasLt | LibraryChoice::Cudnn)) if !device.is_cpu() => {
            return Err(missing(choice, NOT_FOR_IT));
        }
        (device, _) if !device.is_cpu() => return Ok(Offers::Nothing),
        _ => {}
    }
    let gemm = gemm(options, targets)?;
    Ok(match gemm.map(|gemm| gemm.policy()) {
        None => Offers::Nothing,
        Some(Policy::Measured) => Offers::Products,
        Some(Policy::Always) => Offers::AllProducts,
    })
}

/// Checks that a device has the library that was asked for.
pub(crate) fn check_device(options: &Options, device: &dyn Device) -> Result<(), Error> {
    let found = match &options.library {
        LibraryChoice::CublasLt => device.gemm_library(),
        LibraryChoice::Cudnn => device.convolution_library(),
        _ => return Ok(()),
    };
    found.map(drop).map_err(|reason| missing(&options.library, &reason))
}

/// The reason that a device has no library of NVIDIA's.
const NOT_FOR_IT: &str = "it is for GPUs of NVIDIA";

fn missing(choice: &LibraryChoice, reason: &str) -> Error {
    let name = if *choice == LibraryChoice::Cudnn { "cuDNN" } else { "cuBLASLt" };
    Error::argument(format!("the library {name} was asked for, and cannot be used: {reason}"))
}

fn load(asked: &Asked) -> Result<GemmDispatch, String> {
    let (cache, target) = match asked {
        Asked::Measured { cache, target } => (cache.as_deref().map(Cache::new), target),
        Asked::Always(path) => {
            let library = OneDnn::load(path.as_deref())?;
            return Ok(GemmDispatch::new(Box::new(library), Policy::Always, Vec::new(), None));
        }
    };
    let library = OneDnn::load(None)?;
    let key = Key::of(&[b"choices", cpu().as_bytes(), target.as_bytes(), library.name().as_bytes()]);
    let known = cache.as_ref().map_or_else(Vec::new, |cache| stored(cache, &key));
    let store = cache.map(|cache| Box::new(move |made: &Decision| keep(&cache, &key, made)) as OnDecision);
    Ok(GemmDispatch::new(Box::new(library), Policy::Measured, known, store))
}

fn stored(cache: &Cache, key: &Key) -> Vec<Decision> {
    let bytes = cache.get(Level::Choices, key);
    bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default()
}

/// Adds a choice to the stored ones, which other processes may have extended. If two processes add
/// at the same moment, one choice is lost: a later process measures that class again.
fn keep(cache: &Cache, key: &Key, made: &Decision) {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut all = stored(cache, key);
    if all.iter().any(|known| known.key == made.key) {
        return;
    }
    all.push(*made);
    // A choice has only numbers and names, which JSON can represent.
    if let Ok(bytes) = serde_json::to_vec(&all) {
        cache.put(Level::Choices, key, &bytes);
    }
}

/// Returns a text that differs for CPUs with different choices.
fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':')).map_or_else(String::new, |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ral::{GemmKey, Way};

    #[test]
    fn choices_of_several_processes_are_stored_together() {
        let folder = std::env::temp_dir().join(format!("disc-stored-choices-{}", std::process::id()));
        let (cache, key) = (Cache::new(&folder), Key::of(&[b"some"]));
        let made = |rows: i64, way: Way| {
            let key = GemmKey { rows, columns: 64, sums: 32, dtype: 3, threads: 1, form: 0 };
            Decision { key, way, nanoseconds_per_row: [Some(2.0), Some(1.5)] }
        };
        let [mine, theirs] = [made(8, Way::Library), made(16, Way::Kernel)];
        keep(&cache, &key, &mine);
        keep(&cache, &key, &theirs);
        assert_eq!(stored(&cache, &key), [mine, theirs]);
        keep(&cache, &key, &made(8, Way::Kernel));
        assert_eq!(stored(&cache, &key), [mine, theirs], "the choice that was made first stays");
        cache.clear();
        keep(&cache, &key, &theirs);
        assert_eq!(stored(&cache, &key), [theirs], "what was cleared does not come back");
        std::fs::remove_dir_all(folder).unwrap();
    }
}
