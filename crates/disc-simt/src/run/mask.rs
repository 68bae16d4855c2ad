//! Represents the threads of a block that an op runs on.

/// A set of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mask {
    words: [u64; 16],
    /// Threads in the set.
    pub(crate) count: u32,
    /// One more than the last thread of the block.
    threads: u32,
}

impl Mask {
    /// Returns the threads below a number.
    pub(crate) fn all(threads: u32) -> Self {
        let mut words = [0; 16];
        for (word, first) in words.iter_mut().zip((0..).step_by(64)) {
            *word = match threads.saturating_sub(first) {
                0 => 0,
                count => u64::MAX >> (64 - count.min(64)),
            };
        }
        Self { words, count: threads, threads }
    }

    /// Returns one thread of a block.
    pub(crate) fn one(thread: u32, threads: u32) -> Self {
        let mut words = [0; 16];
        words[thread as usize / 64] = 1 << (thread % 64);
        Self { words, count: 1, threads }
    }

    fn counted(self) -> Self {
        Self { count: self.words.iter().map(|word| word.count_ones()).sum(), ..self }
    }

    /// Returns true if every thread of the block is in the set.
    pub(crate) fn is_all(&self) -> bool {
        self.count == self.threads
    }

    #[inline]
    pub(crate) fn has(&self, thread: u32) -> bool {
        self.words[thread as usize / 64] >> (thread % 64) & 1 == 1
    }

    pub(crate) fn first(&self) -> Option<u32> {
        let (at, word) = (0..).zip(&self.words).find(|&(_, &word)| word != 0)?;
        Some(64 * at + word.trailing_zeros())
    }

    pub(crate) fn last(&self) -> Option<u32> {
        let (at, word) = (0..).zip(&self.words).filter(|&(_, &word)| word != 0).last()?;
        Some(64 * at + 63 - word.leading_zeros())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + use<> {
        let mask = *self;
        (0..mask.threads).filter(move |&thread| mask.has(thread))
    }

    /// Returns the threads of the set for which a plane of truth values holds.
    pub(crate) fn only(mut self, holds: &[u8]) -> Self {
        for (word, holds) in self.words.iter_mut().zip(holds.chunks(64)) {
            if *word != 0 {
                *word &= holds.iter().enumerate().fold(0, |bits, (i, &holds)| bits | u64::from(holds != 0) << i);
            }
        }
        self.counted()
    }

    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= other);
        self.counted()
    }

    pub(crate) fn without(mut self, other: &Self) -> Self {
        self.words.iter_mut().zip(other.words).for_each(|(word, other)| *word &= !other);
        self.counted()
    }

    /// Returns the bits of a warp.
    pub(crate) fn warp(&self, warp: u32, size: u32) -> u64 {
        let first = warp * size;
        let bits = self.words[first as usize / 64] >> (first % 64);
        if size >= 64 { bits } else { bits & ((1 << size) - 1) }
    }

    /// Returns the number of warps with a thread in the set.
    pub(crate) fn warps(&self, size: u32) -> u32 {
        match size {
            64 => self.words.iter().map(|&word| u32::from(word != 0)).sum(),
            32 => self.words.iter().map(|&word| u32::from(word as u32 != 0) + u32::from(word >> 32 != 0)).sum(),
            _ => (0..self.threads.div_ceil(size)).map(|warp| u32::from(self.warp(warp, size) != 0)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_are_counted_found_and_grouped() {
        let all = Mask::all(96);
        assert_eq!((all.count, all.first(), all.last(), all.warps(32), all.warps(64)), (96, Some(0), Some(95), 3, 2));
        let odd: Vec<u8> = (0..96).map(|i| i % 2).collect();
        let some = all.only(&odd);
        assert_eq!((some.count, some.first(), some.last()), (48, Some(1), Some(95)));
        assert_eq!(some.warp(1, 32), 0xAAAA_AAAA);
        assert_eq!(all.without(&some).iter().take(3).collect::<Vec<_>>(), [0, 2, 4]);
        assert_eq!(some.and(&all.without(&some)).count, 0);
        assert!(all.is_all() && !some.is_all());
        assert_eq!((Mask::all(1024).count, Mask::all(1024).last(), Mask::all(64).warp(0, 64)), (1024, Some(1023), u64::MAX));
    }
}
