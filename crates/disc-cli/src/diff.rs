//! Shows the differences of two texts, for people.
use similar::TextDiff;

/// Returns a unified diff; empty if nothing changed.
pub(crate) fn unified(before: &str, after: &str, names: (&str, &str)) -> String {
    if before == after {
        return String::new();
    }
    TextDiff::from_lines(before, after).unified_diff().context_radius(3).header(names.0, names.1).to_string()
}
