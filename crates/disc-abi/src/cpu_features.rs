//! Lists the features of processors that code is made for, in the words of `std::arch`.
//!
//! The macro expands in a crate with `std`, which asks the processor; this one has none.

/// Returns true if this x86-64 processor and its operating system have the feature of a name, and
/// this process may use it; false for a name that no target of disc needs.
#[macro_export]
macro_rules! has_x86_feature {
    ($name:expr) => {
        $crate::has_x86_feature!(
            $name;
            "cmpxchg16b" "popcnt" "sse3" "ssse3" "sse4.1" "sse4.2"
            "avx" "avx2" "bmi1" "bmi2" "f16c" "fma" "lzcnt" "movbe"
            "avx512f" "avx512bw" "avx512cd" "avx512dq" "avx512vl"
            "avxvnni" "avx512bf16" "avx512fp16" "avx512vbmi" "avx512vnni"
        )
    };
    ($name:expr; $($feature:tt)*) => {
        match $name {
            $($feature => ::std::arch::is_x86_feature_detected!($feature),)*
            other => $crate::Amx::from_name(other).is_some_and($crate::Amx::is_usable),
        }
    };
}

/// Returns the feature of AArch64 without which the one of a name means nothing, if there is one.
pub fn needed_aarch64_feature(name: &str) -> Option<&'static str> {
    match name {
        "sve2" | "sve256" => Some("sve"),
        "sve512" => Some("sve256"),
        _ => None,
    }
}

/// Returns true if this AArch64 processor and its operating system have the feature of a name;
/// false for a name that no target of disc needs. `sve256` and `sve512` are vector registers of at
/// least so many bits.
#[macro_export]
macro_rules! has_aarch64_feature {
    ($name:expr) => {
        $crate::has_aarch64_feature!($name; "bf16" "dotprod" "fp16" "i8mm" "neon" "sve" "sve2")
    };
    ($name:expr; $($feature:tt)*) => {
        match $name {
            $($feature => ::std::arch::is_aarch64_feature_detected!($feature),)*
            "sve256" | "sve512" => {
                let bytes = if $name == "sve256" { 32 } else { 64 };
                // SAFETY: the processor has SVE.
                ::std::arch::is_aarch64_feature_detected!("sve") && unsafe { $crate::scalable_vector_bytes() } >= bytes
            }
            _ => false,
        }
    };
}

/// Returns the bytes of a vector register of SVE.
///
/// # Safety
/// The processor has SVE, and the operating system lets the process use it.
#[cfg(target_arch = "aarch64")]
pub unsafe fn scalable_vector_bytes() -> u64 {
    let bytes: u64;
    // SAFETY: the caller's promise; the instruction is `rdvl x0, #1`, which reads a length.
    unsafe { core::arch::asm!(".inst 0x04bf5020", out("x0") bytes, options(nomem, nostack, preserves_flags)) };
    bytes
}
