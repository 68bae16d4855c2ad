//! Expands braces as shells do: `1x{16,64}` is `1x16` and `1x64`.

/// More values than anybody measures.
const MOST: usize = 1000;

/// Returns every value of a text, in the order of a shell; the text itself if it has no braces.
pub(super) fn expand(text: &str) -> Vec<String> {
    let mut found = vec![String::new()];
    let mut rest = text;
    while let Some((before, list, after)) = first_list(rest) {
        let choices = || list.split(',').map(|choice| format!("{before}{choice}"));
        if found.len() * choices().count() > MOST {
            break;
        }
        found = found.iter().flat_map(|start| choices().map(move |choice| format!("{start}{choice}"))).collect();
        rest = after;
    }
    found.into_iter().map(|start| start + rest).collect()
}

/// Splits at the first list in braces.
fn first_list(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('{')?;
    let (list, after) = rest.split_once('}')?;
    list.contains(',').then_some((before, list, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_expanded_as_by_a_shell() {
        assert_eq!(expand("rand:{1,2}x{16,64}"), ["rand:1x16", "rand:1x64", "rand:2x16", "rand:2x64"]);
        assert_eq!(expand("a.npy"), ["a.npy"]);
        assert_eq!(expand("{a}{b"), ["{a}{b"]);
        assert!(expand(&"{1,2}".repeat(100)).len() <= MOST);
    }
}
