//! Declares every option that a user may choose, once.
//!
//! The table ([`option_table!`]) gives the fields of `disc::Options`, their reading from Python and
//! from the command line, and the part of the cache key that they make; [`render`] gives the Python
//! class and the page docs/guide/settings.md (`cargo xtask codegen`).
//!
//! It does not implement the options. Settings of developers (`fuel`, `dump`) and environment
//! variables are not in the table.
pub mod render;
mod table;

/// Values that an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// True or false.
    Flag,
    /// True or false, or one word more.
    FlagOr(&'static str),
    /// A positive integer.
    Count,
    /// Text, of which the message of a wrong value gives an example.
    Text(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// One of these words; the last may have a path after a colon.
    ChoiceOrPath(&'static [&'static str]),
    /// A list of names, of which the message of a wrong value gives an example.
    Names(&'static str),
}

/// A value of an option, as a front end reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'v> {
    Flag(bool),
    Count(usize),
    Text(&'v str),
    /// The empty list.
    NoNames,
    /// Not chosen: the default depends on the machine, or on who asks.
    Unset,
}

/// The part of an option in the key of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affects {
    /// Another value is other code.
    Code,
    /// Code depends on what the value comes to on this machine, and the key has that.
    Resolved,
    /// Code is the same.
    Run,
}

/// Who reads an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The compiler and the runtime.
    Compiler,
    /// Only a front end.
    Front,
    /// A front end, once it exists: another value than the default is refused.
    Planned,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Opt {
    pub name: &'static str,
    pub kind: Kind,
    /// Default of the Python package. A field of `disc::Options` may differ, and says so.
    pub default: Value<'static>,
    pub affects: Affects,
    pub reader: Reader,
    /// Markdown in one line.
    pub doc: &'static str,
}

macro_rules! rows {
    (
        compiler { $($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $kind:expr, $default:expr, $affects:ident;)+ }
        front { $($(#[doc = $front_doc:literal])+ $front_name:ident = $front_kind:expr, $front_default:expr, $reader:ident;)+ }
    ) => {
        /// Every option, in the order in which pages and the Python class have them.
        pub static OPTIONS: &[Opt] = &[
            $(Opt {
                name: stringify!($name),
                kind: $kind,
                default: $default,
                affects: Affects::$affects,
                reader: Reader::Compiler,
                doc: concat!($($doc),+),
            },)+
            $(Opt {
                name: stringify!($front_name),
                kind: $front_kind,
                default: $front_default,
                affects: Affects::Run,
                reader: Reader::$reader,
                doc: concat!($($front_doc),+),
            },)+
        ];
    };
}
option_table!(rows);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_option_is_described() {
        for (i, option) in OPTIONS.iter().enumerate() {
            assert!(OPTIONS[..i].iter().all(|other| other.name != option.name), "{}", option.name);
            assert!(option.doc.starts_with(' ') && !option.doc.ends_with('.'), "{}: {}", option.name, option.doc);
        }
    }

    #[test]
    fn a_default_is_a_value_of_its_kind() {
        for option in OPTIONS {
            let fits = match (option.kind, option.default) {
                (_, Value::Unset) | (Kind::Flag | Kind::FlagOr(_), Value::Flag(_)) | (Kind::Count, Value::Count(1..)) => true,
                (Kind::Names(_), Value::NoNames) => true,
                (Kind::Choice(words) | Kind::ChoiceOrPath(words), Value::Text(word)) => words.contains(&word),
                _ => false,
            };
            assert!(fits, "{}: {:?}", option.name, option.default);
        }
    }
}
