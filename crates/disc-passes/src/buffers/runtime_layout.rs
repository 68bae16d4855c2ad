//! Lays the arena out in each call, from its sizes: the op `layout_arena`.
//!
//! A layout for all sizes is tight only where facts order the sizes. No fact orders the square of a
//! length and the rest that strides leave of it, so a static layout puts one after the other
//! although they are never live together. Here only the overlaps of live ranges are known at
//! compile time; each call finds the offsets, in some nanoseconds per allocation. It is taken where
//! it saves memory at the sample sizes. See docs/adr/0007-layouts-of-a-call.md.
//!
//! Invariants:
//! - Two allocations that are live together do not overlap; one that overwrites another is one
//!   allocation with it.
//! - The memory of an output is reused for all sizes alike, as in [`static_layout`].
use super::{
    allocation::{Allocation, Assignment, LINE, PlacementOrder, ReusableOutput, Slot, position, sort},
    frames::Frames,
    output_reuse::own_bytes,
    sample_sizes::{Sizes, saves, saves_at, value},
    static_layout,
};
use disc_ir::{
    Attr, Block, Builder, DType, Dim, Function, Inst, OpKind, Solver, Space, Symbol, TensorType, Type, Value, layout::first_fit,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// The largest number of overlapping pairs of live ranges; more take too long to place.
const MOST_MEETINGS: usize = 1 << 12;

/// A layout: allocations in the memory of outputs, and allocations that each call places.
pub(super) struct RuntimeLayout {
    pub(super) lent: Vec<Slot>,
    frames: Vec<Placed>,
}

/// The allocations of a frame in placement order, each with the earlier ones that it overlaps in
/// time.
struct Placed {
    frame: usize,
    chains: Vec<Chain>,
    met: Vec<Vec<usize>>,
}

/// Allocations at one place: each but the first overwrites the one before.
#[derive(Clone)]
struct Chain {
    /// All of them as one allocation, which ends with the last.
    whole: Allocation,
    parts: Vec<Inst>,
}

/// Returns the best runtime layout, if it is smaller than the static one.
pub(super) fn smaller_than(
    slots: &[Slot],
    samples: &[Sizes],
    parts: &[Allocation],
    outputs: &[ReusableOutput],
    overwrites: &HashMap<Inst, Vec<Inst>>,
    frames: &Frames,
    solver: &Solver,
) -> Option<RuntimeLayout> {
    let samples: Vec<(&Sizes, i64)> = samples.iter().filter_map(|sizes| Some((sizes, own_bytes(slots, sizes)?))).collect();
    if !samples.iter().any(|(sizes, bytes)| alive_at_once(parts, sizes).is_some_and(|alive| saves_at(alive, *bytes))) {
        return None;
    }
    let mut best: Option<(f64, RuntimeLayout)> = None;
    let mut chains = chains(parts, overwrites, solver);
    for order in PlacementOrder::ALL {
        sort(&mut chains, order, |chain| &chain.whole);
        let layout = RuntimeLayout::of(&chains, outputs, overwrites, frames, solver)?;
        let bytes: Option<Vec<i64>> = samples.iter().map(|(sizes, _)| layout.bytes(sizes)).collect();
        let Some(bytes) = bytes else { continue };
        let others: Vec<i64> = samples.iter().map(|&(_, bytes)| bytes).collect();
        let shares: f64 = bytes.iter().zip(&others).map(|(&own, &other)| own as f64 / other.max(1) as f64).sum();
        if saves(&bytes, &others) && best.as_ref().is_none_or(|(least, _)| shares < *least) {
            best = Some((shares, layout));
        }
    }
    best.map(|(_, layout)| layout)
}

/// The most bytes that are live at once; `None` if a size is negative or too large.
fn alive_at_once(parts: &[Allocation], sizes: &Sizes) -> Option<i64> {
    let bytes: Vec<i64> = parts.iter().map(|part| value(&part.size.bytes, sizes)).collect::<Option<_>>()?;
    let at = |position: usize| {
        let alive = parts.iter().zip(&bytes).filter(|(part, _)| part.range.first <= position && position <= part.range.last);
        alive.map(|(_, bytes)| bytes).sum()
    };
    Some(parts.iter().map(|part| at(part.range.first)).max().unwrap_or(0))
}

/// Joins allocations of equal size where one overwrites the other.
fn chains(parts: &[Allocation], overwrites: &HashMap<Inst, Vec<Inst>>, solver: &Solver) -> Vec<Chain> {
    let mut parts: Vec<&Allocation> = parts.iter().collect();
    parts.sort_by_key(|part| (part.range.first, part.inst));
    let mut found: Vec<Chain> = Vec::new();
    for part in parts {
        let over = overwrites.get(&part.inst).map_or(&[][..], Vec::as_slice);
        let goes_on = |chain: &&mut Chain| {
            let whole = &chain.whole;
            let is_known = [whole.frame, whole.inner] == [part.frame, part.inner];
            over.contains(&whole.inst)
                && whole.range.last == part.range.first
                && is_known
                && whole.size.equals(&part.size, solver)
        };
        match found.iter_mut().find(goes_on) {
            Some(chain) => {
                chain.whole.inst = part.inst;
                chain.whole.range.last = part.range.last;
                if part.dtype.size() > chain.whole.dtype.size() {
                    chain.whole.dtype = part.dtype;
                }
                chain.parts.push(part.inst);
            }
            None => found.push(Chain { whole: part.clone(), parts: vec![part.inst] }),
        }
    }
    found
}

impl RuntimeLayout {
    /// The layout that places chains in this order; `None` if too many of them overlap in time.
    fn of(
        chains: &[Chain],
        outputs: &[ReusableOutput],
        overwrites: &HashMap<Inst, Vec<Inst>>,
        frames: &Frames,
        solver: &Solver,
    ) -> Option<Self> {
        let mut lent: Vec<Slot> = outputs.iter().cloned().map(Slot::of_output).collect();
        let none = |frame| Placed { frame, chains: Vec::new(), met: Vec::new() };
        let mut placed: Vec<Placed> = (0..frames.count()).map(none).collect();
        let mut meetings = 0;
        for chain in chains {
            let whole = &chain.whole;
            let lends = |slot: &&mut Slot| frames.surrounds(slot.frame, whole.inner);
            let mut lending = lent.iter_mut().filter(lends);
            if let Some((offset, slot)) =
                lending.find_map(|slot| Some((static_layout::place(slot, whole, overwrites, solver)?, slot)))
            {
                let assignment = Assignment::at(whole, offset);
                slot.assigned.extend(chain.parts.iter().map(|&inst| Assignment { inst, ..assignment.clone() }));
                continue;
            }
            let frame = &mut placed[whole.frame];
            let meets =
                |other: &Chain| whole.range.first <= other.whole.range.last && other.whole.range.first <= whole.range.last;
            let met: Vec<usize> = (0..frame.chains.len()).filter(|&other| meets(&frame.chains[other])).collect();
            meetings += met.len();
            frame.chains.push(chain.clone());
            frame.met.push(met);
        }
        placed.retain(|frame| !frame.chains.is_empty());
        (meetings <= MOST_MEETINGS).then_some(Self { lent, frames: placed })
    }

    /// The size of the arena at a sample; `None` if a size is negative or too large.
    pub(super) fn bytes(&self, sizes: &Sizes) -> Option<i64> {
        let frame = |frame: &Placed| {
            let bytes = frame.chains.iter().map(|chain| value(&chain.whole.size.bytes, sizes));
            Some(first_fit(&bytes.collect::<Option<Vec<_>>>()?, &frame.met).1)
        };
        self.frames.iter().map(frame).try_fold(0, |sum: i64, bytes| sum.checked_add(bytes?))
    }

    /// The frames that hold something.
    pub(super) fn frames(&self) -> HashSet<usize> {
        self.frames.iter().map(|placed| placed.frame).collect()
    }

    /// Places the allocations of all frames, each where its arena is requested.
    pub(super) fn place(&self, host: &mut Function, frames: &Frames, solver: &Arc<Solver>) {
        self.frames.iter().for_each(|placed| placed.place(host, frames.arena(placed.frame), solver));
    }
}

impl Placed {
    fn place(&self, host: &mut Function, arena: Value, solver: &Arc<Solver>) {
        let asked = host.defining(arena).expect("the arena is the result of an op");
        let (offsets, total) = if self.is_stack() { self.stacked() } else { self.laid_out(host, asked, solver) };
        for (chain, offset) in self.chains.iter().zip(offsets) {
            for &part in &chain.parts {
                let data = host.inst_mut(part);
                data.attrs[position("offset")] = Some(Attr::Dim(offset.clone()));
                data.operands[0] = arena;
            }
        }
        host.inst_mut(asked).attrs[0] = Some(Attr::Dim(total.clone()));
        host.set_type(arena, Type::Buffer { tensor: TensorType::new([total], DType::U8), space: Space::Global });
    }

    /// Returns true if each allocation overlaps all earlier ones, so that there is nothing to
    /// search.
    fn is_stack(&self) -> bool {
        self.met.iter().enumerate().all(|(part, met)| met.len() == part)
    }

    /// The offsets of allocations one after the other, and the end of the last.
    fn stacked(&self) -> (Vec<Dim>, Dim) {
        let mut end = Dim::constant(0);
        let behind = |chain: &Chain| {
            let next = &end + &chain.whole.size.bytes;
            std::mem::replace(&mut end, next)
        };
        (self.chains.iter().map(behind).collect(), end)
    }

    /// Adds the op that computes the offsets before their arena is requested; returns the offsets
    /// and the end of the last allocation.
    fn laid_out(&self, host: &mut Function, asked: Inst, solver: &Arc<Solver>) -> (Vec<Dim>, Dim) {
        let block = block_of(host, host.body, asked).expect("the arena is in the program");
        let mut dims = fresh_dims(host, self.chains.len() + 1);
        let sizes: Vec<Dim> = self.chains.iter().map(|chain| chain.whole.size.bytes.ceil_div(&Dim::constant(LINE))).collect();
        let listed = |met: &Vec<usize>| {
            std::iter::once(met.len()).chain(met.iter().copied()).map(|value| value as i64).collect::<Vec<_>>()
        };
        let meets: Vec<i64> = self.met.iter().flat_map(listed).collect();
        let mut builder = Builder::at(host, block, solver.clone());
        let op = builder.op(OpKind::LayoutArena).attr("dims", Attr::Dims(dims.clone())).attr("sizes", Attr::Dims(sizes));
        let built = op.attr("meets", Attr::Ints(meets)).results(Vec::new()).build();
        built.expect("a symbol for each part, and one for all");
        let mut insts = host.insts(block).to_vec();
        let before = insts.iter().position(|&inst| inst == asked).expect("the arena is in its block");
        insts[before..].rotate_right(1);
        host.set_insts(block, insts);
        let total = dims.pop().expect("one for all") * LINE;
        (dims.into_iter().map(|dim| dim * LINE).collect(), total)
    }
}

/// Symbols that are not used yet.
fn fresh_dims(host: &Function, count: usize) -> Vec<Dim> {
    let taken: BTreeSet<Symbol> = host.bound_symbols().into_iter().chain(host.data_dims()).collect();
    let names = (0..).map(|number| Dim::symbol(format!("at{number}")));
    names.filter(|dim| dim.as_symbol().is_some_and(|symbol| !taken.contains(symbol))).take(count).collect()
}

/// The block that contains an op, among the blocks within `block`.
fn block_of(host: &Function, block: Block, inst: Inst) -> Option<Block> {
    let insts = host.insts(block);
    let inner = || insts.iter().flat_map(|&other| &host.inst(other).regions).find_map(|&region| block_of(host, region, inst));
    if insts.contains(&inst) { Some(block) } else { inner() }
}
