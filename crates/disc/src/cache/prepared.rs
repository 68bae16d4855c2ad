//! Prepared weights in the cache: the block of all blobs, found by the code that prepares them and the contents of the plain weights.
//!
//! Invariant: what is stored was prepared from the weights that its key was made of: they are hashed once more behind it, since a user may
//! have changed them meanwhile.
use super::{Cache, Key, Level, Outcome, content::digest, mapped::Mapped};
use crate::{Artifact, Options};
use disc_ral::{Prepared, Weight, WeightState};
use std::{slice, sync::Arc};

/// Fewer bytes are prepared sooner than found. Blocks from here on are mappings, all of whose bytes have a value.
const LEAST: usize = 4 << 20;

/// Where the prepared form of these weights is kept, or will be.
pub(crate) struct Place {
    cache: Cache,
    key: Key,
    bytes: usize,
    contents: [u8; 32],
    weights: Vec<Weight>,
    threads: usize,
}

impl Place {
    /// None where nobody asked for it, or it is not worth it.
    pub(crate) fn of(artifact: &Artifact, weights: &[Weight], options: &Options) -> Option<Self> {
        let cache = Cache::new(options.cache.clone().filter(|_| options.cache_weights)?);
        let bytes = artifact.meta.prepared_bytes().filter(|&bytes| bytes >= LEAST && cache.takes(bytes as u64))?;
        let threads = options.threads.unwrap_or_else(disc_ral::default_threads);
        let contents = contents(weights, threads)?;
        let meta = serde_json::to_vec(&*artifact.meta).ok()?;
        let key = Key::of(&[b"weights", &artifact.code, &meta, &contents]);
        Some(Self { cache, key, bytes, contents, weights: weights.to_vec(), threads })
    }

    /// What was kept. All of it is read once, so that calls find its pages.
    pub(crate) fn find(&self) -> Option<Prepared> {
        let mapped: Mapped = self.cache.map(Level::Weights, &self.key, self.bytes, self.threads)?;
        let (data, bytes) = (mapped.payload().as_ptr(), mapped.payload().len());
        // SAFETY: the mapping, which nobody writes to; it begins at a page, its payload behind a number of bytes that is a multiple of `ALIGN`.
        Some(unsafe { Prepared::borrowed(data, bytes, Arc::new(mapped)) })
    }

    /// Why nothing was found.
    pub(crate) fn missed(&self) -> Outcome {
        self.cache.missed()
    }

    /// Keeps what was prepared of these weights.
    pub(crate) fn keep(&self, state: &WeightState) {
        let Some((data, bytes)) = state.prepared().filter(|&(_, bytes)| bytes == self.bytes) else { return };
        // SAFETY: the block of the state, which has been prepared.
        let payload = unsafe { slice::from_raw_parts(data, bytes) };
        if contents(&self.weights, self.threads) == Some(self.contents) {
            self.cache.put_mapped(Level::Weights, &self.key, payload, self.threads);
        }
    }
}

fn contents(weights: &[Weight], threads: usize) -> Option<[u8; 32]> {
    let parts: Vec<&[u8]> = weights
        .iter()
        .map(|weight| match weight.memory()? {
            (_, 0) => Some(&[][..]),
            // SAFETY: the weight's memory, which nobody writes to while it is held.
            (data, bytes) => Some(unsafe { slice::from_raw_parts(data, bytes) }),
        })
        .collect::<Option<_>>()?;
    Some(digest(&parts, threads))
}
