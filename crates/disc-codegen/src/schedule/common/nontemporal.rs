//! Makes versions that write results with non-temporal stores.
//!
//! A vector that is stored in a cache is in a line that is read first and written to memory later.
//! If results are so large that the caches do not hold them until they are read, whole lines can go
//! to memory at once, which saves a third or a half of the traffic. Such a store needs an aligned
//! address, so that each row of results has to start at a multiple of a line; the remainder at its
//! end is stored normally.
//!
//! It is not used for transposes, rows that one vector holds, and results that are scattered.
//!
//! Invariants: the guard states all conditions of the addresses, the sizes here and the start of
//! memory in [`Condition::Nontemporal`]; results are written once, in order.
use crate::{
    schedule::{Condition, Group, Scheduled, Version, VersionKind},
    target::CpuModel,
};
use disc_ir::{Dim, TensorType, Value};

versions! {
    /// Large results, written past the caches.
    Nontemporal {
        kernels: "`kN_pointwise_nontemporal`, `kN_reduction_nontemporal`, `kN_reduction_multirow_nontemporal` (rows of at \
            most 80)",
        sizes: "large results, by non-temporal stores",
        unit: "",
    }
}

/// Larger results are in memory that allocators give back to the system after each call, and ask
/// for in the next one: it clears the pages, which are in the caches then. With non-temporal
/// stores, results of 96 MiB took 0.93 to 1.15 times as long.
const MOST: i64 = 64 << 20;

/// The conditions under which large results of a group are written with non-temporal stores.
#[derive(Clone)]
pub(in crate::schedule) struct Nontemporal {
    /// The conditions on sizes.
    sizes: Vec<Condition>,
    memory: Condition,
}

impl Nontemporal {
    /// The conditions for results in whose order positions are walked, by vectors of `lanes` from
    /// each multiple of `starts` on.
    pub(in crate::schedule) fn of(group: &Group<'_>, results: &[Value], lanes: u32, starts: &[Dim]) -> Option<Self> {
        let bytes = |tensor: &TensorType| tensor.element_count() * tensor.dtype.size() as i64;
        let widths = results.iter().map(|&result| group.tensor(result).dtype.size());
        let (narrowest, widest) = (widths.clone().min()?, widths.max()?);
        let count = group.tensor(results[0]).element_count();
        // These inputs are read once; of others only a few elements may be read, or all of them may
        // be in a cache.
        let read = group.inputs().iter().filter(|&&input| group.solver.equal(&group.tensor(input).element_count(), &count));
        let touched = Dim::sum(results.iter().chain(read).map(|&value| bytes(group.tensor(value))));
        let is_small = group.solver.range(&touched).hi.is_some_and(|most| most < disc_abi::LEAST_NONTEMPORAL_BYTES);
        if is_small || !group.target.has_nontemporal_stores() || lanes as usize * widest < CpuModel::LEAST_NONTEMPORAL_BYTES {
            return None;
        }
        let multiple = (disc_abi::ALIGN / narrowest) as i64;
        let mut sizes = Vec::new();
        let largest = Dim::max_of(results.iter().map(|&result| bytes(group.tensor(result))))?;
        let range = group.solver.range(&largest);
        if range.lo.is_some_and(|least| least > MOST) {
            return None;
        }
        if range.hi.is_none_or(|most| most > MOST) {
            sizes.push(Condition::Less(largest, Dim::constant(MOST + 1)));
        }
        let unknown = starts.iter().filter(|start| !group.solver.divisible(start, multiple));
        sizes.extend(unknown.map(|start| Condition::Divides(multiple, start.clone())));
        let outputs = group.outputs().into_iter().zip(&group.wanted);
        let outputs = outputs.filter(|(output, _)| results.contains(output)).map(|(_, &position)| position).collect();
        Some(Self { sizes, memory: Condition::Nontemporal { outputs, bytes: touched } })
    }

    /// The same for some sizes only.
    pub(in crate::schedule) fn where_(mut self, conditions: &[Condition]) -> Self {
        self.sizes.extend_from_slice(conditions);
        self
    }

    /// The group under these conditions.
    pub(in crate::schedule) fn inside<'g>(&self, group: &Group<'g>, name: String) -> Group<'g> {
        Group { nontemporal: true, ..group.guarded(name, &self.sizes) }
    }

    pub(in crate::schedule) fn version(self, code: Scheduled) -> Version {
        let mut guard = self.sizes;
        guard.push(self.memory);
        Version { kind: VersionKind::Nontemporal, guard, code, workspaces: Vec::new() }
    }
}
