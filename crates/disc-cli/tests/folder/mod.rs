//! Runs `disc` in a folder that goes away.
#![allow(dead_code, reason = "each test binary uses a part")]
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes a folder with one file in it.
    pub(super) fn with_file(name: &str, file: &str, contents: &str) -> Self {
        let path = std::env::temp_dir().join(format!("disc-cli-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        let folder = Self(path);
        folder.write(file, contents);
        folder
    }

    /// Runs `disc` in the folder. Returns status, standard output and standard error.
    pub(super) fn disc(&self, words: &str) -> (Option<i32>, String, String) {
        self.disc_given(&words.split(' ').collect::<Vec<_>>())
    }

    /// Runs `disc` with a driver of simulated GPUs, if [`Folder::add_driver`] put one there.
    pub(super) fn disc_given(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_disc"));
        command.args(words).current_dir(&self.0).env("DISC_CACHE_DIR", self.0.join("cache"));
        command.env("LD_LIBRARY_PATH", self.0.join("driver"));
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// Runs a command that succeeds. Returns its JSON.
    pub(super) fn json(&self, words: &str) -> Value {
        let (status, out, err) = self.disc(&format!("{words} --json"));
        assert_eq!((status, &*err), (Some(0), ""), "{out}");
        serde_json::from_str(&out).unwrap()
    }

    /// Runs a command that fails. Returns what it says.
    pub(super) fn error(&self, words: &str) -> String {
        let (status, out, err) = self.disc(words);
        assert_eq!((status, &*out), (Some(1), ""), "{words}: {err}");
        assert!(err.starts_with("error[E"), "{words}: {err}");
        err
    }

    /// Puts the driver of simulated GPUs, crates/disc-fake-cuda, where programs find it.
    pub(super) fn add_driver(&self) {
        let library = std::env::current_exe().unwrap().with_file_name("libdisc_fake_cuda.so");
        fs::create_dir_all(self.file("driver")).unwrap();
        std::os::unix::fs::symlink(library, self.file("driver/libcuda.so.1")).unwrap();
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn write(&self, name: &str, contents: impl AsRef<[u8]>) {
        fs::write(self.file(name), contents).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
