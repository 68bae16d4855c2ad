//! Represents groups as a host program has them: their structure as text, by which equal ones are
//! found, and the code that was made of them.
use crate::schedule::{Launch, Offer, Version, Workspace};
use disc_ir::{Block, Function, Value};
use std::{
    collections::{BTreeSet, HashMap},
    fmt::Write,
};

/// The code that was made of a group: its versions, and the launches if none of their guards holds.
#[derive(Clone)]
pub(super) struct GroupCode {
    pub(super) versions: Vec<Version>,
    pub(super) otherwise: Vec<Launch>,
    /// The implementations by a library of the device, which are tried before any version.
    pub(super) library: Vec<WayCode>,
}

/// A way to compute a group by a library.
#[derive(Clone)]
pub(super) struct WayCode {
    pub(super) offers: Vec<Offer>,
    pub(super) rest: Option<RestCode>,
}

/// The code of what a library leaves of a group: see [`crate::schedule::Rest`].
#[derive(Clone)]
pub(super) struct RestCode {
    pub(super) inputs: Vec<usize>,
    pub(super) products: Vec<Workspace>,
    pub(super) code: GroupCode,
}

impl GroupCode {
    /// Returns the groups that the kernels are named after: `k3` of `k3_matmul_split_k`. A variant
    /// may use those of another group.
    pub(super) fn groups(&self) -> BTreeSet<String> {
        let versions = self.versions.iter().flat_map(|version| &version.code.launches);
        let names = versions.chain(&self.otherwise).map(|launch| launch.kernel.split('_').next().unwrap_or_default());
        names.map(str::to_owned).collect()
    }
}

/// The structure of a group as text: ops, attributes, types and how values connect, without their
/// names; and the facts that schedules query.
pub(super) fn structure(function: &Function, kind: &str) -> String {
    let mut text = format!("{kind} where {}", function.facts);
    let mut numbers: HashMap<Value, usize> = HashMap::new();
    write_block(function, function.body, &mut numbers, &mut text);
    text
}

fn write_block(function: &Function, block: Block, numbers: &mut HashMap<Value, usize>, text: &mut String) {
    let number = |numbers: &mut HashMap<Value, usize>, value: Value| {
        let next = numbers.len();
        *numbers.entry(value).or_insert(next)
    };
    for &argument in function.arguments(block) {
        let n = number(numbers, argument);
        let _ = write!(text, ";{n}:{}", function.ty(argument));
    }
    for &inst in function.insts(block) {
        let data = function.inst(inst);
        let _ = write!(text, ";{}{:?}", data.kind.name(), data.attrs);
        for &operand in &data.operands {
            let n = number(numbers, operand);
            let _ = write!(text, ",{n}");
        }
        for &region in &data.regions {
            text.push('{');
            write_block(function, region, numbers, text);
            text.push('}');
        }
        for &result in &data.results {
            let n = number(numbers, result);
            let _ = write!(text, "={n}:{}", function.ty(result));
        }
    }
}
