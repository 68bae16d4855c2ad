//! Opens a cache in a temporary folder, for tests of this module.
use super::{Cache, Key, Level};
use std::{
    fs,
    path::{Path, PathBuf},
    process,
};

pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new(name: &str) -> Self {
        let folders = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp");
        let folder = folders.join(format!("{name}-{}", process::id()));
        // A folder of an earlier process with the same number.
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn cache(&self) -> Cache {
        Cache::new(&self.0)
    }

    /// Returns all files of prepared weights, unfinished ones included.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.0.join(Level::Weights.name()));
        files.map(|files| files.flatten().map(|file| file.path()).collect()).unwrap_or_default()
    }

    /// Returns true if these contents are stored completely.
    pub(super) fn has(&self, key: &Key, contents: &[u8]) -> bool {
        self.cache().map(Level::Weights, key, contents.len(), 1).is_some_and(|found| found.payload() == contents)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
