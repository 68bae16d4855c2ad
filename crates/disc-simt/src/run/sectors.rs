//! Counts sectors of global memory and conflicts of banks, warp by warp.
use super::{Run, mask::Mask};
use disc_ir::Space;

const SECTOR: u64 = 32;
/// Banks of shared memory, of four bytes each.
const BANKS: usize = 32;
const BANK: u64 = 4;
/// Bytes of shared memory that a warp accesses in one cycle.
const CYCLE: u64 = BANKS as u64 * BANK;

impl Run<'_> {
    /// Counts an access of the active threads to their addresses.
    pub(super) fn count_access(&mut self, space: Space, active: &Mask, bytes: u64, is_store: bool) {
        match space {
            Space::Task => {}
            Space::Shared => self.count_conflicts(active, bytes),
            _ => self.count_sectors(active, bytes, is_store),
        }
    }

    fn count_sectors(&mut self, active: &Mask, bytes: u64, is_store: bool) {
        let warp = self.program.warp as usize;
        let (mut asked, mut least) = (0, 0);
        for (number, addresses) in (0..).zip(self.addresses.chunks(warp)) {
            let bits = active.warp(number, self.program.warp);
            if bits == 0 {
                continue;
            }
            let count = sectors(addresses, bits, bytes);
            asked += count;
            least += count.min((u64::from(bits.count_ones()) * bytes).div_ceil(SECTOR));
        }
        self.add_sectors(asked, least, u64::from(active.count) * bytes, is_store);
    }

    fn add_sectors(&mut self, asked: u64, least: u64, bytes: u64, is_store: bool) {
        let counters = &mut self.counters;
        if is_store {
            counters.store_sectors += asked;
            counters.least_store_sectors += least;
            counters.bytes_written += bytes;
        } else {
            counters.load_sectors += asked;
            counters.least_load_sectors += least;
            counters.bytes_read += bytes;
        }
    }

    /// Counts a load of one address by all threads of the mask.
    pub(super) fn count_uniform(&mut self, space: Space, address: u64, bytes: u64) {
        if !matches!(space, Space::Shared | Space::Task) {
            let each = (address + bytes - 1) / SECTOR - address / SECTOR + 1;
            let asked = each * u64::from(self.mask.warps(self.program.warp));
            self.add_sectors(asked, asked, u64::from(self.mask.count) * bytes, false);
        }
    }

    fn count_conflicts(&mut self, active: &Mask, bytes: u64) {
        let warp = self.program.warp as usize;
        // Wide accesses take several cycles: as many threads at once as fill one.
        let at_once = ((CYCLE / bytes.max(BANK)) as usize).clamp(1, warp);
        let mut conflicts = 0;
        for (number, addresses) in (0..).zip(self.addresses.chunks(warp)) {
            let bits = active.warp(number, self.program.warp);
            for first in (0..addresses.len()).step_by(at_once) {
                let part = &addresses[first..(first + at_once).min(addresses.len())];
                conflicts += conflicts_of(part, bits >> first, bytes);
            }
        }
        self.counters.conflicts += conflicts;
    }
}

/// Returns the number of sectors that the threads of a warp ask for.
fn sectors(addresses: &[u64], bits: u64, bytes: u64) -> u64 {
    let (mut count, mut last, mut is_sorted) = (0, None, true);
    for (i, &address) in addresses.iter().enumerate() {
        if bits >> i & 1 == 0 {
            continue;
        }
        let (first, end) = (address / SECTOR, (address + bytes - 1) / SECTOR);
        let new = match last {
            None => end - first + 1,
            Some(last) if first > last => end - first + 1,
            Some(last) => {
                is_sorted &= first == last;
                end.saturating_sub(last)
            }
        };
        count += new;
        last = Some(last.map_or(end, |last: u64| last.max(end)));
    }
    if is_sorted {
        return count;
    }
    let active = addresses.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1);
    let mut found: Vec<u64> = active.flat_map(|(_, &at)| at / SECTOR..=(at + bytes - 1) / SECTOR).collect();
    found.sort_unstable();
    found.dedup();
    found.len() as u64
}

/// Returns the cycles that an access waits for banks.
fn conflicts_of(addresses: &[u64], bits: u64, bytes: u64) -> u64 {
    // The words that are asked of each bank: the first one, and all if there are several.
    let mut firsts = [u64::MAX; BANKS];
    let mut others: Vec<u64> = Vec::new();
    for (_, &address) in addresses.iter().enumerate().filter(|(i, _)| bits >> i & 1 == 1) {
        for word in address / BANK..=(address + bytes - 1) / BANK {
            let first = &mut firsts[word as usize % BANKS];
            match *first {
                u64::MAX => *first = word,
                known if known != word && !others.contains(&word) => others.push(word),
                _ => {}
            }
        }
    }
    let mut more = [0_u64; BANKS];
    others.iter().for_each(|&word| more[word as usize % BANKS] += 1);
    more.into_iter().max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sectors_of_a_warp_are_counted_once() {
        let addresses = |step: u64| (0..32).map(|i| 4096 + i * step).collect::<Vec<u64>>();
        let all = u64::from(u32::MAX);
        assert_eq!([4, 8, 16, 32, 128].map(|step| sectors(&addresses(step), all, 4)), [4, 8, 16, 32, 32]);
        assert_eq!(sectors(&addresses(16), all, 16), 16);
        assert_eq!(sectors(&addresses(0), all, 4), 1);
        assert_eq!(sectors(&addresses(4), 0b11, 4), 1);
        let shifted: Vec<u64> = addresses(4).iter().map(|at| at + 4).collect();
        assert_eq!(sectors(&shifted, all, 4), 5);
        let backwards: Vec<u64> = addresses(4).into_iter().rev().collect();
        assert_eq!(sectors(&backwards, all, 4), 4);
    }

    #[test]
    fn conflicts_are_words_beyond_the_first_of_a_bank() {
        let addresses = |step: u64| (0..32).map(|i| i * step).collect::<Vec<u64>>();
        let all = u64::from(u32::MAX);
        assert_eq!([0, 2, 4, 8, 64, 128].map(|step| conflicts_of(&addresses(step), all, 4)), [0, 0, 0, 1, 15, 31]);
        assert_eq!(conflicts_of(&addresses(128), 0b101, 4), 1);
        // 33 words from row to row have no conflict.
        assert_eq!(conflicts_of(&addresses(132), all, 4), 0);
    }
}
