//! Lays out parts of memory whose sizes are known at run time: defines the meaning of
//! `layout_arena`.
//!
//! First fit, with the conflicts given, not computed here. It defines the result; the runtime has a
//! faster implementation.

/// Returns the earlier parts that each of `count` parts conflicts with, from a list of their
/// numbers and positions; `None` if it is no such list.
pub fn parts_met(count: usize, list: &[i64]) -> Option<Vec<Vec<usize>>> {
    let mut rest = list.iter();
    let mut next = || rest.next().and_then(|&value| usize::try_from(value).ok());
    let mut met = Vec::with_capacity(count);
    for part in 0..count {
        let found: Vec<usize> = (0..next()?).map(|_| next().filter(|&other| other < part)).collect::<Option<_>>()?;
        met.push(found);
    }
    next().is_none().then_some(met)
}

/// Returns the offset of each part, and the end of the last one. Each part gets the least of 0 and
/// the ends of the parts that it conflicts with at which it overlaps none of these. Parts of size 0
/// conflict with none.
pub fn first_fit(sizes: &[i64], met: &[Vec<usize>]) -> (Vec<i64>, i64) {
    let mut offsets: Vec<i64> = Vec::with_capacity(sizes.len());
    let end = |offsets: &[i64], part: usize| offsets[part].saturating_add(sizes[part]);
    for (&size, met) in sizes.iter().zip(met) {
        let in_the_way: Vec<usize> = met.iter().copied().filter(|&part| sizes[part] > 0).collect();
        let fits = |offset: i64| {
            let apart = |&part: &usize| offset.saturating_add(size) <= offsets[part] || end(&offsets, part) <= offset;
            in_the_way.iter().all(apart)
        };
        let ends = in_the_way.iter().map(|&part| end(&offsets, part));
        let offset = std::iter::once(0).chain(ends).filter(|&offset| fits(offset)).min();
        offsets.push(offset.expect("behind all others it fits"));
    }
    let total = (0..sizes.len()).map(|part| end(&offsets, part)).max().unwrap_or(0);
    (offsets, total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_lies_where_the_first_gap_is() {
        let met = parts_met(4, &[0, 1, 0, 1, 1, 2, 1, 2]).expect("a list of parts");
        assert_eq!(met, [vec![], vec![0], vec![1], vec![1, 2]]);
        assert_eq!(first_fit(&[4, 8, 3, 1], &met), (vec![0, 4, 0, 3], 12));
        assert_eq!(first_fit(&[4, 8, 5, 1], &met), (vec![0, 4, 12, 0], 17));
        assert_eq!(first_fit(&[4, 0, 5, 0], &met), (vec![0, 0, 0, 0], 5));
        assert_eq!(first_fit(&[], &[]), (vec![], 0));
    }

    #[test]
    fn a_list_names_earlier_parts_alone() {
        for list in [&[0][..], &[0, 1, 1], &[0, 2, 0], &[0, 1, 0, 0], &[-1, 0]] {
            assert_eq!(parts_met(2, list), None, "{list:?}");
        }
    }
}
