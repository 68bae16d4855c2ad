//! Finds a library of NVIDIA's that computes a part of a model: the copy that this process has
//! loaded, that of an installed package, that of the system.
//!
//! Invariant: where the process has loaded a copy, as a framework does, no other one is loaded.
use super::shared_library::{SharedLibrary, in_packages};
use std::path::{Path, PathBuf};

/// The folder of CUDA's libraries where it is installed for all users.
const SYSTEM: &str = "/usr/local/cuda/lib64";

/// The names of a library, best first.
pub(super) struct Names<'n> {
    /// Those that it is loaded by.
    pub(super) whole: &'n [&'n str],
    /// Those of its parts, which a process may have loaded without the whole.
    pub(super) parts: &'n [&'n str],
}

impl Names<'_> {
    /// Returns what is made of the first library that `works`.
    ///
    /// # Errors
    /// The reason that there is none.
    pub(super) fn first<T>(&self, packages: &[PathBuf], works: impl Fn(SharedLibrary) -> Result<T, String>) -> Result<T, String> {
        let mut all = self.whole.iter().chain(self.parts);
        if let Some((name, library)) = all.find_map(|name| Some((name, SharedLibrary::loaded(name)?))) {
            return works(library).map_err(|reason| format!("{name}, which this process has loaded: {reason}"));
        }
        let names: Vec<String> = self.whole.iter().map(|&name| name.to_owned()).collect();
        let of_system = names.iter().flat_map(|name| [PathBuf::from(name), Path::new(SYSTEM).join(name)]);
        let mut refused = String::new();
        for path in in_packages(packages, &names).into_iter().chain(of_system) {
            match SharedLibrary::open(&path).and_then(&works) {
                Ok(found) => return Ok(found),
                // A file that is there says more than one that is not.
                Err(reason) if refused.is_empty() || path.is_file() => refused = format!("{}: {reason}", path.display()),
                Err(_) => {}
            }
        }
        Err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A library that every process has, as a part of one that this process has not.
    const PART: Names<'_> = Names { whole: &["libdisc_no_such.so.1"], parts: &["libc.so.6"] };

    #[test]
    fn a_part_that_is_loaded_is_taken() {
        let found = PART.first(&[], |library| Ok(library.file_of("getpid").is_some()));
        assert_eq!(found, Ok(true));
    }

    #[test]
    fn behind_a_loaded_library_no_other_one_is_tried() {
        let tried = std::cell::Cell::new(0);
        let refused: Result<(), _> = PART.first(&[], |_| {
            tried.set(tried.get() + 1);
            Err("it does not work".into())
        });
        assert_eq!(refused, Err("libc.so.6, which this process has loaded: it does not work".into()));
        assert_eq!(tried.get(), 1);
    }

    #[test]
    fn without_a_library_the_reason_is_that_of_the_loader() {
        let refused: Result<(), _> = Names { parts: &[], ..PART }.first(&[], |_| Ok(()));
        assert!(refused.is_err_and(|reason| reason.contains("libdisc_no_such.so.1")));
    }
}
