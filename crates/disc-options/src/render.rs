//! Renders the table for Python and for the guide.
use crate::{Kind, OPTIONS, Opt, Reader, Value};
use std::fmt::Write as _;

/// Renders the rows of the table in docs/guide/settings.md.
#[must_use]
pub fn settings() -> String {
    let mut text = String::from("| field | default | what it does |\n|---|---|---|\n");
    for option in OPTIONS {
        let later = if option.reader == Reader::Planned { " (not available yet)" } else { "" };
        let _ = writeln!(text, "| `{}` | {} | {}{later} |", option.name, shown(option.default), option.doc.trim());
    }
    text
}

fn shown(default: Value<'_>) -> String {
    match default {
        Value::Unset => "-".into(),
        value => format!("`{}`", python(value)),
    }
}

/// Renders the module `disc.core.option_fields`: the fields of `disc.Options` with their checks and
/// defaults.
#[must_use]
pub fn python_fields() -> String {
    let mut text = String::from(
        "\"\"\"Fields of ``disc.Options``.\n\n\
         ``cargo xtask codegen`` generates them from crates/disc-options/src/table.rs.\n\"\"\"\n\n\
         from __future__ import annotations\n\n\
         from collections.abc import Sequence\n\
         from dataclasses import dataclass\n\n\n\
         @dataclass(frozen=True)\n\
         class OptionFields:\n    \"\"\"None (or nothing) for a field takes the value of the enclosing ``with``, then the default.\"\"\"\n\n",
    );
    for option in OPTIONS {
        let _ = writeln!(text, "    {}: {} | None = None", option.name, python_type(option.kind));
    }
    text += "\n\n#: Kinds of values, as ``disc.core.options`` checks them, with what a message or the check needs.\nKINDS = {\n";
    for option in OPTIONS {
        let _ = writeln!(text, "    \"{}\": {},", option.name, python_kind(option.kind));
    }
    text += "}\n\n#: Values of options that nobody chose.\nDEFAULTS = {\n";
    for option in OPTIONS.iter().filter(|option| option.default != Value::Unset) {
        let _ = writeln!(text, "    \"{}\": {},", option.name, python(option.default));
    }
    text += "}\n\n#: Handed to the compiler under their names.\n";
    text += &names("COMPILER", |option| option.reader == Reader::Compiler);
    text += "\n#: Not available yet.\n";
    text += &names("PLANNED", |option| option.reader == Reader::Planned);
    text
}

fn names(list: &str, wanted: fn(&Opt) -> bool) -> String {
    let found: Vec<&str> = OPTIONS.iter().filter(|option| wanted(option)).map(|option| option.name).collect();
    if let [one] = found[..] {
        // As ruff formats it.
        return format!("{list} = (\"{one}\",)\n");
    }
    let lines: String = found.iter().map(|name| format!("    \"{name}\",\n")).collect();
    format!("{list} = (\n{lines})\n")
}

fn python(value: Value<'_>) -> String {
    match value {
        Value::Flag(true) => "True".into(),
        Value::Flag(false) => "False".into(),
        Value::Count(count) => count.to_string(),
        Value::Text(text) => format!("\"{text}\""),
        Value::NoNames => "()".into(),
        Value::Unset => "None".into(),
    }
}

fn python_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Flag => "bool",
        Kind::FlagOr(_) => "bool | str",
        Kind::Count => "int",
        Kind::Text(_) | Kind::Choice(_) | Kind::ChoiceOrPath(_) => "str",
        Kind::Names(_) => "Sequence[str]",
    }
}

fn python_kind(kind: Kind) -> String {
    let words = |words: &[&str]| words.iter().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ");
    match kind {
        Kind::Flag => "(\"flag\", None)".into(),
        Kind::FlagOr(word) => format!("(\"flag_or\", \"{word}\")"),
        Kind::Count => "(\"count\", None)".into(),
        Kind::Text(example) => format!("(\"text\", \"{example}\")"),
        Kind::Choice(choices) => format!("(\"choice\", ({}))", words(choices)),
        Kind::ChoiceOrPath(choices) => format!("(\"choice_or_path\", ({}))", words(choices)),
        Kind::Names(example) => format!("(\"names\", \"{example}\")"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_is_in_both() {
        for option in OPTIONS {
            assert!(settings().contains(&format!("\n| `{}` |", option.name)));
            assert!(python_fields().contains(&format!("\n    {}: ", option.name)));
        }
    }

    #[test]
    fn a_default_is_written_as_python_writes_it() {
        assert!(python_fields().contains("\"specialize\": True,") && python_fields().contains("\"allow_ops\": (),"));
        assert!(!python_fields().contains("\"target\": None"));
    }
}
