//! Runs each kind of version, on the host or on a GPU.
use super::versions::{
    ATTENTION, ATTENTION_OF_ANY, ATTENTION_OF_BF16, ATTENTION_OF_HALVES, COLUMNS, ENLARGED, NEGATED, NONTEMPORAL_BYTES, PRODUCT,
    SCAN, SOFTMAX, SORT, SUMS, TURNED_HALVES, WINOGRAD, load, load_on,
};
use disc::{
    from_host,
    ir::{DType, generate::cases::Nearness, interp::Tensor},
    ral::{HostOutputs, HostTensor},
    to_host,
};
use disc_codegen::{schedule::VersionKind, target::Target};
use disc_filetests::compare;

pub(super) const TRANSPOSED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[S]x[B]xf32> {
  %t = transpose %x, dims = [1, 0] : (tensor<[B]x[S]xf32>) -> tensor<[S]x[B]xf32>
  %y = negate %t : tensor<[S]x[B]xf32>
  return %y : tensor<[S]x[B]xf32>
}";

/// Sums of sizes, which do not cancel.
const SCAN_SIZES: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %a = abs %x : tensor<[B]x[S]xf32>
  %y = cumulative %a, %z, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %y : tensor<[B]x[S]xf32>
}";

/// Scans along lines whose neighbours are other lines.
pub(super) const SCAN_DOWN: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %y = cumulative %x, %z, dim = 0, reverse = true : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  return %y : tensor<[B]x[S]xf32>
}";

/// The first elements of an order, and their positions.
pub(super) const FIRST: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> (tensor<[B]x[min(S, 5)]xf32>, tensor<[B]x[min(S, 5)]xi32>) {
  %v, %i = top_k %x, k = [min(S, 5)] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[min(S, 5)]xf32>, tensor<[B]x[min(S, 5)]xi32>)
  return %v, %i : tensor<[B]x[min(S, 5)]xf32>, tensor<[B]x[min(S, 5)]xi32>
}";

/// A product with the lines of a matrix.
pub(super) const LINEAR: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[N]x[K]xf32>) -> tensor<[B]x[N]xf32> {
  %z = dot_general %x, %y, lhs_contracting_dims = [1], rhs_contracting_dims = [1] : (tensor<[B]x[K]xf32>, tensor<[N]x[K]xf32>) -> tensor<[B]x[N]xf32>
  %t = tanh %z : tensor<[B]x[N]xf32>
  return %t : tensor<[B]x[N]xf32>
}";

/// The same product of halves, whose sums keep all bits.
pub(super) const LINEAR_HALVES: &str = "
func @main(%x: tensor<[B]x[K]xf32>, %y: tensor<[N]x[K]xf32>) -> tensor<[B]x[N]xf32> {
  %hx = convert %x, dtype = f16 : (tensor<[B]x[K]xf32>) -> tensor<[B]x[K]xf16>
  %hy = convert %y, dtype = f16 : (tensor<[N]x[K]xf32>) -> tensor<[N]x[K]xf16>
  %a = convert %hx, dtype = f32 : (tensor<[B]x[K]xf16>) -> tensor<[B]x[K]xf32>
  %b = convert %hy, dtype = f32 : (tensor<[N]x[K]xf16>) -> tensor<[N]x[K]xf32>
  %z = dot_general %a, %b, lhs_contracting_dims = [1], rhs_contracting_dims = [1] : (tensor<[B]x[K]xf32>, tensor<[N]x[K]xf32>) -> tensor<[B]x[N]xf32>
  %t = tanh %z : tensor<[B]x[N]xf32>
  return %t : tensor<[B]x[N]xf32>
}";

/// The positions of positive elements, with room for more than half of all.
pub(super) const POSITIVE: &str = "
func @main(%x: tensor<[N]xf32>) -> tensor<[N - N/3]xf32> {
  %z = constant dense<0.0> : tensor<[N]xf32>
  %m = compare %x, %z, direction = GT : (tensor<[N]xf32>, tensor<[N]xf32>) -> tensor<[N]xi1>
  %p = nonzero %m : (tensor<[N]xi1>) -> tensor<[N - N/3]xi64>
  %f = convert %p, dtype = f32 : (tensor<[N - N/3]xi64>) -> tensor<[N - N/3]xf32>
  return %f : tensor<[N - N/3]xf32>
}";

/// A program, the sizes of its inputs for which a version runs, and the suffix of the kernel's
/// name.
struct Case {
    program: &'static str,
    inputs: Vec<Vec<i64>>,
    ends: &'static str,
    /// The device of versions for GPUs.
    device: Option<&'static str>,
}

/// Returns the case of a version; a new version needs another.
fn case(kind: VersionKind) -> Case {
    let matrix = |program, rows, columns, ends| Case { program, inputs: vec![vec![rows, columns]], ends, device: None };
    let grid = |program, rows, columns, ends| Case { device: Some("simt:sm_90"), ..matrix(program, rows, columns, ends) };
    match kind {
        VersionKind::SplitRows => matrix(SUMS, 1, 200_000, "_split"),
        VersionKind::SplitPhases => matrix(SOFTMAX, 1, 262_145, "_ends"),
        VersionKind::RowsInLanes => matrix(SOFTMAX, 65, 8, "_lanes"),
        VersionKind::MultiRow => matrix(SOFTMAX, 3, 100, "_multirow"),
        VersionKind::ShortRows => {
            // As wide as a vector, whatever the target.
            let lanes = Target::host().unwrap().lanes(32);
            let ends = ["_short4", "_short8", "_short16"].into_iter().find(|name| name.ends_with(&lanes.to_string()));
            matrix(TURNED_HALVES, 3, 2 * i64::from(lanes), ends.expect("vectors have 4, 8 or 16 lanes"))
        }
        VersionKind::Tables => matrix(ENLARGED, 4, 100, "_tables"),
        VersionKind::Decode => Case {
            program: ATTENTION,
            inputs: vec![vec![1, 1, 2, 8], vec![1, 300, 2, 8], vec![1, 300, 2, 8]],
            ends: "_decode_combine",
            device: None,
        },
        VersionKind::AttentionTiles => Case {
            program: ATTENTION_OF_BF16,
            inputs: vec![vec![1, 20, 64], vec![1, 40, 64], vec![1, 40, 64]],
            ends: "_attention_tiles",
            device: None,
        },
        VersionKind::Winograd => Case {
            program: WINOGRAD,
            inputs: vec![vec![1, 16, 20, 24], vec![16, 16, 3, 3], vec![4, 36, 16, 4]],
            ends: ".winograd",
            device: None,
        },
        VersionKind::WinogradSmall => Case {
            program: WINOGRAD,
            inputs: vec![vec![1, 16, 7, 7], vec![16, 16, 3, 3], vec![4, 36, 16, 4]],
            ends: ".winograd_small",
            device: None,
        },
        VersionKind::SplitK => {
            Case { program: PRODUCT, inputs: vec![vec![2, 8192], vec![8192, 20]], ends: "_combine", device: None }
        }
        VersionKind::Keys => matrix(SORT, 3, 100, "_standalone"),
        VersionKind::ScanTiles => matrix(SCAN, 40, 100, "_tiles"),
        VersionKind::Nontemporal => matrix(SOFTMAX, NONTEMPORAL_BYTES / 8192, 1024, "_nontemporal"),
        VersionKind::GridTiles => grid(TRANSPOSED, 33, 70, "_tile"),
        VersionKind::GridVectors => grid(NEGATED, 7, 700, "_v"),
        VersionKind::GridElements => grid(NEGATED, 7, 701, "_s"),
        VersionKind::GridSplit => grid(SUMS, 3, 40_001, "_split"),
        VersionKind::ThreadRows => grid(COLUMNS, 300, 9, "_thread"),
        VersionKind::SubwarpRows => grid(SOFTMAX, 301, 9, "_subwarp"),
        VersionKind::WarpRowVectors => grid(SOFTMAX, 11, 132, "_warp_v"),
        VersionKind::WarpRows => grid(SOFTMAX, 11, 131, "_warp"),
        VersionKind::BlockRowVectors => grid(SOFTMAX, 3, 2052, "_block_v"),
        VersionKind::BlockRows => grid(SOFTMAX, 3, 2051, "_block"),
        VersionKind::GridMatmuls => Case { inputs: vec![vec![67, 33], vec![33, 20]], ..grid(PRODUCT, 1, 1, "_matmul_s") },
        VersionKind::GridAttentionFew => Case {
            inputs: vec![vec![2, 5, 2, 8], vec![2, 130, 2, 8], vec![2, 130, 2, 8]],
            ..grid(ATTENTION, 1, 1, "_attention_few")
        },
        VersionKind::GridAttentionHeads => Case {
            inputs: vec![vec![2, 70, 2, 8], vec![2, 65, 2, 8], vec![2, 65, 2, 8]],
            ..grid(ATTENTION, 1, 1, "_attention_heads")
        },
        VersionKind::GridAttention => Case {
            inputs: vec![vec![2, 70, 65], vec![2, 67, 65], vec![2, 67, 130]],
            ..grid(ATTENTION_OF_ANY, 1, 1, "_attention_s")
        },
        VersionKind::WarpSorts => grid(SORT, 9, 20, "_warp"),
        VersionKind::BlockSorts => grid(SORT, 3, 300, "_block"),
        VersionKind::PartSorts => grid(FIRST, 2, 6000, "_parts"),
        VersionKind::DeviceSorts => grid(SORT, 2, 4100, "_device"),
        VersionKind::RowVectors => Case { inputs: vec![vec![1, 300], vec![300, 20]], ..grid(PRODUCT, 1, 1, "_row_v") },
        VersionKind::FewRowVectors => Case { inputs: vec![vec![5, 300], vec![300, 20]], ..grid(PRODUCT, 1, 1, "_rows_v") },
        VersionKind::FewRows => Case { inputs: vec![vec![3, 301], vec![20, 301]], ..grid(LINEAR, 1, 1, "_rows") },
        VersionKind::LargeMmaTiles => {
            Case { inputs: vec![vec![1024, 16], vec![1024, 16]], ..grid(LINEAR_HALVES, 1, 1, "_matmul_mma128") }
        }
        VersionKind::MmaTiles => Case { inputs: vec![vec![67, 40], vec![21, 40]], ..grid(LINEAR_HALVES, 1, 1, "_matmul_mma64") },
        VersionKind::MmaAttention => Case {
            inputs: vec![vec![2, 70, 72], vec![2, 67, 72], vec![2, 67, 136]],
            ..grid(ATTENTION_OF_HALVES, 1, 1, "_attention_mma")
        },
        VersionKind::SplitPositions => Case { inputs: vec![vec![16_500]], ..grid(POSITIVE, 1, 1, "_standalone_split") },
        VersionKind::BlockPositions => Case { inputs: vec![vec![1030]], ..grid(POSITIVE, 1, 1, "_standalone_block") },
        VersionKind::ThreadScans => grid(SCAN_DOWN, 30, 300, "_thread"),
        VersionKind::WarpScans => grid(SCAN_SIZES, 9, 300, "_warp"),
        VersionKind::BlockScans => grid(SCAN_SIZES, 3, 1025, "_block"),
    }
}

/// Makes a tensor of f32, or of bf16 for a program that takes it.
fn host_tensor(((sizes, values), dtype): ((Vec<i64>, Vec<f32>), disc::ral::DType)) -> HostTensor {
    if dtype != disc::ral::DType::BF16 {
        return HostTensor::new(&sizes, &values).unwrap();
    }
    let values: Vec<f64> = values.into_iter().map(f64::from).collect();
    to_host(&Tensor::from_f64s(DType::BF16, &sizes, &values).unwrap()).unwrap()
}

#[test]
fn each_version_runs_for_some_sizes() {
    for &kind in VersionKind::ALL {
        let has_tiles = Target::host().unwrap().register_tile(DType::BF16).is_some();
        if kind == VersionKind::AttentionTiles && !has_tiles {
            println!("skipped: {kind:?} needs a CPU with tile registers");
            continue;
        }
        let Case { program, inputs, ends, device } = case(kind);
        let executable = load_on(device, program, 1);
        let tensor = |sizes: &Vec<i64>| {
            let count: i64 = sizes.iter().product();
            let values: Vec<f32> = (0..count).map(|i| (i * 7919 % 997) as f32 / 499.0 - 1.0).collect();
            (sizes.clone(), values)
        };
        let dtypes = executable.meta().entries[0].inputs.iter().map(|input| input.dtype);
        let tensors: Vec<HostTensor> = inputs.iter().map(tensor).zip(dtypes).map(host_tensor).collect();
        let inputs: Vec<_> = tensors.iter().map(HostTensor::as_input).collect();
        let mut outputs = HostOutputs::new();
        let launches = executable.with_session(|session| {
            session.nontemporal_from(NONTEMPORAL_BYTES);
            session.start_profile();
            executable.run(0, session, &inputs, &mut outputs).unwrap();
            session.take_profile()
        });
        let names: Vec<&str> = launches.iter().map(|launch| launch.name.as_deref().expect("code has names")).collect();
        if device.is_some() {
            let (host, mut wanted) = (load(program, 1), HostOutputs::new());
            host.with_session(|session| host.run(0, session, &inputs, &mut wanted)).unwrap();
            let tensor = |outputs: &HostOutputs| from_host(outputs.tensor(0).unwrap()).unwrap();
            let compared = compare(&tensor(&outputs), &tensor(&wanted), Nearness::Sum);
            compared.unwrap_or_else(|why| panic!("{kind:?}: {why}"));
        }
        assert!(names.iter().any(|name| name.ends_with(ends)), "{kind:?}: {names:?}");
    }
}
