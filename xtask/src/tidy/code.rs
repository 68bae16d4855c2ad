//! Checks the code of a Rust file: long functions, `unwrap`, `unsafe` without its reason,
//! unfinished code.

use super::{
    Finding,
    tokens::{self, Kind, Site},
};
use crate::sources::Source;

const LONGEST_FUNCTION: usize = 80;
const UNFINISHED: &[&str] = &["todo", "unimplemented", "dbg"];
/// Most lines of code of one statement between a SAFETY comment and its `unsafe`.
const SAFETY_REACH: usize = 3;

pub(super) fn check(source: &Source) -> Vec<Finding> {
    let sites = match tokens::sites(&source.text) {
        Ok(sites) => sites,
        Err(error) => return vec![Finding::error("tokens", &source.path, error.span().start().line, "not Rust")],
    };
    let lines: Vec<&str> = source.text.lines().collect();
    let is_test = source.is_test();
    sites.iter().filter_map(|site| finding(site, &source.path, &lines, is_test || site.in_test)).collect()
}

fn finding(site: &Site, path: &str, lines: &[&str], in_test: bool) -> Option<Finding> {
    let error = |check, message: String| Some(Finding::error(check, path, site.line, message));
    match &site.kind {
        Kind::Function { name, lines: length }
            if *length > LONGEST_FUNCTION && !in_test && !is_allowed(lines, site.line, "function-length") =>
        {
            error("function-length", format!("`{name}` has {length} lines, {LONGEST_FUNCTION} are the limit"))
        }
        Kind::Unwrap if !in_test => {
            error("unwrap", "return an error, or `expect` the invariant that makes it impossible".to_owned())
        }
        Kind::Unsafe if !has_safety_comment(lines, site.line) => {
            error("safety", "`unsafe` without a `// SAFETY:` comment above it".to_owned())
        }
        Kind::Macro(name) if UNFINISHED.contains(&name.as_str()) => error("unfinished", format!("`{name}!` must not land")),
        _ => None,
    }
}

/// Returns true if there is a SAFETY comment: on the line itself, on the first line inside the
/// block, or above it up to the end of the statement before.
fn has_safety_comment(lines: &[&str], line: usize) -> bool {
    let says = |text: &&str| text.find("//").is_some_and(|at| text[at..].contains("SAFETY:"));
    let here = &lines[line - 1];
    if says(here) || here.ends_with('{') && lines.get(line).is_some_and(says) {
        return true;
    }
    let mut code = 0;
    for text in lines[..line - 1].iter().rev() {
        let trimmed = text.trim();
        if says(&trimmed) {
            return true;
        }
        let is_comment = trimmed.starts_with("//");
        let is_attribute = trimmed.starts_with("#[");
        code += usize::from(!is_comment && !is_attribute);
        if trimmed.is_empty() || code > SAFETY_REACH {
            return false;
        }
    }
    false
}

/// Returns true if `// tidy: allow(CHECK): REASON` is directly above the item, its docs or its
/// attributes.
fn is_allowed(lines: &[&str], line: usize, check: &str) -> bool {
    let mark = format!("// tidy: allow({check}): ");
    let above = lines[..line - 1].iter().rev().map(|text| text.trim());
    above.take_while(|text| text.starts_with("//") || text.starts_with("#[")).any(|text| text.starts_with(&mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checks(path: &str, text: &str) -> Vec<&'static str> {
        let source = Source { path: path.into(), text: text.into() };
        check(&source).into_iter().map(|finding| finding.check).collect()
    }

    fn in_lib(text: &str) -> Vec<&'static str> {
        checks("crates/a/src/lib.rs", text)
    }

    #[test]
    fn a_long_function_is_found_unless_a_reason_is_given() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(79));
        assert_eq!(in_lib(&long), ["function-length"]);
        assert_eq!(checks("crates/a/tests/t.rs", &long), [""; 0]);
        assert_eq!(in_lib(&format!("// tidy: allow(function-length): one arm per op\n#[inline]\n{long}")), [""; 0]);
        assert_eq!(in_lib(&format!("// tidy: allow(function-length)\n{long}")), ["function-length"]);
        assert_eq!(in_lib(&format!("fn f() {{\n{}}}\n", "    g();\n".repeat(78))), [""; 0]);
    }

    #[test]
    fn unwrap_outside_tests_is_found() {
        assert_eq!(in_lib("fn f() { x.unwrap(); y.unwrap_or(1); x.expect(\"y\"); }"), ["unwrap"]);
        assert_eq!(in_lib("fn f() { x.map(Option::unwrap); }"), ["unwrap"]);
        assert_eq!(in_lib("#[cfg(test)]\nmod tests { fn f() { x.unwrap() } }"), [""; 0]);
        assert_eq!(checks("crates/a/tests/t.rs", "fn f() { x.unwrap() }"), [""; 0]);
    }

    #[test]
    fn unsafe_without_a_reason_is_found() {
        assert_eq!(in_lib("fn f() {\n    unsafe { g() }\n}"), ["safety"]);
        assert_eq!(in_lib("fn f() {\n    // SAFETY: g is safe.\n    unsafe { g() }\n}"), [""; 0]);
        assert_eq!(in_lib("fn f() {\n    // SAFETY: g is safe,\n    // very.\n    let x =\n        unsafe { g() };\n}"), [""; 0]);
        assert_eq!(in_lib("fn f() {\n    // SAFETY: of another.\n    h();\n\n    unsafe { g() }\n}"), ["safety"]);
        assert_eq!(in_lib("fn f() {\n    unsafe {\n        // SAFETY: g is safe.\n        g()\n    }\n}"), [""; 0]);
        assert_eq!(in_lib("fn f() {\n    unsafe { g() };\n    // SAFETY: of the next.\n}"), ["safety"]);
        assert_eq!(in_lib("unsafe impl Send for S {}"), ["safety"]);
        assert_eq!(in_lib("const S: &str = \"SAFETY:\"; fn f() { unsafe { g() } }"), ["safety"]);
    }

    #[test]
    fn unfinished_code_is_found() {
        assert_eq!(in_lib("fn f() { todo!() }\nfn g() { unimplemented!(\"x\") }\nfn h() { dbg!(1); }"), ["unfinished"; 3]);
    }

    #[test]
    fn what_is_not_rust_is_found() {
        assert_eq!(in_lib("fn f() {"), ["tokens"]);
    }
}
