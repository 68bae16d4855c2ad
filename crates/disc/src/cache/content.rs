//! Hashes large memory as fast as it is read. The hash does not resist a search for two contents
//! with the same hash.
use sha2::{Digest, Sha256};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};
use twox_hash::XxHash3_128;

/// Bytes that a thread reads at once; part of the definition of the hash.
pub(super) const CHUNK: usize = 1 << 20;

/// Hashes a list of parts. The boundaries of the parts count, the number of threads does not.
pub(super) fn digest(parts: &[&[u8]], threads: usize) -> [u8; 32] {
    let chunks: Vec<&[u8]> = parts.iter().flat_map(|part| part.chunks(CHUNK)).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        while let at = next.fetch_add(1, Ordering::Relaxed)
            && let Some(chunk) = chunks.get(at)
        {
            found.push((at, XxHash3_128::oneshot(chunk)));
        }
        found
    };
    let mut found = thread::scope(|scope| {
        // Without another thread, this one does it all.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, work).ok();
        let others: Vec<_> = (1..threads.min(chunks.len())).filter_map(spawn).collect();
        let mut found = work();
        for other in others {
            found.extend(other.join().expect("hashing does not panic"));
        }
        found
    });
    found.sort_unstable();
    let mut whole = Sha256::new();
    parts.iter().for_each(|part| whole.update((part.len() as u64).to_le_bytes()));
    found.iter().for_each(|(_, hash)| whole.update(hash.to_le_bytes()));
    whole.finalize().into()
}

/// Computes the [`digest`] of one part that is read chunk by chunk.
pub(super) struct Running(Sha256);

impl Running {
    /// Starts a part of this many bytes.
    pub(super) fn of(bytes: usize) -> Self {
        let mut whole = Sha256::new();
        whole.update((bytes as u64).to_le_bytes());
        Self(whole)
    }

    /// Adds the next [`CHUNK`] bytes; fewer only at the end.
    pub(super) fn add(&mut self, chunk: &[u8]) {
        self.0.update(XxHash3_128::oneshot(chunk).to_le_bytes());
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_and_every_end_of_a_part_counts() {
        let bytes: Vec<u8> = (0..3 * CHUNK + 5).map(|i| (i % 251) as u8).collect();
        let hash = digest(&[&bytes], 1);
        for threads in [0, 2, 3, 9] {
            assert_eq!(digest(&[&bytes], threads), hash);
        }
        let mut running = Running::of(bytes.len());
        bytes.chunks(CHUNK).for_each(|chunk| running.add(chunk));
        assert_eq!(running.finish(), hash);
        for at in [0, CHUNK - 1, CHUNK, 3 * CHUNK + 4] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(digest(&[&other], 2), hash);
        }
        // Exchanged chunks, another boundary, an empty second part.
        let (first, rest) = bytes.split_at(CHUNK);
        assert_ne!(digest(&[&[&rest[..CHUNK], first, &rest[CHUNK..]].concat()], 2), hash);
        for parts in [vec![first, rest], vec![&bytes[..], b""], vec![&bytes[..bytes.len() - 1]], vec![]] {
            assert_ne!(digest(&parts, 2), hash);
        }
        assert_ne!(digest(&[first, rest], 2), digest(&[&bytes[..CHUNK + 1], &bytes[CHUNK + 1..]], 2));
    }
}
