//! Lists the places that do not pass a check yet. The list only shrinks: an entry without a finding
//! is an error.

use super::Finding;

/// A check, and the start of the paths in which it is not yet enforced.
pub(super) const PENDING: &[(&str, &str)] = &[];

/// Drops the findings that `pending` excuses, and adds one for each entry that excuses nothing.
pub(super) fn settle(findings: Vec<Finding>, pending: &[(&str, &str)]) -> Vec<Finding> {
    let mut is_needed = vec![false; pending.len()];
    let mut left = Vec::new();
    for finding in findings {
        let excuses = |&(check, start): &(&str, &str)| finding.check == check && finding.path.starts_with(start);
        match pending.iter().position(excuses) {
            Some(at) => is_needed[at] = true,
            None => left.push(finding),
        }
    }
    for (&(check, start), _) in pending.iter().zip(is_needed).filter(|(_, is_needed)| !is_needed) {
        let message = format!("`{check}` finds nothing there any more: remove it from xtask/src/tidy/pending.rs");
        left.push(Finding::error("pending", start, 0, message));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(check: &'static str, path: &str) -> Finding {
        Finding::error(check, path, 1, "")
    }

    fn settled(paths: &[&str], pending: &[(&str, &str)]) -> Vec<(&'static str, String)> {
        let findings = paths.iter().map(|path| finding("length", path)).collect();
        settle(findings, pending).into_iter().map(|finding| (finding.check, finding.path)).collect()
    }

    #[test]
    fn only_what_is_listed_is_excused() {
        assert_eq!(settled(&["a/b.rs", "c.rs"], &[("length", "a/")]), [("length", "c.rs".to_owned())]);
        assert_eq!(settled(&["a/b.rs"], &[("width", "a/"), ("length", "a/b.rs")]), [("pending", "a/".to_owned())]);
    }

    #[test]
    fn an_entry_that_excuses_nothing_is_found() {
        assert_eq!(settled(&[], &[("length", "a/")]), [("pending", "a/".to_owned())]);
        assert_eq!(settled(&[], &[]), []);
    }
}
