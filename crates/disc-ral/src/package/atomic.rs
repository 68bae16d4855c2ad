//! Writes files that are whole or not there: a reader, or a mapping of the older file, never sees
//! half of one.
use std::{
    fs::{self, File},
    io::{self, BufWriter, Write},
    path::Path,
};

/// Writes a file beside `path` and renames it when it is complete.
///
/// # Errors
/// The file cannot be written, or `body` fails; an older file stays then.
pub fn write_atomically(path: &Path, body: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path names no file"))?;
    let temporary = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = File::create(&temporary).and_then(|file| {
        let mut out = BufWriter::with_capacity(1 << 20, file);
        body(&mut out)?;
        out.flush()
    });
    written.and_then(|()| fs::rename(&temporary, path)).inspect_err(|_| {
        // It may not exist.
        let _ = fs::remove_file(&temporary);
    })
}
