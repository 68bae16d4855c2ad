//! Translates the project's targets to LLVM's names.
use disc_codegen::target::{ArmExtension, Target, X86Extension};

/// The parts that make a target machine, and the attributes of a function.
pub(crate) struct LlvmTarget {
    pub(crate) triple: &'static str,
    pub(crate) cpu: String,
    pub(crate) features: String,
}

impl LlvmTarget {
    pub(crate) fn of(target: &Target) -> Self {
        let (triple, cpu, features) = match target {
            // LLVM names the levels and extensions as the project does.
            Target::X86(x86) => {
                let features: Vec<_> = x86.extensions().iter().map(|e: &X86Extension| format!("+{e}")).collect();
                ("x86_64-unknown-linux-gnu", x86.level().name().to_owned(), features.join(","))
            }
            Target::AArch64(arm) => {
                let names = arm.extensions().iter().filter_map(|&extension| arm_feature(extension));
                let features: Vec<_> = std::iter::once("neon").chain(names).map(|name| format!("+{name}")).collect();
                ("aarch64-unknown-linux-gnu", "generic".to_owned(), features.join(","))
            }
            Target::Nvptx { sm, specific } => {
                let suffix = if *specific { "a" } else { "" };
                ("nvptx64-nvidia-cuda", format!("sm_{sm}{suffix}"), format!("+ptx{}", least_ptx(*sm)))
            }
            // No code is made for an interpreter.
            Target::Simt { .. } => ("", String::new(), String::new()),
            Target::Amdgpu { gfx } => ("amdgcn-amd-amdhsa", gfx.clone(), String::new()),
        };
        Self { triple, cpu, features }
    }
}

/// Returns LLVM's name for an extension; `None` for a length of vectors, which is an attribute of
/// functions.
fn arm_feature(extension: ArmExtension) -> Option<&'static str> {
    match extension {
        ArmExtension::Fp16 => Some("fullfp16"),
        ArmExtension::Sve256 | ArmExtension::Sve512 => None,
        ArmExtension::Bf16 | ArmExtension::DotProd | ArmExtension::I8mm | ArmExtension::Sve | ArmExtension::Sve2 => {
            Some(extension.name())
        }
    }
}

/// Returns the least version of PTX that has a chip: drivers take it and all older ones. To LLVM a
/// version that does not have the chip is a fatal error.
fn least_ptx(sm: u32) -> u32 {
    match sm {
        ..=90 => 80,
        100 | 101 => 86,
        120 => 87,
        103 | 121 => 88,
        _ => 90,
    }
}

/// Returns lld's name for the object format of a target; `None` for PTX, which is not linked.
pub(crate) fn emulation(target: &Target) -> Option<&'static str> {
    match target {
        Target::X86(_) => Some("elf_x86_64"),
        Target::AArch64(_) => Some("aarch64linux"),
        Target::Amdgpu { .. } => Some("elf64_amdgpu"),
        Target::Nvptx { .. } | Target::Simt { .. } => None,
    }
}
