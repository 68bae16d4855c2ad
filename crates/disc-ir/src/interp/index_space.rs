//! Walks over the indices of a shape.

/// Returns the row-major strides in elements.
pub(super) fn strides(dims: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis];
    }
    strides
}

/// Returns the row-major offset of an index.
pub(super) fn offset(index: &[i64], strides: &[i64]) -> usize {
    index.iter().zip(strides).map(|(i, s)| i * s).sum::<i64>() as usize
}

/// Returns the row-major offset of an index, if it is within the sizes.
pub(super) fn checked_offset(index: &[i64], dims: &[i64], strides: &[i64]) -> Option<usize> {
    let inside = index.iter().zip(dims).all(|(i, size)| (0..*size).contains(i));
    inside.then(|| offset(index, strides))
}

/// Calls `visit` with every index of the sizes and its offset, in row-major order.
pub(super) fn for_each<E>(dims: &[i64], mut visit: impl FnMut(usize, &[i64]) -> Result<(), E>) -> Result<(), E> {
    if dims.contains(&0) {
        return Ok(());
    }
    let mut index = vec![0; dims.len()];
    for place in 0.. {
        visit(place, &index)?;
        let Some(axis) = (0..dims.len()).rev().find(|&axis| index[axis] + 1 < dims[axis]) else { break };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
    Ok(())
}

/// The entries of `values` at `axes`.
pub(super) fn select(values: &[i64], axes: &[usize]) -> Vec<i64> {
    axes.iter().map(|&axis| values[axis]).collect()
}

/// The axes below `rank` that are not in `axes`.
pub(super) fn others(axes: &[usize], rank: usize) -> Vec<usize> {
    (0..rank).filter(|axis| !axes.contains(axis)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(dims: &[i64]) -> Vec<(usize, Vec<i64>)> {
        let mut seen = Vec::new();
        let done: Result<(), ()> = for_each(dims, |place, index| {
            seen.push((place, index.to_vec()));
            Ok(())
        });
        done.unwrap();
        seen
    }

    #[test]
    fn every_index_is_visited_once_in_order() {
        assert_eq!(visited(&[]), [(0, vec![])]);
        assert_eq!(visited(&[0]), []);
        assert_eq!(visited(&[2, 0, 3]), []);
        let seen = visited(&[2, 1, 3]);
        assert_eq!(seen.len(), 6);
        assert!(seen.iter().all(|(place, index)| offset(index, &strides(&[2, 1, 3])) == *place));
    }

    #[test]
    fn an_index_outside_has_no_place() {
        assert_eq!(checked_offset(&[1, 3], &[2, 3], &strides(&[2, 3])), None);
        assert_eq!(checked_offset(&[-1, 0], &[2, 3], &strides(&[2, 3])), None);
        assert_eq!(checked_offset(&[1, 2], &[2, 3], &strides(&[2, 3])), Some(5));
    }
}
