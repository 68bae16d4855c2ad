//! Signs a package with a private key: `disc sign`.
use super::{arguments::SignArguments, package::failed};
use crate::{answer::Answer, arrays::unwritten, source::read_at_most};
use disc::ral::{
    Archive, MANIFEST, NewPart, OpenOptions, SIGNATURE, Verify, sign as sign_manifest, write_archive, write_atomically,
};
use disc_ir::{Code, Diagnostic};
use serde_json::json;
use std::{fs::File, io};

/// More bytes than any key in PEM has.
const LONGEST_KEY: u64 = 1 << 20;

pub(super) fn sign(given: &SignArguments) -> Result<Answer, Vec<Diagnostic>> {
    let options = OpenOptions { verify: Verify::All, ..OpenOptions::default() };
    let archive = Archive::open(&given.file, &options).map_err(failed)?;
    let key = File::open(&given.key).and_then(|file| read_at_most(file, LONGEST_KEY));
    let key = key.and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other)).map_err(|error| {
        let message = format!("the private key for the signature, {}, cannot be read: {error}", given.key.display());
        vec![Diagnostic::new(Code::E0905, message)]
    })?;
    let manifest = archive.parts().find(|(name, _)| *name == MANIFEST).map_or(&[][..], |(_, bytes)| bytes);
    let signature = sign_manifest(manifest, &key).map_err(failed)?;
    let part = |(name, bytes)| NewPart { name, pieces: vec![bytes] };
    let mut parts: Vec<NewPart<'_>> = archive.parts().filter(|(name, _)| *name != SIGNATURE).map(part).collect();
    // Directly after the manifest, so that a reader has both at once.
    parts.insert(1, part((SIGNATURE, &signature)));
    write_atomically(&given.output, |out| write_archive(&parts, out)).map_err(|error| vec![unwritten(&given.output, error)])?;
    let path = given.output.display().to_string();
    Ok(Answer::new(format!("wrote {path}, signed\n"), json!({ "package": path, "signed": true })))
}
