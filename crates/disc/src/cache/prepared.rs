//! Caches prepared weights: the block of all blobs, found by the code that prepares them and the
//! contents of the plain weights.
//!
//! Invariant: a stored block was prepared from the weights in its key: they are hashed again after
//! it was prepared, since a user may have changed them meanwhile.
use super::{Cache, Key, Level, Outcome, content::digest, mapped::Mapped, writer::WRITER};
use crate::{Artifact, Options};
use disc_ral::{ModuleMeta, Prepared, Weight, WeightState};
use std::{collections::BTreeMap, slice, sync::Arc};

/// Fewer bytes are prepared faster than found. Blocks of at least this size are mappings, all of
/// whose bytes have a value.
const LEAST: usize = 4 << 20;

/// The entry for the prepared form of these weights.
pub(crate) struct Place {
    cache: Cache,
    key: Key,
    bytes: usize,
    contents: [u8; 32],
    weights: Vec<Weight>,
    threads: usize,
}

impl Place {
    /// Returns `None` if the cache is off, or if the block is too small to be worth it.
    pub(crate) fn of(artifact: &Artifact, weights: &[Weight], options: &Options) -> Option<Self> {
        // A block in memory of a device is not the host's to read.
        let is_kept = options.cache_weights && artifact.image.is_none();
        let cache = Cache::new(options.cache.clone().filter(|_| is_kept)?);
        let bytes = artifact.meta.prepared_bytes().filter(|&bytes| bytes >= LEAST && cache.takes(bytes as u64))?;
        let threads = options.threads.unwrap_or_else(disc_ral::default_threads);
        let contents = contents(weights, threads)?;
        let meta = ModuleMeta { lines: BTreeMap::new(), ..ModuleMeta::clone(&artifact.meta) };
        let meta = serde_json::to_vec(&meta).ok()?;
        // A first library differs from the whole one, and prepares the same.
        let code: &[u8] = artifact.key.as_ref().map_or(&artifact.code, Key::bytes);
        let key = Key::of(&[b"weights", code, &meta, &contents]);
        Some(Self { cache, key, bytes, contents, weights: weights.to_vec(), threads })
    }

    /// Returns the stored block. All of it is read once, so that calls find its pages.
    pub(crate) fn find(&self) -> Option<Prepared> {
        let mapped: Mapped = self.cache.map(Level::Weights, &self.key, self.bytes, self.threads)?;
        let (data, bytes) = (mapped.payload().as_ptr(), mapped.payload().len());
        // SAFETY: the mapping, which nobody writes to; it begins at a page, its payload after a
        // number of bytes that is a multiple of `ALIGN`.
        Some(unsafe { Prepared::borrowed(data, bytes, Arc::new(mapped)) })
    }

    /// Returns the reason of a miss.
    pub(crate) fn missed(&self) -> Outcome {
        self.cache.missed()
    }

    /// Hands a block that was prepared of these weights to the writer thread.
    pub(crate) fn keep(&self, state: &WeightState) {
        let Some(blobs) = state.prepared().filter(|blobs| blobs.bytes() == self.bytes) else { return };
        // Hashes the weights now, not when they are written: nobody guarantees how long weights
        // that have been read keep their address.
        if WRITER.takes(&self.cache, self.bytes) && contents(&self.weights, self.threads) == Some(self.contents) {
            WRITER.submit(self.cache.clone(), self.key, blobs);
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

#[cfg(test)]
mod tests {
    use super::{super::testing::Folder, *};
    use disc_abi::DType;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

    const TEXT: &str = "\
weight @w : tensor<1024x1030xf32>

func @main(%x: tensor<[N]x1024xf32>) -> tensor<[N]x1030xf32> {
  %w = weight @w : tensor<1024x1030xf32>
  %y = dot_general %x, %w, lhs_contracting_dims = [1], rhs_contracting_dims = [0] : (tensor<[N]x1024xf32>, tensor<1024x1030xf32>) -> tensor<[N]x1030xf32>
  return %y : tensor<[N]x1030xf32>
}
";

    #[test]
    fn weights_that_change_while_they_are_packed_are_not_kept() {
        let folder = Folder::new("packed");
        let options = Options { target: Some("x86-64-v2".into()), ..Options::default() };
        let artifact = crate::compile_text(TEXT, &options).unwrap();
        let memory: Arc<Vec<AtomicU32>> = Arc::new((0..1024 * 1030).map(AtomicU32::new).collect());
        let data = memory.as_ptr().cast::<u8>();
        // SAFETY: the vector's elements, of which nothing else is read or written while this test
        // reads them.
        let weight = || unsafe { Weight::borrowed(data, DType::F32, vec![1024, 1030], memory.clone()) };
        let cached = Options { cache: Some(folder.path().into()), cache_weights: true, ..options.clone() };
        for (changes, kept) in [(true, 0), (false, 1)] {
            let place = Place::of(&artifact, &[weight()], &cached).unwrap();
            let executable = artifact.load(vec![("w".into(), weight())], &options).unwrap();
            memory[77].fetch_add(u32::from(changes), Relaxed);
            place.keep(&executable.inner.weight_state());
            super::super::write_out(|| true);
            assert_eq!(folder.files().len(), kept);
            let about = |bytes| place.cache.may_hold_weights(bytes);
            assert_eq!([about(0), about(1024 * 1030 * 4), about(1 << 30)], [false, kept == 1, false]);
        }
    }
}
