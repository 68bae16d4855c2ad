//! Finds the nearest known name, for "did you mean".

/// Returns the candidate that differs from `name` in the fewest edits, if they are few for its
/// length.
pub fn closest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    const LONGEST: usize = 64;
    let length = name.chars().take(LONGEST + 1).count();
    if length > LONGEST {
        return None;
    }
    let most = (length / 3).max(1);
    let near = candidates.into_iter().map(|candidate| (strsim::osa_distance(name, candidate), candidate));
    near.filter(|&(distance, _)| distance <= most).min().map(|(_, candidate)| candidate)
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
