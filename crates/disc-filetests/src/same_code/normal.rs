//! Normalises kernels and assembly, so that names of values and functions do not show.
//!
//! Invariant: two texts have one normal form only if they differ only in such names: a name becomes
//! the number of its first occurrence (values: within their function).
use std::collections::HashMap;
use std::fmt::Write as _;

/// Normalises text of the IR.
#[must_use]
pub fn kernels(text: &str) -> String {
    let mut symbols = HashMap::new();
    let mut values = HashMap::new();
    let mut normal = String::with_capacity(text.len());
    for line in text.lines() {
        // A function begins at an unindented line, and so do the numbers of its values.
        if line.starts_with(|c: char| c.is_alphabetic()) {
            values.clear();
        }
        let mut rest = line;
        while let Some(at) = rest.find(['%', '@']) {
            let (before, marked) = rest.split_at(at);
            let end = marked[1..].find(|c: char| !is_name(c)).map_or(marked.len(), |end| end + 1);
            let (name, after) = marked.split_at(end);
            let known = if name.starts_with('%') { &mut values } else { &mut symbols };
            let next = known.len();
            let number = *known.entry(name.to_owned()).or_insert(next);
            let _ = write!(normal, "{before}{}{number}", &name[..1]);
            rest = after;
        }
        normal.push_str(rest);
        normal.push('\n');
    }
    normal
}

/// Normalises assembly in which the functions of these names are defined, in this order.
#[must_use]
pub fn assembly<'n>(text: &str, names: impl Iterator<Item = &'n str>) -> String {
    let numbers: HashMap<&str, usize> = names.enumerate().map(|(number, name)| (name, number)).collect();
    let mut normal = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_name) {
        normal.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word.find(|c| !is_name(c)).unwrap_or(word.len());
        match numbers.get(&word[..end]) {
            Some(number) => {
                let _ = write!(normal, "@{number}");
            }
            None => normal.push_str(&word[..end]),
        }
        rest = &word[end..];
    }
    normal.push_str(rest);
    normal
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_values_and_kernels_do_not_show() {
        let one = "kernel @k0_rows(%x: buffer<4xf32>) {\n  %a = add %x, %x\n}\nhost @main {\n  launch @k0_rows(%x)\n}\n";
        let two =
            "kernel @k0_reduction(%in: buffer<4xf32>) {\n  %7 = add %in, %in\n}\nhost @main {\n  launch @k0_reduction(%p)\n}\n";
        assert_eq!(kernels(one), kernels(two));
        assert!(kernels(one).contains("launch @0(%0)"), "{}", kernels(one));
    }

    #[test]
    fn another_operand_shows() {
        let one = "kernel @k(%x: f32, %y: f32) {\n  %a = add %x, %y\n}\n";
        assert_ne!(kernels(one), kernels(&one.replace("%x, %y\n", "%y, %x\n")));
    }

    #[test]
    fn functions_in_assembly_are_numbers_and_instructions_stay() {
        let text = "k0_rows:\n\tvaddps\tzmm0, zmm0, k0_rows_x\n\t.size\tk0_rows, .Lend0-k0_rows\n";
        let normal = assembly(text, ["main", "k0_rows"].into_iter());
        assert_eq!(normal, "@1:\n\tvaddps\tzmm0, zmm0, k0_rows_x\n\t.size\t@1, .Lend0-@1\n");
    }
}
