//! Shares kernels among groups of a variant whose code is the same. A variant of only such groups
//! is dropped.
//!
//! Code is compared as text, without the group's name, with which the names of its kernels begin.
//! Kernels that can fail hold the numbers of their checks, so that no two of them are the same.
use super::group::GroupCode;
use crate::schedule::{Scheduled, Versioned};
use std::{collections::HashMap, fmt::Write};

/// The code that was made of groups, by its text.
#[derive(Default)]
pub(super) struct Dedup(HashMap<String, GroupCode>);

impl Dedup {
    /// The code of an earlier group with this text.
    pub(super) fn find(&self, text: &str) -> Option<GroupCode> {
        self.0.get(text).cloned()
    }

    pub(super) fn insert(&mut self, text: String, known: GroupCode) {
        self.0.insert(text, known);
    }
}

/// The code of a group as text: versions with their guards, launches and kernels, without the name
/// of the group.
pub(super) fn text(scheduled: &Versioned, name: &str) -> String {
    let mut text = String::new();
    write(scheduled, &mut text);
    text.replace(name, "")
}

fn write(scheduled: &Versioned, text: &mut String) {
    let mut code = |code: &Scheduled, when: &dyn std::fmt::Debug| {
        let kernels: Vec<String> = code.kernels.iter().map(ToString::to_string).collect();
        writeln!(text, "{when:?} {:?}\n{}", code.launches, kernels.concat()).expect("writing to a string");
    };
    for version in &scheduled.versions {
        code(&version.code, &(&version.guard, &version.workspaces));
    }
    code(&scheduled.otherwise, &());
    for way in &scheduled.library {
        let products = way.rest.as_ref().map(|rest| &rest.products);
        writeln!(text, "{:?} {products:?}", way.offers).expect("writing to a string");
        if let Some(rest) = &way.rest {
            write(&rest.code, text);
        }
    }
}
