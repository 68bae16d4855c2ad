//! Finds the nearest known name, for "did you mean".

/// Returns the candidate that differs from `name` in the fewest edits, if they are few for its
/// length.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 64;
    let wanted: Vec<char> = name.chars().take(LONGEST + 1).collect();
    if wanted.len() > LONGEST {
        return None;
    }
    let most = (wanted.len() / 3).max(1);
    let near = candidates.into_iter().map(|candidate| (edits(&wanted, candidate), candidate));
    near.filter(|&(distance, _)| distance <= most).min().map(|(_, candidate)| candidate)
}

/// Insertions, removals, replacements and swaps of neighbours (the last two count as one edit).
fn edits(from: &[char], to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, &a) in from.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, &b) in to.iter().enumerate() {
            let replaced = row[j] + usize::from(a != b);
            let mut best = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a == to[j - 1] && b == from[i - 1] {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let ops = ["add", "subtract", "reshape", "transpose"];
        assert_eq!(closest("transpsoe", ops), Some("transpose"));
        assert_eq!(closest("reshap", ops), Some("reshape"));
        assert_eq!(closest("ad", ops), Some("add"));
        assert_eq!(closest("convolve", ops), None);
        assert_eq!(closest(&"x".repeat(100_000), ops), None);
    }
}
