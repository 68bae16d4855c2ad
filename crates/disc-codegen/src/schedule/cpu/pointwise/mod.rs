//! Schedules pointwise groups: every element of the outputs is computed on its own.
//!
//! Outputs share one space (shapes that differ by reshapes do). Collapsed dimensions leave either
//! one long loop, cut into chunks, or outer dimensions, each position of which is a work unit,
//! around an inner loop. The inner loop runs over vectors, and once more with a mask for the
//! remainder.
//!
//! [`LoopNest`] finds the loops and what rows share, [`LoopNest::schedule`] chooses the schedule,
//! and each schedule is an emitter in a separate file:
//! - [`collapsed`]: one loop over all dimensions, in chunks;
//! - [`nested`]: loops over rows, each computed by itself, or with the values that outer dimensions
//!   share in tables;
//! - [`several_rows`]: loops of several rows per task, whose line buffers, or whose values that are
//!   constant along a row, are computed before them;
//! - [`blocked`]: blocks of rows, which share the values in tables.
//!
//! [`rows`] writes the row, for all but the first.
mod blocked;
mod collapsed;
mod nest;
mod nested;
mod rows;
mod several_rows;

pub(super) use nest::LoopNest;

use crate::schedule::{Condition, Group, Scheduled, Version, VersionKind, Versioned, common::hoisted_tables};

/// Schedules a group whose outputs have one space.
///
/// # Panics
/// If they have not.
pub(in crate::schedule) fn schedule(group: &Group<'_>) -> Scheduled {
    LoopNest::of(group).scheduled()
}

/// Schedules the same, with versions for rows that one vector holds, and for rows that share the
/// values that depend on the inner dimension only.
///
/// # Panics
/// If the outputs have not one space.
pub fn versions(group: &Group<'_>) -> Versioned {
    let nest = LoopNest::of(group);
    let (mut versions, mut next) = (Vec::new(), group.clone());
    let mut add = |kind: VersionKind, guard: Vec<Condition>, code: Scheduled, next: &mut Group<'_>| {
        next.first_site += code.sites.len() as i64;
        versions.push(Version { kind, guard, code, workspaces: Vec::new() });
    };
    for (lanes, guard) in nest.short_widths() {
        let short = next.guarded(format!("{}_short{lanes}", group.name), &guard);
        let inside = LoopNest::of(&short);
        // If the guard leaves one value for a size, the loops may be others: vectors are then along
        // a dimension that it does not restrict.
        let code = if inside.walks_as(&nest) { inside.shortened(lanes) } else { inside }.scheduled();
        add(VersionKind::ShortRows, guard, code, &mut next);
    }
    let tables = nest.tables();
    let has_tables = !tables.is_empty() && !nest.is_short;
    if has_tables {
        let guard = hoisted_tables::guard(&tables, &nest.runs);
        let tabled = next.guarded(format!("{}_tables", group.name), &guard);
        let code = LoopNest { tables, ..LoopNest::of(&tabled) }.scheduled();
        add(VersionKind::Tables, guard, code, &mut next);
    }
    if let Some(nontemporal) = nest.nontemporal().filter(|_| !has_tables) {
        let large = nontemporal.inside(&next, format!("{}_nontemporal", group.name));
        let code = LoopNest { group: &large, ..LoopNest::of(&next) }.scheduled();
        next.first_site += code.sites.len() as i64;
        versions.push(nontemporal.version(code));
    }
    Versioned { versions, otherwise: LoopNest::of(&next).scheduled(), ..Versioned::default() }
}
