//! Collects the versions of a group in the order in which a call tries them.
use super::{
    conditions::{can_hold, narrow_positions, narrowed},
    tasks,
};
use crate::schedule::{Group, Scheduled, Version, VersionKind, Versioned};
use disc_ir::DType;

/// The versions of a group so far.
pub(super) struct Candidates<'g> {
    /// The group, whose next sites are behind those of the versions.
    pub(super) next: Group<'g>,
    versions: Vec<Version>,
    otherwise: Option<Scheduled>,
}

impl<'g> Candidates<'g> {
    /// Begins with none. Positions have 32 bits in all versions if they do for all sizes.
    pub(super) fn of(group: &Group<'g>) -> Self {
        let index_type = if narrow_positions(group).is_empty() { DType::I32 } else { group.index_type };
        let next = Group { index_type, ..group.clone() };
        Self { next, versions: Vec::new(), otherwise: None }
    }

    /// Adds a version behind the others. One without a guard is the code for all sizes, and the
    /// last.
    pub(super) fn add(&mut self, version: Version) {
        if self.is_complete() {
            return;
        }
        self.next.first_site += version.code.sites.len() as i64;
        match version.guard.is_empty() {
            true => self.otherwise = Some(version.code),
            false => self.versions.push(version),
        }
    }

    /// Returns true if there is code for all sizes.
    pub(super) fn is_complete(&self) -> bool {
        self.otherwise.is_some()
    }

    /// Ends with units of work, one thread each, for the sizes of no version.
    pub(super) fn or_units(mut self, schedule: impl Fn(&Group<'_>) -> Versioned) -> Versioned {
        if !self.is_complete() {
            self.next.index_type = DType::I64;
            let code = tasks::on_grid(schedule(&self.next), self.next.target);
            self.otherwise = Some(code.otherwise);
        }
        Versioned { versions: self.versions, otherwise: self.otherwise.unwrap_or_default() }
    }

    /// Adds the code that `schedule` writes, with positions of 32 bits where those suffice: a
    /// version of this kind, whose kernels end in `suffix`.
    pub(super) fn in_narrow_positions(
        mut self,
        (kind, suffix): (VersionKind, &str),
        schedule: impl Fn(&Group<'_>) -> Scheduled,
    ) -> Versioned {
        let guard = narrow_positions(&self.next);
        if !self.is_complete() && !guard.is_empty() && can_hold(&self.next, &guard) {
            let code = schedule(&narrowed(&self.next, suffix, &guard));
            self.add(Version { kind, guard, code, workspaces: Vec::new() });
        }
        let otherwise = self.otherwise.unwrap_or_else(|| schedule(&self.next));
        Versioned { versions: self.versions, otherwise }
    }
}
