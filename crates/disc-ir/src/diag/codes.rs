//! Lists the error codes of the compiler, the runtime and the Python package: docs/errors.md and
//! `disc explain E0123` are generated from it.
//!
//! Invariants: a code keeps its number and its meaning across releases; `cargo xtask tidy` finds a
//! code that is raised and not listed, and one that is listed and raised nowhere.
use std::fmt;

/// The meaning of a code.
#[derive(Clone, Copy, Debug)]
pub struct CodeDoc {
    pub code: Code,
    pub title: &'static str,
    pub doc: &'static str,
}

/// Codes of one area; their numbers start with the same two digits.
#[derive(Clone, Copy, Debug)]
pub struct CodeFamily {
    pub title: &'static str,
    pub codes: &'static [CodeDoc],
}

macro_rules! codes {
    ($( $family:literal { $( $(#[doc = $doc:literal])+ $code:ident = $title:literal; )* } )*) => {
        /// The number of an error, stable across releases.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code { $( $( $(#[doc = $doc])+ $code, )* )* }

        /// Every code, in order, by family.
        pub static FAMILIES: &[CodeFamily] = &[$( CodeFamily {
            title: $family,
            codes: &[$( CodeDoc { code: Code::$code, title: $title, doc: concat!($($doc, "\n"),+) }, )*],
        }, )*];

        impl fmt::Display for Code {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $( $( Code::$code => stringify!($code), )* )* })
            }
        }
    };
}

codes! {
    "Reading text" {
        /// The text is not well formed: an unexpected character or word, an early end, or a file
        /// that is no text at all.
        E0101 = "syntax error";
        /// An op, type, attribute, pass or enum word that does not exist; the message proposes the
        /// nearest name that does.
        E0102 = "unknown name";
        /// A value, function, weight or dim is used before its definition, or has none.
        E0103 = "undefined name";
        /// A name is defined twice.
        E0104 = "duplicate definition";
        /// Nesting, literals or expressions beyond the parser's limits. The limits keep a damaged
        /// file from taking all memory.
        E0105 = "limit exceeded";
    }
    "Checking a program" {
        /// The number of operands, results or regions differs from the op's declaration.
        E0201 = "wrong number";
        /// An attribute is missing, given twice, or of the wrong form.
        E0202 = "bad attribute";
        /// Sizes that must be equal are not, or cannot be proved equal. If they always are, say so:
        /// `where B == S`.
        E0203 = "sizes differ";
        /// An element type that the op does not admit, or two that must agree and do not.
        E0204 = "element types differ";
        /// The declared result type is not the one that the op has.
        E0205 = "result type differs";
        /// An axis or a permutation out of range, or named twice.
        E0206 = "bad axis";
        /// A rank that the op does not admit.
        E0207 = "bad rank";
        /// An op that is not legal at this stage, or a step that does not start at the stage of the
        /// module.
        E0208 = "wrong stage";
        /// A constraint of an op that no other code names; the message cites its number in
        /// [ops.md](ops.md).
        E0209 = "constraint violated";
        /// A value is used where it does not dominate, or in a region it does not belong to.
        E0210 = "value out of scope";
        /// An invariant of a stage does not hold; this is an error of the compiler, not of the
        /// program.
        E0211 = "invariant violated";
        /// Facts that contradict each other: no sizes satisfy all of them.
        E0212 = "contradicting facts";
        /// A block that does not end in `return`, or goes on after one.
        E0213 = "malformed block";
        /// Parameters or results that such a function cannot have, or an op outside the part of a
        /// kernel where it belongs.
        E0214 = "malformed function";
        /// A function that calls itself, directly or through others.
        E0215 = "recursive call";
    }
    "Taking a model from a framework" {
        /// Ops of the framework that have no translation; the message lists all of them, with how
        /// often each occurs.
        E0401 = "unsupported op";
        /// The model depends on something that a compiled module cannot express.
        E0402 = "unsupported model";
        /// The model fixes a dim that was declared dynamic; the message states the size.
        E0403 = "dim is fixed by the model";
        /// The framework could not capture the module as one graph, or captured it only for the
        /// sizes of the example.
        E0404 = "capture failed";
        /// The model changes a tensor that is no input, parameter or buffer of its own, returns a
        /// view of what it changes, or keeps other state that its results depend on.
        E0405 = "model with side effects";
    }
    "Generating code" {
        /// Generating or loading code failed; this is an error of the compiler.
        E0501 = "code generation failed";
        /// A target that does not exist, or that this machine cannot run.
        E0502 = "bad target";
    }
    "Calling compiled code" {
        /// A call passed the wrong number of inputs, or an input of the wrong kind: its type, rank,
        /// layout, device or name.
        E0601 = "bad input";
        /// A call passed sizes that the signature does not admit; the message names the dim, the
        /// size and the fact.
        E0602 = "size outside the signature";
        /// An index out of range.
        E0603 = "index out of range";
        /// An assertion of the program failed.
        E0604 = "assertion failed";
        /// Memory could not be allocated.
        E0605 = "out of memory";
        /// The interpreter met a program that it cannot run within its limits.
        E0606 = "execution limit";
        /// The caller gave no memory for an output, or memory that cannot be used.
        E0607 = "bad output memory";
        /// Weights that do not fit the module: their number, type or sizes.
        E0608 = "bad weights";
        /// Generated code and runtime disagree; this is an error of disc, not of the model.
        E0609 = "contract broken at run time";
        /// A call in grad mode with an input that requires a gradient: a compiled module gives
        /// none. Use `torch.no_grad()`.
        E0610 = "gradients asked for";
        /// The driver of a device failed; the message has its words. After a failure that ends the
        /// device's context (an address that is not there, a kernel that the driver stopped) the
        /// process has to start anew.
        E0611 = "driver failed";
    }
    "Arguments" {
        /// An argument of a function of disc that is not acceptable.
        E0700 = "bad argument";
    }
    "This installation" {
        /// A feature that this version of disc does not have yet; ROADMAP.md lists the plans.
        E0801 = "not available";
        /// The compiled extension of the Python package is missing, or its compiler failed on a
        /// model that it should accept.
        E0802 = "broken installation";
    }
    "Packages" {
        /// A file that is no package, or a damaged one: cut off, changed, or with entries that a
        /// package does not have. The message names the entry.
        E0901 = "damaged package";
        /// The package is in a newer format than this version of disc reads.
        E0902 = "newer package";
        /// The package has no code for this processor or device, or none for the target that was
        /// asked for.
        E0903 = "no code for this target";
        /// The package has no entry of this name.
        E0904 = "no such entry";
        /// A signature is required, and it is missing or wrong; or a key cannot be read.
        E0905 = "bad signature";
        /// A model that cannot be exported: torch runs a part of it, or a call changes it.
        E0906 = "cannot be exported";
    }
    "Importing models" {
        /// A file that cannot be read, or that is not of a format that disc imports; the message
        /// says what it looks like.
        E1001 = "not a model of this format";
        /// A model beyond a limit of the importer, which the message names. The limits keep a
        /// damaged or hostile file from taking all memory.
        E1002 = "limit of the importer";
        /// Ops of the model that disc does not have, or forms of them that it does not read; the
        /// message lists all of them with their nodes.
        E1003 = "missing ops";
        /// A node of the model that contradicts itself, its types or other nodes.
        E1004 = "contradictory node";
        /// Weights of the model that are missing, have another number of bytes than their type, or
        /// are in a file that the model may not name.
        E1005 = "bad weights of a model";
        /// Sizes: an axis that has no open size, a size that contradicts another, or one that an
        /// input does not have.
        E1006 = "bad sizes of a model";
    }
}

impl Code {
    /// Every code, in order.
    pub fn all() -> impl Iterator<Item = &'static CodeDoc> {
        FAMILIES.iter().flat_map(|family| family.codes)
    }

    /// Returns the code of a name: `E0203`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().map(|doc| doc.code).find(|code| code.to_string() == name)
    }

    pub fn doc(self) -> &'static CodeDoc {
        Self::all().find(|doc| doc.code == self).expect("every code is in its family")
    }
}

const INTRO: &str = "# Errors

Every code, as the table of codes declares it; generated by `cargo xtask codegen`. `disc explain E0203` prints one of them. How errors look, and
what to do with them, is in [guide/errors.md](guide/errors.md).
";

/// Generates the text of docs/errors.md.
pub fn docs() -> String {
    let mut text = String::from(INTRO);
    for family in FAMILIES {
        text += &format!("\n## {}\n", family.title);
        for CodeDoc { code, title, doc } in family.codes {
            text += &format!("\n### {code}\n\n**{title}**: {}\n", doc.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_in_order_and_found_by_name() {
        let names: Vec<String> = Code::all().map(|doc| doc.code.to_string()).collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
        assert!(
            Code::all().all(|doc| Code::from_name(&doc.code.to_string()) == Some(doc.code) && doc.code.doc().code == doc.code)
        );
        assert_eq!((Code::from_name("E0999"), Code::from_name("e0203")), (None, None));
    }

    #[test]
    fn a_family_shares_its_first_digits() {
        for family in FAMILIES {
            let start = |doc: &CodeDoc| doc.code.to_string()[..3].to_owned();
            assert!(family.codes.iter().all(|doc| start(doc) == start(&family.codes[0])), "{}", family.title);
        }
    }
}
