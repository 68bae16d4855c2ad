//! Names values in text: by their own names, made unique among the visible ones.
//!
//! Invariant: printing parsed text gives every value the name it was parsed with.
use super::super::{
    limits::MAX_NAME,
    names::{continues_name, is_number},
};
use crate::graph::Value;
use std::collections::{HashMap, HashSet};

#[derive(Default)]
pub(super) struct Scope {
    names: HashMap<Value, String>,
    visible: HashSet<String>,
    /// The names that each open block added.
    blocks: Vec<Vec<String>>,
    /// The last number appended to a name that was taken.
    suffixes: HashMap<String, usize>,
    nameless: usize,
}

impl Scope {
    pub(super) fn open(&mut self) {
        self.blocks.push(Vec::new());
    }

    pub(super) fn close(&mut self) {
        for name in self.blocks.pop().unwrap_or_default() {
            self.visible.remove(&name);
        }
    }

    /// Gives a value its name in text.
    pub(super) fn define(&mut self, value: Value, name: Option<&str>) -> String {
        let name = match name.filter(|name| !is_number(name)) {
            Some(name) => self.unique(plain(name)),
            None => {
                self.nameless += 1;
                (self.nameless - 1).to_string()
            }
        };
        self.names.insert(value, name.clone());
        self.visible.insert(name.clone());
        self.blocks.last_mut().expect("a block is open").push(name.clone());
        name
    }

    /// The name of a value; one that is not visible (the verifier rejects that) is marked.
    pub(super) fn name(&self, value: Value) -> String {
        self.names.get(&value).cloned().unwrap_or_else(|| format!("undefined.{}", value.index()))
    }

    /// Every name that was given.
    pub(super) fn into_names(self) -> HashMap<Value, String> {
        self.names
    }

    fn unique(&mut self, name: String) -> String {
        if !self.visible.contains(&name) {
            return name;
        }
        let mut suffix = self.suffixes.get(&name).copied().unwrap_or(0);
        let found = loop {
            suffix += 1;
            let candidate = format!("{name}_{suffix}");
            if !self.visible.contains(&candidate) {
                break candidate;
            }
        };
        self.suffixes.insert(name, suffix);
        found
    }
}

/// The name with other characters than a name may have replaced. Shorter than the limit, so that a
/// suffix fits.
fn plain(name: &str) -> String {
    const ROOM: usize = 24;
    let bytes = name.bytes().take(MAX_NAME - ROOM);
    let clean: String = bytes.map(|b| if continues_name(b) { b as char } else { '_' }).collect();
    if is_number(&clean) { format!("_{clean}") } else { clean }
}
