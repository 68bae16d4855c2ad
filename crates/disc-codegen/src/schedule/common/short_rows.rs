//! Schedules short rows: those that one vector holds, so that a loop nest has no loop along its
//! inner dimension.
//!
//! Short rows spend more time on their loops, and on the masks of their tails, than on their
//! elements. If each part of a row (an operand of a concatenation along it, or all of it) fits a
//! vector, it is computed as one, with a mask that is the same for all rows. Values that rows share
//! are in registers. Vectors have half the lanes if that suffices: they are zipped and read in
//! pairs at half the price.
//!
//! It is not used for rows whose elements are combined (`rows`), nor for those of several vectors.
//!
//! Invariant: if a part has no element, another version runs; elements that all lanes of a part
//! share may be read without a mask.
use crate::{
    kernel::{KernelBuilder, cost},
    schedule::{
        Condition::{self, Less},
        Group,
    },
};
use disc_ir::{Dim, Solver, Value};

versions! {
    /// A loop nest whose rows are vectors.
    ShortRows {
        kernels: "`kN_pointwise_shortL`",
        sizes: "pointwise rows that one vector of `L` lanes holds, half a register or a whole one; of a concatenation along \
            rows, each part; not where row blocks are walked as one. AVX-512: 1 to `L` elements; others: `L` elements, since \
            masks take them longer than a loop",
        unit: "a row, without a loop",
    }
}

/// The lanes of vectors for parts of these lengths, fewest first: half a register and a whole one,
/// if no fact says that they are shorter.
fn vectors(group: &Group<'_>, lengths: &[Dim]) -> Vec<u32> {
    let fitting = cost::lanes_that_fit(group.function, group.target);
    let longest = lengths.iter().map(|length| cost::lanes_of_register(group.function, group.target, &group.solver, length)).max();
    match longest {
        Some(most) if most < fitting => vec![most],
        _ => vec![fitting / 2, fitting],
    }
}

/// The lanes of short rows, if facts say that parts of these lengths are always short.
pub(in crate::schedule) fn always(group: &Group<'_>, lengths: &[Dim]) -> Option<u32> {
    let ranges = lengths.iter().map(|length| group.solver.range(length));
    let (shortest, longest) = ranges.fold((i64::MAX, 0), |(shortest, longest), range| {
        (shortest.min(range.lo.unwrap_or(0)), longest.max(range.hi.unwrap_or(i64::MAX)))
    });
    let most = cost::lanes_that_fit(group.function, group.target);
    let lanes = u32::try_from(longest).ok().filter(|&longest| longest > 1 && longest <= most)?.next_power_of_two();
    (shortest >= least(group, lanes)).then_some(lanes)
}

/// The lanes with the guard under which parts of these lengths fit them.
pub(in crate::schedule) fn widths(group: &Group<'_>, lengths: &[Dim]) -> Vec<(u32, Vec<Condition>)> {
    let guard = |lanes: u32| {
        let (least, most) = (least(group, lanes), i64::from(lanes));
        let mut guard: Vec<Condition> = Vec::new();
        for length in lengths {
            let range = group.solver.range(length);
            // A multiple of more than the vector does not fit it.
            let longer = range.lo.is_some_and(|lo| lo > most) || group.solver.divisible(length, 2 * most);
            if range.hi.is_some_and(|hi| hi < least) || longer || most < 2 {
                return None;
            }
            for limit in [Less(Dim::constant(least - 1), length.clone()), Less(length.clone(), Dim::constant(most + 1))] {
                if !guard.contains(&limit) {
                    guard.push(limit);
                }
            }
        }
        Some((lanes, guard))
    };
    vectors(group, lengths).into_iter().filter_map(guard).collect()
}

/// The shortest part that a vector is used for: the whole vector, if a mask takes longer than a
/// loop.
fn least(group: &Group<'_>, lanes: u32) -> i64 {
    if group.target.has_mask_registers() { 1 } else { i64::from(lanes) }
}

/// The mask of the lanes of a part of this length; `None` if it is known to be a whole vector.
pub(in crate::schedule) fn mask(kb: &mut KernelBuilder, solver: &Solver, length: &Dim, lanes: u32) -> Option<Value> {
    let whole = i64::from(lanes);
    if solver.range(length).lo.is_some_and(|lo| lo >= whole) || solver.divisible(length, whole) {
        return None;
    }
    let length = kb.dim(length);
    Some(kb.lane_mask(length, lanes))
}
