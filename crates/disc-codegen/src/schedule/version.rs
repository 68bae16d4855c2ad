//! The result of a schedule: kernels and their launches, in versions with guards.
use super::{Condition, Group, VersionKind, offer::LibraryWay};
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
    /// Sizes that a GPU kernel takes after its buffers, as numbers.
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
    /// Adds code that runs after this.
    pub(super) fn append(&mut self, next: Self) {
        self.kernels.extend(next.kernels);
        self.launches.extend(next.launches);
        self.sites.extend(next.sites);
    }

    /// Adds the code that `schedule` writes for the group: its sites are numbered after these.
    pub(super) fn append_of(&mut self, group: &Group<'_>, schedule: impl FnOnce(&Group<'_>) -> Self) {
        let first_site = group.first_site + self.sites.len() as i64;
        self.append(schedule(&Group { first_site, ..group.clone() }));
    }
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

/// The implementations of a group: the first version whose guard holds, else `otherwise`.
#[derive(Clone, Debug, Default)]
pub struct Versioned {
    pub versions: Vec<Version>,
    pub otherwise: Scheduled,
    /// Implementations by a library of the device, tried in order before any version.
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
