//! Records the lines of the model that ops came from.
//!
//! Invariant: lines are for people. Code, keys and names do not depend on them, so an edit that
//! only moves lines changes nothing else.
use crate::{
    graph::{Function, Inst},
    ops::OpKind,
};
use std::{fmt, sync::Arc};

/// A line of the model, and the function that it is in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Line {
    file: Arc<str>,
    number: u32,
    function: Arc<str>,
}

impl Line {
    /// Keeps the last two parts of an absolute path: a package must not tell whose machine it was
    /// made on. `function` may be empty.
    pub fn new(file: &str, number: u32, function: &str) -> Self {
        let is_separator = |c| matches!(c, '/' | '\\');
        let is_absolute = file.starts_with(is_separator) || file.get(1..3).is_some_and(|rest| matches!(rest, ":\\" | ":/"));
        let short = match file.rmatch_indices(is_separator).nth(1) {
            Some((at, _)) if is_absolute => &file[at + 1..],
            _ if is_absolute => file.rsplit(is_separator).next().unwrap_or(file),
            _ => file,
        };
        Self { file: short.into(), number, function: function.into() }
    }

    pub fn file(&self) -> &str {
        &self.file
    }

    pub fn number(&self) -> u32 {
        self.number
    }

    pub fn function(&self) -> &str {
        &self.function
    }
}

/// Formats `model.py:42 forward`.
impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.number)?;
        if self.function.is_empty() { Ok(()) } else { write!(f, " {}", self.function) }
    }
}

/// The op of the source program that an op came from, as a number in [`Lines`]. Passes keep it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin(pub u32);

/// So many lines of one group are named.
const MOST: usize = 8;

/// The lines of the origins of a module, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(Vec<Option<Line>>);

impl Lines {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, origin: Origin) -> Option<&Line> {
        self.0.get(origin.0 as usize)?.as_ref()
    }

    /// Adds a line, unless it is the last one already.
    pub fn add(&mut self, line: Line) -> Origin {
        if self.0.last().and_then(Option::as_ref) != Some(&line) {
            self.0.push(Some(line));
        }
        Origin(self.0.len() as u32 - 1)
    }

    /// Sets the line of an origin.
    pub fn set(&mut self, origin: Origin, line: Line) {
        let at = origin.0 as usize;
        if self.0.len() <= at {
            self.0.resize(at + 1, None);
        }
        self.0[at] = Some(line);
    }

    /// Appends the lines of another module. Returns the number by which its origins grow.
    pub fn append(&mut self, other: Self) -> u32 {
        let offset = self.0.len() as u32;
        self.0.extend(other.0);
        offset
    }

    /// Formats the distinct lines of some origins, in their order: the first few.
    pub fn first_of(&self, origins: impl IntoIterator<Item = Origin>) -> Vec<String> {
        let mut found: Vec<&Line> = Vec::new();
        for line in origins.into_iter().filter_map(|origin| self.get(origin)) {
            if found.len() < MOST && !found.contains(&line) {
                found.push(line);
            }
        }
        found.into_iter().map(Line::to_string).collect()
    }
}

/// Returns the origins of ops, in the order of the ops. Equal constants of several lines are one
/// op, so those of constants and broadcasts count only if there are no others.
pub fn origins(function: &Function, insts: &[Inst]) -> Vec<Origin> {
    let is_free = |&&inst: &&Inst| matches!(function.kind_of(inst), OpKind::Constant | OpKind::BroadcastInDim);
    let origin = |&inst: &Inst| function.inst(inst).origin;
    let found: Vec<Origin> = insts.iter().filter(|inst| !is_free(inst)).filter_map(origin).collect();
    if found.is_empty() { insts.iter().filter_map(origin).collect() } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_lose_their_beginning() {
        let file = |path: &str| Line::new(path, 1, "").file().to_owned();
        assert_eq!(file("/srv/somebody/code/net/model.py"), "net/model.py");
        assert_eq!(file("C:\\Users\\somebody\\net\\model.py"), "net\\model.py");
        assert_eq!(file("/model.py"), "model.py");
        assert_eq!((file("src/net/model.py"), file("<stdin>")), ("src/net/model.py".into(), "<stdin>".into()));
    }

    #[test]
    fn lines_are_listed_once_and_in_order() {
        let mut lines = Lines::default();
        let (a, b) = (lines.add(Line::new("m.py", 2, "f")), lines.add(Line::new("m.py", 1, "")));
        assert_eq!(lines.add(Line::new("m.py", 1, "")), b);
        lines.set(Origin(7), Line::new("m.py", 2, "f"));
        assert_eq!(lines.first_of([a, Origin(3), b, Origin(7), Origin(99)]), ["m.py:2 f", "m.py:1"]);
        let many = Lines((1..20).map(|number| Some(Line::new("m.py", number, ""))).collect());
        assert_eq!(many.first_of((0..19).map(Origin)).len(), MOST);
        let mut both = Lines::default();
        both.add(Line::new("n.py", 5, ""));
        assert_eq!(both.append(lines), 1);
        assert_eq!(both.get(Origin(1 + b.0)).unwrap().number(), 1);
    }
}
