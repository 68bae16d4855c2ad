//! Signs packages with ed25519, and checks their signatures.
//!
//! The signature is that of the manifest, which holds the checksum of every other part.

use super::manifest::SIGNATURE;
use crate::error::{Error, code};
use ed25519_dalek::{
    Signature, Signer, SigningKey, Verifier, VerifyingKey,
    pkcs8::{DecodePrivateKey, DecodePublicKey},
};
use serde::{Deserialize, Serialize};

/// The contents of the part `signature.json`.
#[derive(Serialize, Deserialize)]
struct Signed {
    algorithm: String,
    /// Of the manifest's bytes, in hexadecimal.
    signature: String,
}

const ALGORITHM: &str = "ed25519";

fn refuse(message: impl std::fmt::Display) -> Error {
    Error::new(code::PACKAGE_SIGNATURE, SIGNATURE, format!("entry `{SIGNATURE}`: {message}"))
}

/// Returns the contents of the part that signs a manifest, with a private key in PEM.
///
/// # Errors
/// A text that is no such key.
pub fn sign(manifest: &[u8], private_key: &str) -> Result<Vec<u8>, Error> {
    let key = SigningKey::from_pkcs8_pem(private_key);
    let key = key.map_err(|_| refuse("no signature: the private key is no ed25519 key in PEM (PKCS 8) without a passphrase"))?;
    let signature = super::hexadecimal(&key.sign(manifest).to_bytes());
    let signed = Signed { algorithm: ALGORITHM.into(), signature };
    serde_json::to_vec(&signed).map_err(|error| Error::internal(error.to_string()))
}

/// Checks that a manifest was signed by the owner of a public key in PEM.
pub(super) fn check(manifest: &[u8], part: Option<&[u8]>, public_key: &str) -> Result<(), Error> {
    let key = VerifyingKey::from_public_key_pem(public_key);
    let key = key.map_err(|_| refuse("the public key for the signature is no ed25519 key in PEM"))?;
    let part = part.ok_or_else(|| refuse("the package has no signature, and one is required"))?;
    let signed: Signed = serde_json::from_slice(part).map_err(|error| refuse(format_args!("it is no signature: {error}")))?;
    if signed.algorithm != ALGORITHM {
        return Err(refuse(format_args!("the signature is by `{}`, expected `{ALGORITHM}`", signed.algorithm)));
    }
    let bytes = super::from_hexadecimal(&signed.signature).and_then(|bytes| <[u8; 64]>::try_from(bytes).ok());
    let bytes = bytes.ok_or_else(|| refuse("the signature is not 64 bytes in hexadecimal"))?;
    let wrong = |_| refuse("the signature is not that of the package by this key");
    key.verify(manifest, &Signature::from_bytes(&bytes)).map_err(wrong)
}
