//! The result of a schedule: kernels and their launches, in versions with guards.
use super::{Condition, Group, offer::LibraryWay};
use crate::kernel::Site;
use disc_ir::{Dim, Function, TensorType};
use std::sync::Arc;

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
    /// Sizes that the kernel of a grid takes behind the memory, as numbers.
    pub sizes: Vec<Dim>,
    pub work: Work,
    /// The copies that it makes, if it does nothing else; it is dropped if each pair is one memory.
    pub copies: Vec<(Argument, Argument)>,
    /// The product that it computes, if a library may compute that instead.
    pub product: Option<Box<ProductOffer>>,
}

/// The work of a launch, and how it is spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Ranges of units on the threads of a CPU.
    Units {
        units: Dim,
        /// Estimated nanoseconds on one thread.
        cost: Dim,
        /// Bytes of memory per task.
        scratch: Dim,
    },
    /// Blocks of threads that run the kernel together, as many threads each as the kernel says.
    Grid {
        /// The number of blocks; of a persistent grid, the number of parts of the work.
        blocks: Dim,
        /// Bytes of memory that the threads of a block share.
        shared: Dim,
        /// Bytes of memory of each thread's own.
        scratch: Dim,
        /// There are as many blocks as the device runs at once, and each takes parts until none is
        /// left.
        persistent: bool,
    },
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
    /// Makes a launch of units on threads.
    pub(super) fn new(kernel: &Function, arguments: Vec<Argument>, units: Dim, cost: Dim) -> Self {
        Self {
            kernel: kernel.name.clone(),
            arguments,
            sizes: Vec::new(),
            work: Work::Units { units, cost, scratch: scratch_bytes(kernel) },
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

    /// Adds the code that `schedule` writes for the group: its sites are numbered behind these.
    pub(super) fn append_of(&mut self, group: &Group<'_>, schedule: impl FnOnce(&Group<'_>) -> Self) {
        let first_site = group.first_site + self.sites.len() as i64;
        self.append(schedule(&Group { first_site, ..group.clone() }));
    }
}

/// The kind of a version. crates/disc/tests/it/versions.rs runs each.
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
    /// Attention of queries that fill a tile register.
    AttentionTiles,
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
    /// Tiles of a grid, transposed in shared memory.
    GridTiles,
    /// Elements of a grid, a vector of them a thread.
    GridVectors,
    /// Elements of a grid, one at a time, with positions of 32 bits.
    GridElements,
    /// Few long rows of a grid, in parts that are combined.
    GridSplit,
    /// Rows of a grid, of which a thread has one.
    ThreadRows,
    /// Short rows of a grid, of which 8 threads of a warp have one in their registers.
    SubwarpRows,
    /// Rows of a grid, of which a warp has one in its registers, in vectors.
    WarpRowVectors,
    /// Rows of a grid, of which a warp has one in its registers.
    WarpRows,
    /// Rows of a grid, of which a block has one in its registers, in vectors.
    BlockRowVectors,
    /// Rows of a grid, of which a block has one, with positions of 32 bits.
    BlockRows,
    /// Matmuls of a grid, with positions of 32 bits.
    GridMatmuls,
    /// Attention of a few queries on a grid.
    GridAttentionFew,
    /// Attention on a grid whose queries and values are short.
    GridAttentionHeads,
    /// Attention on a grid, with positions of 32 bits.
    GridAttention,
    /// Scans of a grid, of which a thread walks a line.
    ThreadScans,
    /// Scans of a grid, of which a warp walks a line.
    WarpScans,
    /// Scans of a grid, of which a block walks a line.
    BlockScans,
    /// Sorts of a grid, of which a warp has a line in its registers.
    WarpSorts,
    /// Sorts of a grid, of which a block has a line in its memory.
    BlockSorts,
    /// The first elements of lines of a grid, which a block sorts part by part.
    PartSorts,
    /// Sorts of a grid, of which a block has a line in memory of the device.
    DeviceSorts,
    /// Matmuls of a grid of one row, or one column, in vectors.
    RowVectors,
    /// Matmuls of a grid of few rows, or few columns, in vectors.
    FewRowVectors,
    /// Matmuls of a grid of few rows, or few columns.
    FewRows,
    /// Matmuls of a grid by products of tiles, for which a block has 128 by 128 results.
    LargeMmaTiles,
    /// Matmuls of a grid by products of tiles, for which a block has 64 by 64 results.
    MmaTiles,
    /// Attention on a grid by products of tiles.
    MmaAttention,
    /// Positions of many true elements of a grid, in parts that are counted first.
    SplitPositions,
    /// Positions of true elements of a grid, found by one block.
    BlockPositions,
}

impl VersionKind {
    pub const ALL: [Self; 43] = [
        Self::SplitRows,
        Self::SplitPhases,
        Self::RowsInLanes,
        Self::MultiRow,
        Self::ShortRows,
        Self::Tables,
        Self::Decode,
        Self::AttentionTiles,
        Self::Winograd,
        Self::WinogradSmall,
        Self::SplitK,
        Self::Keys,
        Self::ScanTiles,
        Self::Nontemporal,
        Self::GridTiles,
        Self::GridVectors,
        Self::GridElements,
        Self::GridSplit,
        Self::ThreadRows,
        Self::SubwarpRows,
        Self::WarpRowVectors,
        Self::WarpRows,
        Self::BlockRowVectors,
        Self::BlockRows,
        Self::GridMatmuls,
        Self::GridAttentionFew,
        Self::GridAttentionHeads,
        Self::GridAttention,
        Self::ThreadScans,
        Self::WarpScans,
        Self::BlockScans,
        Self::WarpSorts,
        Self::BlockSorts,
        Self::PartSorts,
        Self::DeviceSorts,
        Self::RowVectors,
        Self::FewRowVectors,
        Self::FewRows,
        Self::LargeMmaTiles,
        Self::MmaTiles,
        Self::MmaAttention,
        Self::SplitPositions,
        Self::BlockPositions,
    ];
}

/// One of several ways to compute a group, for some sizes.
#[derive(Clone, Debug)]
pub struct Version {
    pub kind: VersionKind,
    /// The version runs where all of these hold.
    pub guard: Vec<Condition>,
    pub code: Scheduled,
    pub workspaces: Vec<Workspace>,
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
    /// The ways to compute the group by a library of the device, which are tried in order before
    /// any version is.
    pub library: Vec<LibraryWay>,
}

impl From<Scheduled> for Versioned {
    fn from(otherwise: Scheduled) -> Self {
        Self { otherwise, ..Self::default() }
    }
}

/// Bytes of the task memory that a kernel's `scratch` ops ask for, each part aligned to 64.
pub fn scratch_bytes(kernel: &Function) -> Dim {
    let parts = kernel.insts(kernel.body).iter().filter(|&&inst| kernel.kind_of(inst) == disc_ir::OpKind::Scratch);
    Dim::sum(parts.map(|&inst| aligned_bytes(kernel.ty(kernel.result(inst)).shaped().expect("scratch is a buffer"))))
}

/// Bytes that the threads of a block share: those of a kernel's `shared` ops, each part aligned to
/// 16.
pub(super) fn shared_bytes(kernel: &Function) -> Dim {
    let parts = kernel.insts(kernel.body).iter().filter(|&&inst| kernel.kind_of(inst) == disc_ir::OpKind::Shared);
    Dim::sum(parts.map(|&inst| {
        let tensor = kernel.ty(kernel.result(inst)).shaped().expect("shared memory is a buffer");
        (tensor.element_count() * tensor.dtype.size() as i64).ceil_div(&Dim::constant(16)) * 16
    }))
}

/// The bytes of a tensor, rounded up to a multiple of 64.
pub fn aligned_bytes(tensor: &TensorType) -> Dim {
    let bytes = tensor.element_count() * tensor.dtype.size() as i64;
    bytes.ceil_div(&Dim::constant(64)) * 64
}
