//! Collects the versions of a group in the order in which a call tries them.
use super::{
    conditions::{can_hold, narrow_positions, narrowed},
    tasks, vectors,
};
use crate::schedule::{Condition, Group, Scheduled, Version, VersionKind, Versioned, Workspace};
use disc_ir::{DType, Dim};

/// The most versions with a guard that a group has: each is a kernel to compile, and a test at each
/// call that none of those before it serves.
const MOST: usize = 6;

/// The versions of a group so far.
pub(super) struct Candidates<'g> {
    /// The group, whose next sites are after those of the versions.
    pub(super) next: Group<'g>,
    versions: Vec<Version>,
    otherwise: Option<Scheduled>,
}

/// A version whose code is not written yet.
pub(super) struct Candidate<'n> {
    kind: VersionKind,
    /// The end of its kernels' names.
    suffix: &'n str,
    conditions: Vec<Condition>,
    lanes: u32,
    workspaces: Vec<Workspace>,
}

impl<'n> Candidate<'n> {
    /// A version for the sizes that meet these conditions, and have positions of 32 bits.
    pub(super) fn new(kind: VersionKind, suffix: &'n str, conditions: impl IntoIterator<Item = Condition>) -> Self {
        Self { kind, suffix, conditions: conditions.into_iter().collect(), lanes: 1, workspaces: Vec::new() }
    }

    /// Its elements are vectors of so many lanes: without any access of one it is not a version.
    pub(super) fn in_vectors(self, lanes: u32) -> Self {
        Self { lanes, ..self }
    }

    /// Its launches pass results on in this memory.
    pub(super) fn with_workspaces(self, workspaces: Vec<Workspace>) -> Self {
        Self { workspaces, ..self }
    }
}

impl<'g> Candidates<'g> {
    /// Begins with none. Positions have 32 bits in all versions if they do for all sizes.
    pub(super) fn of(group: &Group<'g>) -> Self {
        let index_type = if narrow_positions(group).is_empty() { DType::I32 } else { group.index_type };
        let next = Group { index_type, ..group.clone() };
        Self { next, versions: Vec::new(), otherwise: None }
    }

    /// Adds a version after the others, if its guard can hold and threads can run the code that
    /// `schedule` writes for the group under it. One without a guard is the code for all sizes, and
    /// the last.
    pub(super) fn add(&mut self, candidate: Candidate<'_>, schedule: impl FnOnce(&Group<'_>, &[Workspace]) -> Option<Scheduled>) {
        let Candidate { kind, suffix, conditions, lanes, workspaces } = candidate;
        let mut guard = narrow_positions(&self.next);
        guard.extend(conditions);
        guard.dedup();
        if self.is_complete() || !can_hold(&self.next, &guard) {
            return;
        }
        let inside = narrowed(&self.next, suffix, &guard);
        let Some(mut code) = schedule(&inside, &workspaces) else { return };
        let Some(aligned) = vectors::aligned(&mut code, &inside.solver, lanes) else { return };
        guard.extend(aligned);
        if guard.is_empty() && !workspaces.is_empty() {
            // Code for all sizes has no memory of its own; that of a version has a guard.
            guard.push(Condition::Less(Dim::constant(0), Dim::constant(1)));
        }
        self.next.first_site += code.sites.len() as i64;
        match guard.is_empty() {
            true => self.otherwise = Some(code),
            false => self.versions.push(Version { kind, guard, code, workspaces }),
        }
        assert!(self.versions.len() <= MOST, "a group on a grid has at most {MOST} versions with a guard");
    }

    /// Returns true if there is code for all sizes.
    fn is_complete(&self) -> bool {
        self.otherwise.is_some()
    }

    /// Ends with the code that `schedule` writes, and with a version of it before whose positions
    /// have 32 bits, where they do not for all sizes.
    pub(super) fn in_narrow_positions(
        mut self,
        (kind, suffix): (VersionKind, &str),
        schedule: impl Fn(&Group<'_>) -> Scheduled,
    ) -> Versioned {
        if !narrow_positions(&self.next).is_empty() {
            self.add(Candidate::new(kind, suffix, []), |group, _| Some(schedule(group)));
        }
        let otherwise = self.otherwise.unwrap_or_else(|| schedule(&self.next));
        Versioned { versions: self.versions, otherwise, ..Versioned::default() }
    }

    /// Ends with units of work, one thread each, for the sizes of no version.
    pub(super) fn or_units(mut self, schedule: impl Fn(&Group<'_>) -> Versioned) -> Versioned {
        let otherwise = self.otherwise.unwrap_or_else(|| {
            self.next.index_type = DType::I64;
            tasks::on_grid(schedule(&self.next), self.next.target).otherwise
        });
        Versioned { versions: self.versions, otherwise, ..Versioned::default() }
    }
}
