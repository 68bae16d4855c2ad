//! Chooses the schedules of a target: the one place that knows which kinds of targets have any.
use super::{Group, Versioned, cpu::CpuScheduler, gpu::GpuScheduler};
use crate::target::Target;
use disc_ir::{Diagnostic, FusionKind};
use disc_passes::fusion::ReductionPlan;

/// Schedules the groups of one kind of target.
pub trait Scheduler {
    /// Returns the code of a group, and the reason if it is not the code that its kind promises.
    /// Every group has code: a loop over each output computes any.
    ///
    /// # Errors
    /// A group whose plan is missing or wrong, which is an error of the compiler.
    fn schedule(&self, group: &Group<'_>, request: Request<'_>) -> Result<(Versioned, Option<String>), Diagnostic>;
}

/// The reason that a group does not get the code of its kind.
#[derive(Clone, Debug)]
pub enum Refusal {
    /// The target has no schedule for it: loops compute it.
    NoSchedule(String),
    /// Its plan is missing or wrong.
    BadPlan(Diagnostic),
}

impl From<String> for Refusal {
    fn from(reason: String) -> Self {
        Self::NoSchedule(reason)
    }
}

impl From<&str> for Refusal {
    fn from(reason: &str) -> Self {
        Self::NoSchedule(reason.into())
    }
}

impl From<Diagnostic> for Refusal {
    fn from(error: Diagnostic) -> Self {
        Self::BadPlan(error)
    }
}

/// The kind of code that is requested for a group.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    pub kind: FusionKind,
    /// The decision about a group of kind `reduction`.
    pub plan: Option<&'a ReductionPlan>,
    /// The group writes over an input, of which it updates a part.
    pub is_update: bool,
    pub offers: Offers,
}

/// The choices of a user that code depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Choices {
    pub offers: Offers,
    /// Operands of products of f32 may be rounded to tf32.
    pub tf32: bool,
}

/// The offers of launches to the runtime besides their kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Offers {
    #[default]
    Nothing,
    /// Products that a library may compute, where no version of a kernel is for their sizes.
    Products,
    /// Products that a library may compute, of all sizes.
    AllProducts,
    /// Convolutions that a library of a GPU may compute.
    Convolutions,
    /// Those and products.
    ProductsAndConvolutions,
}

impl Offers {
    /// Returns true if products are offered.
    pub(super) fn has_products(self) -> bool {
        matches!(self, Self::Products | Self::AllProducts | Self::ProductsAndConvolutions)
    }

    /// Returns true if convolutions are offered.
    pub(super) fn has_convolutions(self) -> bool {
        matches!(self, Self::Convolutions | Self::ProductsAndConvolutions)
    }
}

/// Returns the scheduler of a target.
pub fn scheduler(target: &Target) -> &'static dyn Scheduler {
    match target {
        Target::X86(_) | Target::AArch64(_) => &CpuScheduler,
        Target::Nvptx { .. } | Target::Amdgpu { .. } | Target::Simt { .. } => &GpuScheduler,
    }
}

#[cfg(test)]
mod tests {
    use crate::{host, target::Compilation};

    #[test]
    fn every_target_has_schedules() {
        let module = || disc_ir::parse("host @main(%x: buffer<[S]xf32>) { return }").expect("a module");
        for text in ["x86-64-v2", "aarch64-v8", "nvptx:sm_90", "amdgpu:gfx90a", "simt:sm_90"] {
            host::lower(module(), &text.parse::<Compilation>().expect("a target")).expect("a target has schedules");
        }
    }
}
