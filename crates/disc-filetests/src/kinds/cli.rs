//! Tests the output of the command-line tools, and their exit status: `cli [mask]`.
//!
//! `// $ disc-opt FILE --run` is a command; FILE is the test file, OUT a file that the command may
//! write. Below it are the lines that it prints (`// | ` to standard output, `// ! ` to standard
//! error), and `// = 1` for a status other than 0. With `mask`, every number of the output reads N:
//! for output that depends on time or machine.
use super::Tried;
use crate::{
    compiled::Hooks,
    file::{Command, TestFile},
};
use std::{path::Path, process};

const COMMAND: &str = "// $ ";
const EXPECTED: [&str; 3] = ["// |", "// !", "// ="];

pub(crate) fn run(file: &TestFile, command: &Command, hooks: Hooks) -> Tried {
    let Some(tool) = hooks.tool else { return Ok(file.source.clone()) };
    let mut text = String::new();
    let mut lines = file.source.lines().peekable();
    while let Some(line) = lines.next() {
        text += &format!("{line}\n");
        let Some(words) = line.strip_prefix(COMMAND) else { continue };
        while lines.next_if(|line| EXPECTED.iter().any(|mark| line.starts_with(mark))).is_some() {}
        let (name, words) = words.split_once(' ').unwrap_or((words, ""));
        let path = tool(name).ok_or_else(|| format!("there is no tool `{name}`"))?;
        let shown = shown(&path, words, &file.path).map_err(|why| format!("{line}: {why}"))?;
        text += &if command.options.contains_key("mask") { masked(&shown) } else { shown };
    }
    Ok(text)
}

/// Runs a command and returns the lines to expect.
fn shown(tool: &Path, words: &str, file: &Path) -> Result<String, String> {
    let (file, out) = (file.to_string_lossy(), std::env::temp_dir().join(format!("disc-cli-{}", process::id())));
    let out_name = out.to_string_lossy();
    let words = words.split_whitespace().map(|word| word.replace("FILE", &file).replace("OUT", &out_name));
    let run = process::Command::new(tool).args(words).stdin(process::Stdio::null()).output().map_err(|e| e.to_string())?;
    // If it does not exist, nothing was written.
    let _ = std::fs::remove_file(&out);
    let plain = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&*file, "FILE").replace(&*out_name, "OUT");
    let marked = |bytes: &[u8], mark: &str| -> String {
        plain(bytes).lines().map(|line| format!("{}\n", format!("{mark} {line}").trim_end())).collect()
    };
    let status = match run.status.code() {
        Some(0) => String::new(),
        Some(code) => format!("// = {code}\n"),
        None => return Err(format!("it was killed: {}", run.status)),
    };
    Ok(format!("{status}{}{}", marked(&run.stdout, "// |"), marked(&run.stderr, "// !")))
}

/// Replaces every run of digits, with points within it, by N, and its padding by one space; a digit
/// within a word stays.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let in_word = out.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let length = if in_word { 0 } else { rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()) };
        if length > 0 && c.is_ascii_digit() {
            let number = rest[..length].trim_end_matches('.');
            while out.ends_with("  ") {
                out.pop();
            }
            out.push('N');
            rest = &rest[number.len()..];
        } else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_masked_but_not_names() {
        assert_eq!(masked("k0:   12.5 us, 3. f32 [4]"), "k0: N us, N. f32 [N]");
    }

    #[test]
    fn a_tool_is_run_and_its_lines_are_marked() {
        let shown = shown(Path::new("/bin/sh"), "-c echo${IFS}FILE;echo${IFS}OUT>&2;exit${IFS}3", Path::new("a.disc")).unwrap();
        assert_eq!(shown, "// = 3\n// | FILE\n// ! OUT\n");
    }
}
