//! Frames of the arena: one for sizes known at entry, and one for each dim that an op binds.
//!
//! Invariant: the frame of a value is the innermost of those whose dims its size mentions, so that
//! the size is known where the frame begins.
use disc_ir::{Dim, Symbol, Value};
use std::collections::HashMap;

pub(super) struct Frame {
    /// The memory of the frame; its size is set last.
    pub(super) arena: Value,
    /// The dim whose binding begins the frame.
    pub(super) symbol: Option<Symbol>,
    pub(super) parent: Option<usize>,
}

#[derive(Default)]
pub(super) struct Frames {
    all: Vec<Frame>,
    current: usize,
    /// The innermost open frame at each allocation.
    asked_in: HashMap<Value, usize>,
}

impl Frames {
    pub(super) fn current(&self) -> usize {
        self.current
    }

    /// Begins a frame within the current one.
    pub(super) fn open(&mut self, frame: Frame) {
        let parent = (!self.all.is_empty()).then_some(self.current);
        self.current = self.all.len();
        self.all.push(Frame { parent, ..frame });
    }

    /// Ends the frames within `outer`.
    pub(super) fn close_to(&mut self, outer: usize) {
        self.current = outer;
    }

    pub(super) fn arena(&self, frame: usize) -> Value {
        self.all[frame].arena
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn record(&mut self, part: Value) {
        self.asked_in.insert(part, self.current);
    }

    /// The innermost open frame where a buffer was allocated.
    pub(super) fn asked_in(&self, part: Value) -> usize {
        self.asked_in[&part]
    }

    /// The frame of a size: the innermost frame around `inner` whose dim it mentions.
    pub(super) fn of(&self, size: &Dim, inner: usize) -> usize {
        let symbols = size.symbols();
        let mentions = |&frame: &usize| self.all[frame].symbol.as_ref().is_some_and(|symbol| symbols.contains(symbol));
        self.around(inner).find(mentions).unwrap_or(0)
    }

    /// Returns true if `outer` is `inner` or a frame around it.
    pub(super) fn surrounds(&self, outer: usize, inner: usize) -> bool {
        self.around(inner).any(|frame| frame == outer)
    }

    /// A frame and those around it.
    fn around(&self, inner: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(inner), |&frame| self.all[frame].parent)
    }
}
