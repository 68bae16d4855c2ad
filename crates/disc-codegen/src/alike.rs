//! Which groups of a plan come out as groups of its function: they share the kernels, and a plan of nothing but such groups is none.
//!
//! Code is compared as text, in which a group's own name, which is in front of the names of all that it has, is left out.
use crate::{
    lower::Known,
    schedule::{Scheduled, Versioned},
};
use std::{collections::HashMap, fmt::Write};

/// What was made of groups, by their code.
#[derive(Default)]
pub(crate) struct Alike(HashMap<String, Known>);

impl Alike {
    /// The group whose code is that of another one.
    pub(crate) fn find(&self, text: &str) -> Option<Known> {
        self.0.get(text).cloned()
    }

    pub(crate) fn insert(&mut self, text: String, known: Known) {
        self.0.insert(text, known);
    }
}

/// The code of a group with this name.
pub(crate) fn text(scheduled: &Versioned, name: &str) -> String {
    let mut text = String::new();
    let mut write = |code: &Scheduled, when: &dyn std::fmt::Debug| {
        let kernels: Vec<String> = code.kernels.iter().map(ToString::to_string).collect();
        writeln!(text, "{when:?} {:?}\n{}", code.launches, kernels.concat()).expect("writing to a string");
    };
    for version in &scheduled.versions {
        write(&version.code, &(&version.guard, &version.workspaces, &version.streamed));
    }
    write(&scheduled.otherwise, &());
    text.replace(name, "")
}
