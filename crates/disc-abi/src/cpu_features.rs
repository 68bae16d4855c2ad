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
