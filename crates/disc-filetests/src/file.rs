//! Reads a test file: its source, and the commands in its header.
//!
//! `//@ test KIND [KEY=VALUE]...`, several per file; `//@ dims B in [0, 1, 3], S in [2, 4]` gives
//! values for `run` tests.
use std::{collections::BTreeMap, path::PathBuf};

/// One `//@ test` line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    pub kind: String,
    pub options: BTreeMap<String, String>,
}

/// A test file.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// Its path relative to `filetests/`.
    pub name: String,
    pub path: PathBuf,
    pub source: String,
    pub commands: Vec<Command>,
    /// Values of dims, in the order of the file.
    pub dims: Vec<(String, Vec<i64>)>,
}

impl TestFile {
    /// Reads the header.
    ///
    /// # Errors
    /// A header line that cannot be parsed, or a file without a test.
    pub fn new(name: String, path: PathBuf, source: String) -> Result<Self, String> {
        let mut file = Self { name, path, source: String::new(), commands: Vec::new(), dims: Vec::new() };
        for line in source.lines() {
            let Some(header) = line.strip_prefix("//@ ") else { continue };
            match header.split_once(' ') {
                Some(("test", command)) => file.commands.push(parse_command(command)?),
                Some(("dims", dims)) => file.dims.append(&mut parse_dims(dims)?),
                _ => return Err(format!("`{line}` is neither `//@ test KIND` nor `//@ dims NAME in [...]`")),
            }
        }
        if file.commands.is_empty() {
            return Err("the file has no line `//@ test KIND`".into());
        }
        file.source = source;
        Ok(file)
    }
}

/// `KIND [KEY=VALUE]...`; the kind itself may have a value, as in `pass=cse`.
fn parse_command(text: &str) -> Result<Command, String> {
    let mut words = text.split_whitespace();
    let first = words.next().ok_or("a test without a kind")?;
    let mut options = BTreeMap::new();
    let kind = match first.split_once('=') {
        Some((kind, value)) => {
            options.insert(kind.to_owned(), value.to_owned());
            kind
        }
        None => first,
    };
    for word in words {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        options.insert(key.to_owned(), value.to_owned());
    }
    Ok(Command { kind: kind.to_owned(), options })
}

/// `B in [0, 1], S in [2, 4]`
fn parse_dims(text: &str) -> Result<Vec<(String, Vec<i64>)>, String> {
    let wrong = || format!("`{text}` is not of the form `B in [0, 1], S in [2]`");
    let mut dims = Vec::new();
    for part in text.split(']').filter(|part| !part.trim().is_empty()) {
        let (name, values) = part.trim_start_matches([',', ' ']).split_once(" in [").ok_or_else(wrong)?;
        let values = values.split(',').map(|v| v.trim().parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        dims.push((name.trim().to_owned(), values));
    }
    Ok(dims)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(source: &str) -> Result<TestFile, String> {
        TestFile::new("t".into(), "t".into(), source.into())
    }

    #[test]
    fn headers_are_read() {
        let file =
            read("//@ test pass=cse,dce stage=placed\n//@ test run random seed=7\n//@ dims B in [0, 1], S in [7]\n").unwrap();
        assert_eq!(file.commands[0].kind, "pass");
        assert_eq!(file.commands[0].options["pass"], "cse,dce");
        assert_eq!(file.commands[0].options["stage"], "placed");
        assert_eq!(file.commands[1].options["seed"], "7");
        assert_eq!(file.dims, [("B".to_owned(), vec![0, 1]), ("S".to_owned(), vec![7])]);
    }

    #[test]
    fn a_file_that_tests_nothing_is_an_error() {
        assert!(read("func @f() { return }").is_err());
        assert!(read("//@ tset roundtrip").is_err());
        assert!(read("//@ test run\n//@ dims B 3").is_err());
    }
}
