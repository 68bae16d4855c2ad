//! Mutates texts: tokens, lines and bytes are replaced, removed, repeated, and taken from
//! elsewhere.
use super::Corpus;
use disc_ir::{DType, generate::Random, ops::OPS};

/// Words that replace others.
const WORDS: &[&str] = &[
    "?",
    "[B]",
    "[2*B]",
    "[B+S]",
    "[B/2]",
    "[B%3]",
    "[max(B, 1)]",
    "[min(B, S)]",
    "0",
    "1",
    "-1",
    "3",
    "7",
    "64",
    "2147483648",
    "9223372036854775807",
    "99999999999999999999",
    "1e400",
    "nan",
    "-inf",
    "true",
    "dense<0>",
    "dense<>",
    "\"0x00\"",
    "[]",
    "[0]",
    "[1, 0]",
    "[0, 0]",
    "B",
    "S",
    "N",
    "where",
    "B == S",
    "B % 4 == 0",
    "B <= 3",
    "->",
    ":",
    ",",
    "(",
    ")",
    "{",
    "}",
    "<",
    ">",
    "[",
    "]",
    "=",
    "applies",
    "tensor<f32>",
    "tensor<[B]xf32>",
    "tensor<0x3xi8>",
    "vector<8xf32>",
    "vector<1xf32>",
    "buffer<[B]xf32, task>",
    "func",
    "kernel",
    "host",
    "routine",
    "weight",
    "return",
    "%x",
    "%y",
    "%0",
    "@main",
    "LT",
    "loc(1:2)",
    "stablehlo.",
    "\u{e9}",
    "\0",
];

/// Sizes that replace others.
const DIMS: &[&str] = &[
    "[B]",
    "[S]",
    "[N]",
    "[B+1]",
    "[2*B]",
    "[B*S]",
    "[B/2]",
    "[B%3]",
    "[max(B, 1)]",
    "[min(B, S)]",
    "0",
    "1",
    "4",
    "8",
    "1000000",
];

pub(super) fn input(corpus: &Corpus, random: &mut Random) -> String {
    let mut text = base(corpus, random);
    // Half of the inputs have one change: they reach late stages.
    let changes = if below(random, 2) == 0 { 1 } else { 2 + below(random, 3) };
    for _ in 0..changes {
        text = change(&text, corpus, random);
    }
    text
}

fn below(random: &mut Random, limit: usize) -> usize {
    (random.bits() % limit.max(1) as u64) as usize
}

fn pick<'t, T: ?Sized>(random: &mut Random, items: &[&'t T]) -> Option<&'t T> {
    items.get(below(random, items.len())).copied()
}

/// Returns one function, two, or a whole file.
fn base(corpus: &Corpus, random: &mut Random) -> String {
    let any = |items: &[String], random: &mut Random| items.get(below(random, items.len())).cloned().unwrap_or_default();
    match below(random, 8) {
        0 => any(&corpus.files, random),
        1 | 2 => any(&corpus.functions, random) + &any(&corpus.functions, random),
        _ => any(&corpus.functions, random),
    }
}

/// Splits a text into words, numbers, and single other characters; joined, they are the text.
fn tokens(text: &str) -> Vec<&str> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '%' | '@' | '.');
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if is_word(first) { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) } else { first.len_utf8() };
        let (token, after) = rest.split_at(end);
        found.push(token);
        rest = after;
    }
    found
}

fn change(text: &str, corpus: &Corpus, random: &mut Random) -> String {
    match below(random, 20) {
        0..=2 => change_dtype(text, random),
        3..=6 => change_dim(text, random),
        7..=9 => change_op(text, random),
        10 | 11 => change_number(text, random),
        12 => replace_everywhere(text, random),
        13 | 14 => change_token(text, random),
        15 => change_line(text, random),
        16 | 17 => take_line(text, corpus, random),
        18 => change_byte(text, random),
        _ => repeat(text, random),
    }
}

/// Replaces one element type by another, everywhere.
fn change_dtype(text: &str, random: &mut Random) -> String {
    let dtypes: Vec<&'static str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    let there: Vec<&'static str> = dtypes.iter().copied().filter(|dtype| text.contains(dtype)).collect();
    match (pick(random, &there), pick(random, &dtypes)) {
        (Some(old), Some(new)) => text.replace(old, new),
        _ => text.to_owned(),
    }
}

/// Replaces a dim by another size, everywhere or in one place.
fn change_dim(text: &str, random: &mut Random) -> String {
    let there: Vec<&str> =
        ["[B]", "[S]", "[N]", "x4x", "x8x", "<4x", "<8x", "x3x"].into_iter().filter(|dim| text.contains(dim)).collect();
    let (Some(old), Some(new)) = (pick(random, &there), pick(random, DIMS)) else { return text.to_owned() };
    let new = old.replace(old.trim_matches(['x', '<']), new);
    let places = text.matches(old).count();
    match below(random, 2) {
        0 => text.replace(old, &new),
        _ => {
            let at = below(random, places);
            let (start, _) = text.match_indices(old).nth(at).expect("there are so many");
            format!("{}{new}{}", &text[..start], &text[start + old.len()..])
        }
    }
}

/// Replaces an op by another with as many operands.
fn change_op(text: &str, random: &mut Random) -> String {
    let all = tokens(text);
    let places: Vec<usize> = (0..all.len()).filter(|&i| OPS.iter().any(|def| def.name == all[i])).collect();
    let Some(&at) = places.get(below(random, places.len())) else { return text.to_owned() };
    let old = OPS.iter().find(|def| def.name == all[at]).expect("places are those of ops");
    let is_alike = |def: &&disc_ir::OpDef| {
        def.operands.len() == old.operands.len() && def.attrs.len() == old.attrs.len() && def.regions.len() == old.regions.len()
    };
    let alike: Vec<&'static str> = OPS.iter().filter(is_alike).map(|def| def.name).collect();
    let new = pick(random, &alike).unwrap_or(old.name);
    all.iter().enumerate().map(|(i, token)| if i == at { new } else { token }).collect()
}

fn change_number(text: &str, random: &mut Random) -> String {
    let mut all = tokens(text);
    let places: Vec<usize> = (0..all.len()).filter(|&i| all[i].bytes().all(|b| b.is_ascii_digit())).collect();
    if let Some(&at) = places.get(below(random, places.len())) {
        all[at] = pick(
            random,
            &[
                "0",
                "1",
                "2",
                "3",
                "4",
                "8",
                "-1",
                "255",
                "100000",
                "2147483647",
                "4611686018427387904",
                "9223372036854775807",
                "-9223372036854775808",
            ],
        )
        .unwrap_or("0");
    }
    all.concat()
}

/// Returns a word for `token`, of its kind if possible, so that many results are nearly right.
fn word_for<'t>(token: &str, all: &[&'t str], random: &mut Random) -> &'t str {
    let dtypes: Vec<&'static str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
    let ops: Vec<&'static str> = OPS.iter().map(|def| def.name).collect();
    let found = match () {
        () if below(random, 8) == 0 => pick(random, WORDS),
        () if DType::from_name(token.trim_start_matches(|c: char| c == 'x' || c.is_ascii_digit())).is_some() => {
            // "4xf32" is one token: sizes change with it.
            return pick(random, &dtypes).unwrap_or("f32");
        }
        () if ops.contains(&token) => pick(random, &ops),
        () if token.starts_with(['%', '@']) => {
            let alike: Vec<&'t str> = all.iter().copied().filter(|other| other.as_bytes()[0] == token.as_bytes()[0]).collect();
            return pick(random, &alike).unwrap_or("%x");
        }
        () if token.bytes().all(|b| b.is_ascii_digit()) => pick(random, &["0", "1", "2", "3", "4", "8", "-1", "100000"]),
        () => pick(random, all).filter(|_| below(random, 2) == 0).or_else(|| pick(random, WORDS)),
    };
    found.unwrap_or("x")
}

/// Replaces every occurrence of a word by another word.
fn replace_everywhere(text: &str, random: &mut Random) -> String {
    let all = tokens(text);
    let words: Vec<&str> =
        all.iter().copied().filter(|token| token.len() > 1 || token.bytes().all(|b| b.is_ascii_alphanumeric())).collect();
    let Some(old) = pick(random, &words) else { return text.to_owned() };
    let new = word_for(old, &words, random);
    all.into_iter().map(|token| if token == old { new } else { token }).collect()
}

fn change_token(text: &str, random: &mut Random) -> String {
    let all = tokens(text);
    let mut changed = all.clone();
    let at = below(random, all.len());
    let Some(&token) = all.get(at) else { return text.to_owned() };
    match below(random, 5) {
        0 => {
            changed.remove(at);
        }
        1 => changed.insert(at, token),
        2 => changed.swap(at, below(random, all.len())),
        3 => changed.insert(at, word_for(token, &all, random)),
        _ => changed[at] = word_for(token, &all, random),
    }
    changed.concat()
}

fn change_line(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    if lines.is_empty() {
        return text.to_owned();
    }
    let (at, other) = (below(random, lines.len()), below(random, lines.len()));
    match below(random, 4) {
        0 => {
            lines.remove(at);
        }
        1 => lines.insert(at, lines[at]),
        2 => lines.swap(at, other),
        _ => {
            let line = lines.remove(at);
            lines.insert(other.min(lines.len()), line);
        }
    }
    lines.concat()
}

/// Inserts a line of another function.
fn take_line(text: &str, corpus: &Corpus, random: &mut Random) -> String {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let others: Vec<&str> = corpus
        .functions
        .get(below(random, corpus.functions.len()))
        .map(|f| f.split_inclusive('\n').collect())
        .unwrap_or_default();
    let Some(line) = pick(random, &others) else { return text.to_owned() };
    lines.insert(below(random, lines.len() + 1), line);
    lines.concat()
}

fn change_byte(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let at = below(random, bytes.len());
    let byte = random.bits() as u8;
    match below(random, 3) {
        0 if !bytes.is_empty() => bytes[at] = byte,
        1 if !bytes.is_empty() => bytes.truncate(at),
        _ => bytes.insert(at, byte),
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Repeats a token many times: nesting, long lists, long names.
fn repeat(text: &str, random: &mut Random) -> String {
    let all = tokens(text);
    let at = below(random, all.len());
    let Some(&token) = all.get(at) else { return text.to_owned() };
    let token = if below(random, 2) == 0 {
        token
    } else {
        pick(random, &["(", "[", "-", "min(", "B*", "if %p : (tensor<i1>) -> () then {", "1x"]).unwrap_or("(")
    };
    let times = [3, 20, 70, 5_000][below(random, 4)];
    let mut changed: Vec<String> = all.iter().map(|&token| token.to_owned()).collect();
    changed.insert(at, token.repeat(times));
    changed.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_the_text() {
        let text = "  %y = add %x, %x : tensor<[B]x4xf32> // \u{e9}\n";
        let all = tokens(text);
        assert_eq!(all.concat(), text);
        assert!(all.contains(&"%y") && all.contains(&"add") && all.contains(&"x4xf32"));
    }
}
