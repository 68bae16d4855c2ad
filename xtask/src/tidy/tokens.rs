//! Walks over the tokens of a Rust file and reports the constructs that the checks are about.
//!
//! It is not a parser: it sees inside macro calls and `macro_rules!`, where a parser sees tokens.
//! Comments and strings are not tokens, so what they contain is never reported.
//!
//! - A line number is that of the first token, counted from 1.
//! - `in_test` holds for everything below `#[cfg(test)]` or an attribute whose name is `test`.

use std::str::FromStr;

use proc_macro2::{Delimiter, LexError, TokenStream, TokenTree};

#[derive(Debug, PartialEq)]
pub(super) struct Site {
    pub(super) kind: Kind,
    pub(super) line: usize,
    pub(super) in_test: bool,
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// A function with a body; `lines` counts from the word `fn` to the closing brace.
    Function { name: String, lines: usize },
    /// `.unwrap()` or the path `Type::unwrap`.
    Unwrap,
    /// An `unsafe` block or `unsafe impl`.
    Unsafe,
    /// `name!`
    Macro(String),
    /// An error code: the name `E0123`, or the literal `"E0123"`.
    Code(String),
}

pub(super) fn sites(text: &str) -> Result<Vec<Site>, LexError> {
    let mut sites = Vec::new();
    each(text, &mut |tokens, at, in_test| {
        let line = line_of(&tokens[at]);
        let kind = match &tokens[at] {
            TokenTree::Ident(ident) => {
                let before = at.checked_sub(1).map(|i| &tokens[i]);
                kind_of(&ident.to_string(), line, before, &tokens[at + 1..])
            }
            TokenTree::Literal(literal) => {
                let text = literal.to_string();
                let code = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).filter(|text| is_code(text));
                code.map(|code| Kind::Code(code.to_owned()))
            }
            _ => None,
        };
        sites.extend(kind.map(|kind| Site { kind, line, in_test }));
    })?;
    Ok(sites)
}

/// An item that the check of `impl` blocks is about.
#[derive(Debug, PartialEq)]
pub(super) enum Item {
    /// A struct, an enum or a union.
    Type(String),
    /// An inherent `impl` block of the type of this name.
    Impl(String),
}

/// Returns the types and the inherent `impl` blocks outside of tests, each with its line.
pub(super) fn items(text: &str) -> Result<Vec<(usize, Item)>, LexError> {
    let mut items = Vec::new();
    each(text, &mut |tokens, at, in_test| {
        let TokenTree::Ident(ident) = &tokens[at] else { return };
        let rest = &tokens[at + 1..];
        let item = match ident.to_string().as_str() {
            _ if in_test => None,
            "struct" | "enum" | "union" => named(rest).map(Item::Type),
            "impl" if begins_item(tokens, at) => inherent_type(rest).map(Item::Impl),
            _ => None,
        };
        items.extend(item.map(|item| (line_of(&tokens[at]), item)));
    })?;
    Ok(items)
}

/// Returns the modules that paths name directly below `crate`, each with its line; paths in tests
/// are left out.
pub(super) fn crate_modules(text: &str) -> Result<Vec<(usize, String)>, LexError> {
    let mut modules = Vec::new();
    each(text, &mut |tokens, at, in_test| {
        if let [TokenTree::Ident(root), first, second, next, ..] = &tokens[at..]
            && *root == "crate"
            && !in_test
            && is_punct(first, ':')
            && is_punct(second, ':')
        {
            modules.extend(first_names(next));
        }
    })?;
    Ok(modules)
}

/// Returns the names at which paths begin (`tch` of `tch::Tensor`, and of `use tch;`), each with
/// its line, tests included.
pub(super) fn roots(text: &str) -> Result<Vec<(usize, String)>, LexError> {
    let mut roots = Vec::new();
    each(text, &mut |tokens, at, _| {
        let TokenTree::Ident(root) = &tokens[at] else { return };
        let before = at.checked_sub(1).map(|i| &tokens[i]);
        let is_inner = before.is_some_and(|token| is_punct(token, ':')) && !begins_with_colons(tokens, at);
        let is_path = matches!(&tokens[at + 1..], [first, second, ..] if is_punct(first, ':') && is_punct(second, ':'));
        let is_used = before.is_some_and(|token| matches!(token, TokenTree::Ident(word) if *word == "use" || *word == "crate"));
        if !is_inner && (is_path || is_used) {
            roots.push((line_of(&tokens[at]), root.to_string()));
        }
    })?;
    Ok(roots)
}

/// Returns true for the first name of `::name`, whose colons follow no name.
fn begins_with_colons(tokens: &[TokenTree], at: usize) -> bool {
    let colons = at.checked_sub(2).is_some_and(|i| is_punct(&tokens[i], ':') && is_punct(&tokens[i + 1], ':'));
    let owner = at.checked_sub(3).map(|i| &tokens[i]);
    let is_word = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if *word != "use");
    let is_arrow = at.checked_sub(4).is_some_and(|i| is_punct(&tokens[i], '-'));
    colons && !owner.is_some_and(|token| is_word(token) || (is_punct(token, '>') && !is_arrow))
}

/// Returns the first name of each path in a `use` tree, or the name itself.
fn first_names(tree: &TokenTree) -> Vec<(usize, String)> {
    let TokenTree::Group(group) = tree else {
        return matches!(tree, TokenTree::Ident(_)).then(|| (line_of(tree), tree.to_string())).into_iter().collect();
    };
    let tokens: Vec<TokenTree> = group.stream().into_iter().collect();
    tokens.split(|token| is_punct(token, ',')).filter_map(<[_]>::first).flat_map(first_names).collect()
}

fn named(rest: &[TokenTree]) -> Option<String> {
    rest.first().and_then(|token| if let TokenTree::Ident(name) = token { Some(name.to_string()) } else { None })
}

/// Returns true if the token at `at` begins an item: nothing, another item or an attribute is
/// before it.
fn begins_item(tokens: &[TokenTree], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before]) {
        None => true,
        Some(TokenTree::Punct(p)) => p.as_char() == ';',
        Some(TokenTree::Group(group)) => matches!(group.delimiter(), Delimiter::Brace | Delimiter::Bracket),
        Some(TokenTree::Ident(ident)) => ident == "unsafe",
        Some(TokenTree::Literal(_)) => false,
    }
}

/// Returns the name of the type of an inherent `impl` block, whose tokens after `impl` are `rest`.
fn inherent_type(rest: &[TokenTree]) -> Option<String> {
    let body = rest.iter().position(is_brace)?;
    let mut depth = 0;
    let mut name = None;
    for (at, token) in rest[..body].iter().enumerate() {
        match token {
            TokenTree::Punct(p) if p.as_char() == '<' => depth += 1,
            TokenTree::Punct(p) if p.as_char() == '>' && !(at > 0 && is_punct(&rest[at - 1], '-')) => depth -= 1,
            TokenTree::Ident(ident) if depth == 0 && ident == "for" => return None,
            TokenTree::Ident(ident) if depth == 0 && ident == "where" => break,
            TokenTree::Ident(ident) if depth == 0 => name = Some(ident.to_string()),
            _ => {}
        }
    }
    name
}

/// Visits every token, those of a group after the group, with its place among its neighbours and
/// true if it is below a test attribute.
fn walk(tokens: &[TokenTree], inherited: bool, visit: &mut dyn FnMut(&[TokenTree], usize, bool)) {
    let whole = inherited || has_inner_test_attribute(tokens);
    // True if an attribute of the current item makes it test code.
    let mut item = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Punct(p) if p.as_char() == '#' => item |= tokens.get(at + 1).is_some_and(is_test_attribute),
            TokenTree::Punct(p) if p.as_char() == ';' => item = false,
            TokenTree::Group(group) => {
                walk(&group.stream().into_iter().collect::<Vec<_>>(), whole || item, visit);
                item &= group.delimiter() != Delimiter::Brace;
            }
            _ => visit(tokens, at, whole || item),
        }
    }
}

/// Visits the tokens of a file.
fn each(text: &str, visit: &mut dyn FnMut(&[TokenTree], usize, bool)) -> Result<(), LexError> {
    let tokens: Vec<TokenTree> = TokenStream::from_str(text)?.into_iter().collect();
    walk(&tokens, false, visit);
    Ok(())
}

/// Returns true if `text` looks like an error code: `E` and four digits.
pub(super) fn is_code(text: &str) -> bool {
    text.len() == 5 && text.starts_with('E') && text[1..].bytes().all(|byte| byte.is_ascii_digit())
}

fn kind_of(ident: &str, line: usize, before: Option<&TokenTree>, rest: &[TokenTree]) -> Option<Kind> {
    match ident {
        "fn" => function(line, rest),
        code if is_code(code) => Some(Kind::Code(code.to_owned())),
        "unwrap" if before.is_some_and(|t| is_punct(t, '.') || is_punct(t, ':')) => Some(Kind::Unwrap),
        "unsafe" => {
            let next = rest.first()?;
            (is_brace(next) || matches!(next, TokenTree::Ident(i) if i == "impl")).then_some(Kind::Unsafe)
        }
        _ => {
            let called = matches!(rest, [bang, TokenTree::Group(_), ..] if is_punct(bang, '!'));
            called.then(|| Kind::Macro(ident.to_owned()))
        }
    }
}

fn function(line: usize, rest: &[TokenTree]) -> Option<Kind> {
    let TokenTree::Ident(name) = rest.first()? else { return None };
    let body = rest.iter().take_while(|token| !is_punct(token, ';')).find(|token| is_brace(token))?;
    let TokenTree::Group(body) = body else { return None };
    let lines = body.span_close().end().line + 1 - line;
    Some(Kind::Function { name: name.to_string(), lines })
}

fn has_inner_test_attribute(tokens: &[TokenTree]) -> bool {
    tokens.windows(3).any(|w| is_punct(&w[0], '#') && is_punct(&w[1], '!') && is_test_attribute(&w[2]))
}

/// Returns true for `[test]`, `[name::test]`, `[cfg(test)]`, `[cfg(any(test, ..))]`; false for
/// `[cfg(not(test))]`.
fn is_test_attribute(token: &TokenTree) -> bool {
    let TokenTree::Group(group) = token else { return false };
    if group.delimiter() != Delimiter::Bracket {
        return false;
    }
    let mut words = Vec::new();
    identifiers(group.stream(), &mut words);
    match words.first().map(String::as_str) {
        Some("cfg") => words.iter().any(|w| w == "test") && !words.iter().any(|w| w == "not"),
        _ => words.last().is_some_and(|w| w == "test"),
    }
}

fn identifiers(stream: TokenStream, words: &mut Vec<String>) {
    for token in stream {
        match token {
            TokenTree::Ident(ident) => words.push(ident.to_string()),
            TokenTree::Group(group) => identifiers(group.stream(), words),
            _ => {}
        }
    }
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(p) if p.as_char() == c)
}

fn is_brace(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace)
}

fn line_of(token: &TokenTree) -> usize {
    token.span().start().line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<(String, bool)> {
        sites(text).unwrap().into_iter().map(|site| (format!("{:?}", site.kind), site.in_test)).collect()
    }

    #[test]
    fn modules_below_the_crate_are_found_outside_of_tests() {
        let text = "use crate::{a::B, c::{self, d}};\nfn f(x: crate::e::X) { g(crate::h::i()) }\npub(crate) struct S;\n\
                    #[cfg(test)]\nmod tests { use crate::t; }\n#[cfg(test)]\nuse crate::u;\n// crate::v\n";
        let found: Vec<(usize, String)> = crate_modules(text).unwrap();
        let names: Vec<(usize, &str)> = found.iter().map(|(line, name)| (*line, name.as_str())).collect();
        assert_eq!(names, [(1, "a"), (1, "c"), (2, "e"), (2, "h")]);
    }

    #[test]
    fn functions_have_a_length_declarations_have_none() {
        let text = "fn a() {\n}\ntrait T { fn b(&self); }\nfn c<T>(x: [u8; 2]) -> T\nwhere T: Copy {\n todo()\n}\n";
        let found: Vec<Site> = sites(text).unwrap();
        let lengths: Vec<(usize, &Kind)> = found.iter().map(|site| (site.line, &site.kind)).collect();
        let function = |name: &str, lines| Kind::Function { name: name.into(), lines };
        assert_eq!(lengths, [(1, &function("a", 2)), (4, &function("c", 4))]);
    }

    #[test]
    fn test_code_is_told_from_other_code() {
        let text = "fn f() { x.unwrap() }\n#[cfg(test)]\nmod tests { fn g() { y.unwrap() } }\nfn h() { z.unwrap() }\n\
                    #[cfg(not(test))]\nfn i() { z.unwrap() }\n#[test]\nfn j() { z.unwrap() }\n";
        let unwraps: Vec<bool> = kinds(text).into_iter().filter(|(kind, _)| kind == "Unwrap").map(|(_, test)| test).collect();
        assert_eq!(unwraps, [false, true, false, false, true]);
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        assert!(kinds("/// x.unwrap()\n// todo!()\nconst S: &str = \"dbg!(1)\";").is_empty());
    }

    #[test]
    fn codes_are_names_or_whole_literals() {
        let found = kinds("/// E0101\nfn f() { g(Code::E0203, \"E0601\", \"see E0602\") }");
        assert_eq!(found.iter().filter(|(kind, _)| kind.starts_with("Code")).count(), 2, "{found:?}");
    }

    #[test]
    fn unsafe_functions_are_not_unsafe_blocks() {
        let text = "unsafe fn f() {}\nstruct S(unsafe fn(u8));\nunsafe impl Send for S {}\n#[unsafe(no_mangle)]\nfn g() { unsafe { f() } }";
        let found = sites(text).unwrap();
        let lines: Vec<usize> = found.iter().filter(|site| site.kind == Kind::Unsafe).map(|site| site.line).collect();
        assert_eq!(lines, [3, 5]);
    }
}
