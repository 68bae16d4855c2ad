//! Holds only the table.

/// Calls a macro with the table.
///
/// `compiler` has the fields of `disc::Options`: `name: type = kind, default, affects;`. `front`
/// has what front ends read themselves: `name = kind, default, reader;`. A doc is a line of the
/// page of settings.
#[macro_export]
macro_rules! option_table {
    ($callback:ident) => {
        $callback! {
            compiler {
                /// the CPU level to compile for, before `DISC_TARGET`: `"x86-64-v2"`, `"x86-64-v3"`
                /// or `"x86-64-v4"`; else that of this machine. A package may be for `"aarch64-v8"`
                /// too ([packages.md](packages.md#for-aarch64)). Extensions follow, as in
                /// `"x86-64-v4+avx512vnni"` and `"aarch64-v8+dotprod"`
                target: Option<String> = $crate::Kind::Text("a name such as 'x86-64-v3'"), $crate::Value::Unset, Resolved;
                /// the device to run on, of those that `disc.devices()` lists: `"cpu"`, `"cuda:0"`,
                /// or one like `"simt:sm_90"`, which runs code for a GPU on the host and checks it
                /// ([gpu.md](../gpu.md)); else that of the module's weights. Another name is an
                /// error, and nothing runs elsewhere
                device: Option<String> = $crate::Kind::Text("a name such as 'cpu'"), $crate::Value::Unset, Resolved;
                /// the most threads that compiling and a call of this module use; before
                /// `DISC_NUM_THREADS`
                threads: Option<usize> = $crate::Kind::Count, $crate::Value::Unset, Run;
                /// worker threads stay each on one CPU. The workers are the process's: one module
                /// that asks pins them for all; callers are never moved
                pin_threads: bool = $crate::Kind::Flag, $crate::Value::Flag(false), Run;
                /// versions for sizes that come often: True, kept where a trial finds them faster;
                /// False; or `"always"`, for all sizes that come twice
                /// ([specialisation.md](specialisation.md))
                specialize: Specialize = $crate::Kind::FlagOr("always"), $crate::Value::Flag(true), Run;
                /// False forbids Winograd's method for convolutions of 3 by 3, which is faster and
                /// less exact ([numerics.md](../numerics.md))
                winograd: Option<bool> = $crate::Kind::Flag, $crate::Value::Flag(true), Resolved;
                /// how exact products of f32 are on a GPU: `"highest"`, f32; `"high"` or
                /// `"medium"`, operands are rounded to tf32, which has 10 bits after the point,
                /// where the chip multiplies tiles of it. Not chosen, it is what
                /// `torch.backends.cuda.matmul.fp32_precision` or
                /// `torch.set_float32_matmul_precision` says when the module is compiled
                matmul_precision: MatmulPrecision = $crate::Kind::Choice(&["highest", "high", "medium"]), $crate::Value::Unset, Code;
                /// the time at which a call on a GPU says that an index or an assertion was wrong:
                /// `"late"`, when the host waits for results, or else at the next call; `"sync"`,
                /// before the call returns, which waits for the device. `DISC_CHECK=sync` asks it
                /// of all modules
                check: Check = $crate::Kind::Choice(&["late", "sync"]), $crate::Value::Text("late"), Run;
                /// gives up weights that only packing reads, once they are packed; they cannot be
                /// refreshed then. The result does not hold the original module either: when nobody
                /// else does, one copy of the weights is left
                release_weights: bool = $crate::Kind::Flag, $crate::Value::Flag(false), Run;
                /// how matrices of f32 weights are stored: `"exact"`; `"bf16"`, half the size;
                /// `"int8"`, a quarter of it; `"int4"`, a sixth: steps of 4 bits and a scale for
                /// each 32 of a column. Errors are in [numerics.md](../numerics.md)
                weights: WeightForm = $crate::Kind::Choice(&["exact", "bf16", "int8", "int4"]), $crate::Value::Text("exact"), Code;
                /// how the rows that are multiplied by int8 weights are read: `"exact"`; `"int8"`,
                /// as 8-bit integers with a scale for each row, which a call makes: exact sums of
                /// integers, several times as fast. Only with `weights="int8"`
                activations: ActivationForm = $crate::Kind::Choice(&["exact", "int8"]), $crate::Value::Text("exact"), Code;
                /// who computes matmuls and convolutions: `"off"`, generated kernels; `"auto"`, on
                /// CPUs oneDNN for matmuls where that was faster, on GPUs of NVIDIA cuBLASLt for
                /// matmuls and cuDNN for convolutions, but for few rows or places; `"cublaslt"` or
                /// `"cudnn"`, only that one, and an error without it; `"onednn"`, or
                /// `"onednn:PATH"`, oneDNN wherever it can ([library.md](library.md))
                library: LibraryChoice = $crate::Kind::ChoiceOrPath(&["off", "auto", "cublaslt", "cudnn", "onednn"]), $crate::Value::Text("off"), Resolved;
            }
            front {
                /// `False`: as `DISC_CACHE=0`; `"code"`: as `DISC_CACHE_WEIGHTS=0`
                cache = $crate::Kind::FlagOr("code"), $crate::Value::Flag(true), Front;
                /// a line on standard error that says what `disc.optimize` is doing, if that is a
                /// terminal; it goes away
                progress = $crate::Kind::Flag, $crate::Value::Flag(true), Front;
                /// the fewest operations of a compiled subgraph of a module that disc compiles in
                /// part; else an estimate of time decides
                min_cluster_size = $crate::Kind::Count, $crate::Value::Unset, Front;
                /// names of ops that are compiled, and no others, if there are any
                allow_ops = $crate::Kind::Names("['aten.gelu.default']"), $crate::Value::NoNames, Front;
                /// names of ops that are left to the framework
                block_ops = $crate::Kind::Names("['aten.gelu.default']"), $crate::Value::NoNames, Front;
                /// what happens to what is not compiled: `"framework"` runs it, `"error"` refuses
                /// it
                fallback = $crate::Kind::Choice(&["framework", "error"]), $crate::Value::Text("framework"), Front;
                /// `"auto"`: each call of what `disc.optimize` returned sees what was changed in
                /// the module since ([changes.md](changes.md)); `"off"`: nobody looks, and
                /// `refresh()` reads weights again
                watch = $crate::Kind::Choice(&["auto", "off"]), $crate::Value::Text("auto"), Front;
                /// `True`: PyTorch serves calls while a form of call is compiled on another thread
                /// ([fallback.md](fallback.md#nobody-waits))
                background = $crate::Kind::Flag, $crate::Value::Flag(false), Front;
                /// so many calls of a module are compared with eager calls; the report says what
                /// came of it
                verify = $crate::Kind::Count, $crate::Value::Unset, Front;
                /// `with disc.Options(profile="trace.json"):` writes the calls made inside as a
                /// trace for Perfetto ([profiling.md](profiling.md))
                profile = $crate::Kind::Text("a path such as 'trace.json'"), $crate::Value::Unset, Front;
                /// whether a module may be captured by tracing it with the example
                allow_tracing = $crate::Kind::Flag, $crate::Value::Flag(false), Planned;
            }
        }
    };
}
