//! Brings terms of an operand to shared memory, chunk by chunk, in lines that fragments are loaded
//! from.
use super::{CHUNK, Lines};
use crate::{
    kernel::{Index, KernelBuilder},
    schedule::{
        Group,
        gpu::{frame::GridFrame, vectors::vector_lanes},
    },
    target::GpuModel,
};
use disc_ir::{DType, Dim, OpKind, Value};
use disc_kernel_macros::expr;

/// Bytes of a word, words of a sector of memory, and threads that bring some of several sectors.
const WORD: usize = 4;
const SECTOR_WORDS: i64 = 8;
const GROUP: i64 = 32;

/// A part of an operand: some rows, columns or keys, its places, and some terms of each.
#[derive(Clone, Copy)]
pub(in crate::schedule::gpu) struct Panel {
    value: Value,
    pub(in crate::schedule::gpu) dtype: DType,
    pub(in crate::schedule::gpu) places: i64,
    pub(in crate::schedule::gpu) terms: i64,
    /// The first chunk in a stage of memory.
    start: i64,
    /// Terms are innermost in memory: a line has those of one place.
    pub(in crate::schedule::gpu) along_terms: bool,
    /// Chunks are copied asynchronously; else they are computed in vectors of so many elements,
    /// which divide them.
    pub(in crate::schedule::gpu) is_copied: bool,
    lanes: u32,
}

/// The threads that bring a panel together.
pub(in crate::schedule::gpu) struct Team {
    pub(in crate::schedule::gpu) thread: Value,
    pub(in crate::schedule::gpu) threads: i64,
    pub(in crate::schedule::gpu) memory: Value,
}

/// The part that is brought.
pub(in crate::schedule::gpu) struct Wanted<'d> {
    /// The first place and the first term, multiples of those of a panel.
    pub(in crate::schedule::gpu) first: [Value; 2],
    /// The sizes of both dimensions.
    pub(in crate::schedule::gpu) sizes: [&'d Dim; 2],
    /// The element where the stage begins.
    pub(in crate::schedule::gpu) to: Value,
    /// A test that the part is wanted at all; else zeros are brought.
    pub(in crate::schedule::gpu) exists: Option<Value>,
}

/// Returns the position of an element of an operand in its tensor, by its place and term.
pub(in crate::schedule::gpu) type Position<'p> = dyn Fn(&mut KernelBuilder, [Value; 2]) -> Vec<Index> + 'p;

/// Elements that are stored once the memory is free.
pub(in crate::schedule::gpu) struct Later {
    memory: Value,
    index: Value,
    pub(in crate::schedule::gpu) value: Value,
}

impl Later {
    pub(in crate::schedule::gpu) fn store(self, kb: &mut KernelBuilder) {
        kb.store(self.memory, self.index, self.value, None);
    }
}

/// Returns the value whose elements a conversion to a wider type keeps; else the value itself.
pub(in crate::schedule::gpu) fn unwidened(group: &Group<'_>, value: Value) -> Value {
    let function = group.function;
    let conversion = function.defining(value).filter(|&inst| function.kind_of(inst) == OpKind::Convert);
    let from = conversion.map(|inst| function.operands(inst)[0]);
    let is_kept = |from: &Value| group.tensor(value).dtype.holds(group.tensor(*from).dtype);
    from.filter(is_kept).unwrap_or(value)
}

impl Panel {
    /// Returns a panel; `None` if no fragments can be loaded from its lines. The last dimension of
    /// the tensor has terms, or else places.
    pub(in crate::schedule::gpu) fn of(
        group: &Group<'_>,
        value: Value,
        along_terms: bool,
        [places, terms]: [i64; 2],
        start: i64,
    ) -> Option<Self> {
        let dtype = group.tensor(value).dtype;
        // Loads of matrices transpose elements of two bytes, and copies have at least four.
        if !along_terms && dtype.size() < 2 {
            return None;
        }
        let is_copied = group.inputs().contains(&value) && GpuModel::of(group.target)?.has_async_copies;
        let lanes = vector_lanes(group).unwrap_or(1).min(GpuModel::ACCESS_BYTES / dtype.size() as u32);
        Some(Self { value, dtype, places, terms, start, along_terms, is_copied, lanes })
    }

    /// Elements of a chunk.
    pub(in crate::schedule::gpu) fn per_chunk(&self) -> i64 {
        CHUNK / self.dtype.size() as i64
    }

    /// Returns true if words of four bytes are transposed on the way: lines have terms, whatever is
    /// innermost in memory.
    fn is_transposed(&self) -> bool {
        !self.along_terms && self.dtype.size() == WORD
    }

    /// Neighbouring elements that are brought together.
    pub(in crate::schedule::gpu) fn together(&self) -> i64 {
        if self.is_transposed() { 1 } else { self.per_chunk() }
    }

    pub(in crate::schedule::gpu) fn chunks(&self) -> i64 {
        self.places * self.terms / self.per_chunk()
    }

    /// Returns the same panel, brought by computing its elements.
    pub(in crate::schedule::gpu) fn computed(self) -> Self {
        Self { is_copied: false, ..self }
    }

    /// Returns the lines in the memory of a block.
    pub(in crate::schedule::gpu) fn lines(&self, memory: Value) -> Lines {
        let along_terms = self.along_terms || self.is_transposed();
        let across = if along_terms { self.terms } else { self.places };
        let chunks = across / self.per_chunk();
        Lines { memory, dtype: self.dtype, start: self.start, chunks, along_terms }
    }

    /// Brings a part: begins to copy it, or computes what is to be stored later. After the last
    /// term are zeros, after the last place copies of it.
    pub(in crate::schedule::gpu) fn bring(
        &self,
        frame: &mut GridFrame<'_>,
        team: &Team,
        wanted: &Wanted<'_>,
        position: &Position<'_>,
    ) -> Vec<Later> {
        let slots = if self.is_transposed() { self.words(frame, team) } else { self.own_chunks(frame, team) };
        let together = self.together();
        let mut later = Vec::new();
        for (own, index) in slots {
            let kb = &mut frame.kb;
            let index = expr!(kb, wanted.to + index);
            let [place, term] = [0, 1].map(|side| expr!(kb, wanted.first[side] + own[side]));
            let is_term = expr!(kb, term < dim(wanted.sizes[1]));
            let exists = wanted.exists.map_or(is_term, |exists| expr!(kb, exists & is_term));
            // Those along a dimension begin at most so far before its end.
            let last = |side: usize, is_along: bool| wanted.sizes[side] - if is_along { together } else { 1 };
            let (last_place, last_term) = (kb.dim(&last(0, !self.along_terms)), kb.dim(&last(1, self.along_terms)));
            let place = kb.min(place, last_place);
            if self.is_copied {
                let at = vector_at(position(kb, [place, term]));
                let GridFrame { kb, elements, .. } = frame;
                let from = elements.start_of(kb, self.value, &at);
                let buffer = elements.buffer(self.value);
                kb.copy_async([team.memory, index], [buffer, from], together, exists);
                continue;
            }
            let term = kb.min(term, last_term);
            let lanes = i64::from(self.lanes).min(together);
            for part in 0..together / lanes {
                let kb = &mut frame.kb;
                let offset = kb.int(part * lanes);
                let index = expr!(kb, index + offset);
                let own = if self.along_terms { [place, expr!(kb, term + offset)] } else { [expr!(kb, place + offset), term] };
                let at = position(kb, own);
                later.push(Later { memory: team.memory, index, value: self.vector(frame, (at, lanes as u32), exists) });
            }
        }
        later
    }

    /// Returns the chunks of a thread: the place and the term of each, and its element in a stage.
    fn own_chunks(&self, frame: &mut GridFrame<'_>, team: &Team) -> Vec<([Value; 2], Value)> {
        let lines = self.lines(team.memory);
        let kb = &mut frame.kb;
        let (chunks, per_chunk) = (kb.int(lines.chunks), kb.int(self.per_chunk()));
        let (line, chunk) = (expr!(kb, team.thread / chunks), expr!(kb, team.thread % chunks));
        let (along, first) = (expr!(kb, chunk * per_chunk), lines.index(kb, line, chunk));
        let each = |number| {
            // These lines are a multiple of 8 apart: their chunks are permuted alike.
            let (further, behind) =
                (kb.int(number * team.threads / lines.chunks), kb.int(number * team.threads * self.per_chunk()));
            let line = expr!(kb, line + further);
            (if self.along_terms { [line, along] } else { [along, line] }, expr!(kb, first + behind))
        };
        (0..self.chunks() / team.threads).map(each).collect()
    }

    /// Returns the words of a thread, as [`Panel::own_chunks`]. Neighbouring threads have those of
    /// a sector, and other terms after it: they write to different banks.
    fn words(&self, frame: &mut GridFrame<'_>, team: &Team) -> Vec<([Value; 2], Value)> {
        let lines = self.lines(team.memory);
        let kb = &mut frame.kb;
        let [beside, below, group] = [SECTOR_WORDS, GROUP / SECTOR_WORDS, GROUP].map(|size| kb.int(size));
        let across = kb.int(self.places / SECTOR_WORDS);
        let of_group = expr!(kb, team.thread % group);
        let (place, term) = (expr!(kb, of_group % beside), expr!(kb, of_group / beside));
        let before = expr!(kb, team.thread / group);
        let each = |number| {
            let number = expr!(kb, before + int(number * team.threads / GROUP));
            let (down, along) = (expr!(kb, number / across), expr!(kb, number % across));
            let down = expr!(kb, down * below);
            let (place, term) = (expr!(kb, place + along * beside), expr!(kb, term + down));
            let per_chunk = kb.int(self.per_chunk());
            let (chunk, word) = (expr!(kb, term / per_chunk), expr!(kb, term % per_chunk));
            let index = lines.index(kb, place, chunk);
            ([place, term], expr!(kb, index + word))
        };
        (0..self.places * self.terms / team.threads).map(each).collect()
    }

    /// Computes a vector of elements; zeros unless it exists.
    fn vector(&self, frame: &mut GridFrame<'_>, (at, lanes): (Vec<Index>, u32), exists: Value) -> Value {
        let GridFrame { kb, elements, .. } = frame;
        let outer = std::mem::replace(&mut elements.lanes, lanes);
        let value = elements.element(kb, self.value, &if lanes > 1 { vector_at(at) } else { at });
        elements.lanes = outer;
        let value = kb.convert(value, self.dtype);
        let value = kb.widen(value, lanes);
        expr!(kb, select(exists, value, zero(self.dtype, lanes)))
    }
}

/// Returns the position of a vector along the last dimension.
fn vector_at(mut at: Vec<Index>) -> Vec<Index> {
    let last = at.last_mut().expect("an operand has dimensions");
    *last = Index::Affine { base: last.as_uniform().expect("it was a position"), stride: 1 };
    at
}
