//! Lays out the parts of an arena during a call: first fit among the parts that conflict.
//!
//! The meaning is `first_fit` of disc-ir. Here a part steps over conflicting parts until nothing
//! overlaps: where it overlaps another part, it overlaps that one at every offset up to its end.
//!
//! Invariant: it allocates nothing.

/// Writes the offset of each part and returns the end of the last one. Each part gets the least of
/// 0 and the ends of the parts that it conflicts with at which it overlaps none of these. `meets`
/// holds, for each part, the number of earlier parts that it conflicts with, then their positions.
/// Parts of size 0 conflict with none.
///
/// # Panics
/// If `meets` is no such list.
pub(crate) fn layout_arena(sizes: &[i64], meets: &[i64], offsets: &mut [i64]) -> i64 {
    let (mut total, mut rest) = (0, meets);
    for (part, &size) in sizes.iter().enumerate() {
        let (met, later) = rest[1..].split_at(rest[0] as usize);
        rest = later;
        let mut offset: i64 = 0;
        let in_the_way = |offset: i64| {
            let parts = met.iter().map(|&other| (offsets[other as usize], sizes[other as usize]));
            let mut ends = parts.filter(|&(begin, bytes)| bytes > 0 && begin < offset.saturating_add(size));
            ends.find_map(|(begin, bytes)| Some(begin.saturating_add(bytes)).filter(|&end| offset < end))
        };
        while let Some(end) = in_the_way(offset) {
            offset = end;
        }
        offsets[part] = offset;
        total = total.max(offset.saturating_add(size));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::layout_arena;

    fn placed(sizes: &[i64], meets: &[i64]) -> (Vec<i64>, i64) {
        let mut offsets = vec![0; sizes.len()];
        let total = layout_arena(sizes, meets, &mut offsets);
        (offsets, total)
    }

    #[test]
    fn a_part_lies_where_the_first_gap_is() {
        let meets = [0, 1, 0, 1, 1, 2, 1, 2];
        assert_eq!(placed(&[4, 8, 3, 1], &meets), (vec![0, 4, 0, 3], 12));
        assert_eq!(placed(&[4, 8, 5, 1], &meets), (vec![0, 4, 12, 0], 17));
        assert_eq!(placed(&[4, 0, 5, 0], &meets), (vec![0, 0, 0, 0], 5));
        assert_eq!(placed(&[i64::MAX, 1], &[0, 1, 0]), (vec![0, i64::MAX], i64::MAX));
    }

    #[test]
    fn an_empty_part_lies_in_no_other() {
        assert_eq!(placed(&[4, 0], &[0, 1, 0]), (vec![0, 0], 4));
    }
}
