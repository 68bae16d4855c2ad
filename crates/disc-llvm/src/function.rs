//! Sets the attributes of every generated function.
use crate::target::LlvmTarget;
use disc_codegen::target::Target;
use inkwell::{
    attributes::{Attribute, AttributeLoc},
    context::Context,
    values::FunctionValue,
};

/// Marks `function` as code for `target`: one module may hold functions for several levels of a
/// CPU.
///
/// Nothing unwinds, no loop becomes a call of memset or memcpy, and a frame of more than a page
/// touches each of its pages.
pub(crate) fn mark(context: &Context, function: FunctionValue<'_>, target: &Target) {
    let nounwind = Attribute::get_named_enum_kind_id("nounwind");
    function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(nounwind, 0));
    let LlvmTarget { cpu, features, .. } = LlvmTarget::of(target);
    let probe = target.is_cpu().then_some(("probe-stack", "inline-asm"));
    if let Target::AArch64(arm) = target
        && arm.vector_bytes() > 16
    {
        // Registers may be longer than code counts on; the second number is the longest there is.
        let range = (u64::from(arm.vector_bytes() / 16) << 32) | 16;
        let kind = Attribute::get_named_enum_kind_id("vscale_range");
        function.add_attribute(AttributeLoc::Function, context.create_enum_attribute(kind, range));
    }
    let texts = [("no-builtins", ""), ("target-cpu", cpu.as_str()), ("target-features", features.as_str())];
    for (name, value) in texts.into_iter().chain(probe) {
        function.add_attribute(AttributeLoc::Function, context.create_string_attribute(name, value));
    }
}
