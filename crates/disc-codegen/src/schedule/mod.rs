//! Schedules: from a fusion group to kernels and their launches.
//!
//! A group comes as a function of its own: parameters are the group's inputs, what it returns are its outputs. A schedule decides the
//! loops, the work units and the lanes; [`crate::element`] says how an element is computed. A kernel's parameters are the inputs and
//! outputs it uses, in the order of its launch, then the range of units.
//!
//! Invariants: a schedule asks facts, never sizes; the result does not depend on how units are spread over threads.
mod common;
mod cpu;
#[cfg(test)]
mod version_docs;

pub use cpu::{
    AttentionPlan, RowPlan, Tile, attention, matmul, offer_products, offered, pointwise, pointwise_versions, reduction, space_of,
    split_k, standalone, tile, update, window, winograd,
};

use crate::{kernel::Site, target::Target};
use disc_ir::{
    Dim, Function, FunctionKind, Inst, Solver, TensorType, Value,
    dim::{Fact, Range},
};
use std::{collections::HashMap, sync::Arc};

/// A group to be scheduled.
#[derive(Clone)]
pub struct Group<'a> {
    pub function: &'a Function,
    /// The outputs to compute, by their position among what the function returns.
    pub wanted: Vec<usize>,
    pub solver: Arc<Solver>,
    /// What kernels are named after.
    pub name: Arc<str>,
    pub target: &'a Target,
    /// The number of the first site of these kernels.
    pub first_site: i64,
    /// Whether results are written past the caches: see [`NontemporalGuard`].
    pub nontemporal: bool,
}

impl Group<'_> {
    pub fn inputs(&self) -> &[Value] {
        self.function.parameters()
    }

    /// The values to compute, in the order of `wanted`.
    pub fn outputs(&self) -> Vec<Value> {
        let end = self.function.terminator(self.function.body).expect("a function ends in `return`");
        self.wanted.iter().map(|&position| self.function.operands(end)[position]).collect()
    }

    /// The value that the function returns at a position.
    pub fn output(&self, position: usize) -> Value {
        let end = self.function.terminator(self.function.body).expect("a function ends in `return`");
        self.function.operands(end)[position]
    }

    pub fn tensor(&self, value: Value) -> &TensorType {
        self.function.ty(value).shaped().expect("a group's values are tensors")
    }

    /// The group where a guard holds, under a name of its own: what the guard says is a fact there.
    pub fn guarded(&self, name: String, guard: &[(Dim, Dim)]) -> Self {
        self.given(name, guard, Vec::new())
    }

    /// The same where more is known, which the guard says in its way.
    fn given(&self, name: String, guard: &[(Dim, Dim)], more: Vec<Fact>) -> Self {
        let mut facts = self.function.facts.clone();
        let below = |(smaller, larger): &(Dim, Dim)| Fact::Range(smaller - larger, Range { lo: None, hi: Some(-1) });
        // Where a guard cannot hold, its version never runs.
        let holds = guard.iter().map(below).chain(more).try_for_each(|fact| facts.add(fact));
        let solver = if holds.is_ok() { Arc::new(Solver::new(&facts)) } else { self.solver.clone() };
        Self { name: name.into(), solver, ..self.clone() }
    }
}

/// Memory that a launch gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    Input(usize),
    Output(usize),
    /// Memory that lasts from launch to launch of one version: see [`Version::workspaces`].
    Workspace(usize),
    /// The result of a library's product: see [`ProductOffer`].
    Product,
}

/// One launch of a group.
#[derive(Clone, Debug)]
pub struct Launch {
    pub kernel: Arc<str>,
    pub arguments: Vec<Argument>,
    pub units: Dim,
    /// Estimated nanoseconds on one thread.
    pub cost: Dim,
    /// Bytes of memory per task.
    pub scratch: Dim,
    /// What it copies, if that is all: nothing is left to do where each pair is one memory.
    pub copies: Vec<(Argument, Argument)>,
    /// The product that it computes, if a library may compute that instead.
    pub product: Option<Box<ProductOffer>>,
}

/// A product as a library may compute it, and the launch that computes the rest of its group then.
#[derive(Clone, Debug)]
pub struct ProductOffer {
    /// As attribute `product` of a launch.
    pub dims: [Dim; 8],
    pub left: Argument,
    pub right: Argument,
    /// None where the rest reads the result in memory of the runtime: its [`Argument::Product`].
    pub result: Option<Argument>,
    pub rest: Option<Launch>,
}

impl Launch {
    fn new(kernel: &Function, arguments: Vec<Argument>, units: Dim, cost: Dim) -> Self {
        Self {
            kernel: kernel.name.clone(),
            arguments,
            units,
            cost,
            scratch: scratch_bytes(kernel),
            copies: Vec::new(),
            product: None,
        }
    }
}

/// The code of a group.
#[derive(Clone, Debug, Default)]
pub struct Scheduled {
    pub kernels: Vec<Function>,
    /// In order.
    pub launches: Vec<Launch>,
    pub sites: Vec<Site>,
}

impl Scheduled {
    /// Adds code that runs behind this.
    pub(super) fn append(&mut self, next: Self) {
        self.kernels.extend(next.kernels);
        self.launches.extend(next.launches);
        self.sites.extend(next.sites);
    }
}

/// What a version is. crates/disc/tests/versions.rs runs each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionKind {
    /// Few long rows, in parts that are added up.
    SplitRows,
    /// The same for several phases, or for results as long as rows.
    SplitPhases,
    /// Very short rows, side by side.
    RowsInLanes,
    /// Short rows, some at once.
    MultiRow,
    /// A loop nest whose rows are vectors.
    ShortRows,
    /// A loop nest with tables of what is the same in each row.
    Tables,
    /// Attention of a few queries.
    Decode,
    /// A convolution by Winograd's method with tiles of four by four results.
    Winograd,
    /// The same with tiles of two by two, for few results.
    WinogradSmall,
    /// A product of few rows and columns, its sums in parts.
    SplitK,
    /// A sort by keys, of lines whose positions have 31 bits.
    Keys,
    /// A scan of some lines at once.
    ScanTiles,
    /// Large results, written past the caches.
    Nontemporal,
}

impl VersionKind {
    pub const ALL: [Self; 13] = [
        Self::SplitRows,
        Self::SplitPhases,
        Self::RowsInLanes,
        Self::MultiRow,
        Self::ShortRows,
        Self::Tables,
        Self::Decode,
        Self::Winograd,
        Self::WinogradSmall,
        Self::SplitK,
        Self::Keys,
        Self::ScanTiles,
        Self::Nontemporal,
    ];
}

/// One of several ways to compute a group, for some sizes.
#[derive(Clone, Debug)]
pub struct Version {
    pub kind: VersionKind,
    /// Holds for the sizes that this version is for: each first dim is less than the second.
    pub guard: Vec<(Dim, Dim)>,
    pub code: Scheduled,
    pub workspaces: Vec<Workspace>,
    /// A condition of memory besides that of sizes.
    pub nontemporal: Option<NontemporalGuard>,
}

/// When results are written past the caches: where these do not hold what is read and written, where the memory of the results starts at multiples
/// of [`disc_abi::ALIGN`] bytes, and where no input has the same memory, which would be in the caches already.
#[derive(Clone, Debug)]
pub struct NontemporalGuard {
    /// Positions among what the group returns.
    pub outputs: Vec<usize>,
    /// What is read and written.
    pub bytes: Dim,
}

/// Memory that the launches of a version share.
#[derive(Clone, Debug)]
pub struct Workspace {
    pub tensor: TensorType,
    /// No less than the tensor needs where the guard holds.
    pub bytes: Dim,
    /// No less than `bytes`, by fewer dims: for those that are not known where memory is allocated.
    pub most: Option<Dim>,
}

/// The ways to compute a group: the first version whose guard holds, else `otherwise`.
#[derive(Clone, Debug, Default)]
pub struct Versioned {
    pub versions: Vec<Version>,
    pub otherwise: Scheduled,
}

impl From<Scheduled> for Versioned {
    fn from(otherwise: Scheduled) -> Self {
        Self { versions: Vec::new(), otherwise }
    }
}

/// Bytes of the task memory that a kernel's `scratch` ops ask for, each part aligned to 64.
pub fn scratch_bytes(kernel: &Function) -> Dim {
    let parts = kernel.insts(kernel.body).iter().filter(|&&inst| kernel.kind_of(inst) == disc_ir::OpKind::Scratch);
    Dim::sum(parts.map(|&inst| aligned_bytes(kernel.ty(kernel.result(inst)).shaped().expect("scratch is a buffer"))))
}

/// The bytes of a tensor, rounded up to a multiple of 64.
pub fn aligned_bytes(tensor: &TensorType) -> Dim {
    let bytes = tensor.element_count() * tensor.dtype.size() as i64;
    bytes.ceil_div(&Dim::constant(64)) * 64
}

/// A group as a function of its own.
pub(crate) fn extract(host: &Function, inst: Inst) -> Function {
    let mut function = Function::new("group", FunctionKind::Func);
    function.facts = host.facts.clone();
    let body = function.import_block(host, host.inst(inst).regions[0], &mut HashMap::new());
    function.body = body;
    function
}
