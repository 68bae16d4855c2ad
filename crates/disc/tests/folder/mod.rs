//! A folder for a cache on disk, removed after its test.
use disc::{Options, cache::Level};
use std::{
    fs,
    path::{Path, PathBuf},
};

pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        // A folder of an earlier process with the same number.
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    pub(crate) fn options(&self) -> Options {
        Options { cache: Some(self.0.clone()), target: Some("x86-64-v2".into()), ..Options::default() }
    }

    /// Returns all files at a level.
    pub(crate) fn entries(&self, level: Level) -> Vec<PathBuf> {
        fs::read_dir(self.0.join(level.name())).map(|files| files.flatten().map(|file| file.path()).collect()).unwrap_or_default()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
