//! Maps every op to its evaluation: the one place, and exhaustive.
use super::{
    call::Call,
    contraction, control,
    elementwise::{self as lane, Lanes},
    fused, grid, host, index, kernel,
    machine::{Evaluated, Machine},
    movement, random, reduce, sizes, sort, window,
};
use crate::ops::{Exact, OpKind as K, math_function};

/// The evaluation of an op.
#[derive(Clone, Copy)]
pub(super) enum Eval {
    /// Element by element.
    Lanes(Lanes),
    /// By a function of the machine and the op.
    Op(for<'a> fn(&mut Machine<'a>, &Call<'a>) -> Evaluated),
}

// tidy: allow(function-length): one line per op
pub(super) fn eval(kind: K) -> Eval {
    use Eval::{Lanes as L, Op};
    use Lanes::{Bits, Bits2, Float, Float2, Number, Number2, Other, Test};
    match kind {
        math_function!() => match kind.def().math.expect("a math function declares itself").exact {
            Exact::One(function) => L(Float(function)),
            Exact::Two(function) => L(Float2(function)),
        },

        K::Abs => L(Number(f64::abs, |a, _| a.abs())),
        K::Ceil => L(Float(f64::ceil)),
        K::CountLeadingZeros => L(Bits(lane::count_leading_zeros)),
        K::Floor => L(Float(f64::floor)),
        K::IsFinite => L(Test(f64::is_finite)),
        K::IsInf => L(Test(f64::is_infinite)),
        K::IsNan => L(Test(f64::is_nan)),
        K::Negate => L(Number(|a| -a, |a, _| -a)),
        K::Not => L(Bits(|a, dtype| if dtype == crate::types::DType::I1 { 1 - a } else { !a })),
        K::Popcnt => L(Bits(lane::popcnt)),
        K::RoundNearestAfz => L(Float(f64::round)),
        K::RoundNearestEven => L(Float(f64::round_ties_even)),
        K::Rsqrt => L(Float(|a| 1.0 / a.sqrt())),
        K::Sign => L(Number(lane::sign, |a, _| a.signum())),
        K::Sqrt => L(Float(f64::sqrt)),

        K::Add => L(Number2(|a, b| a + b, |a, b, _| a + b)),
        K::And => L(Bits2(|a, b, _| a & b)),
        K::Divide => L(Number2(|a, b| a / b, lane::divide)),
        K::Maximum => L(Number2(lane::maximum, |a, b, _| a.max(b))),
        K::Minimum => L(Number2(lane::minimum, |a, b, _| a.min(b))),
        K::Multiply => L(Number2(|a, b| a * b, |a, b, _| a.wrapping_mul(b))),
        K::NextAfter => L(Other(lane::next_after)),
        K::Or => L(Bits2(|a, b, _| a | b)),
        K::Power => L(Number2(libm::pow, lane::power)),
        K::Remainder => L(Number2(|a, b| a % b, lane::remainder)),
        K::ShiftLeft => L(Bits2(lane::shift_left)),
        K::ShiftRightArithmetic => L(Bits2(lane::shift_right_arithmetic)),
        K::ShiftRightLogical => L(Bits2(lane::shift_right_logical)),
        K::Subtract => L(Number2(|a, b| a - b, |a, b, _| a - b)),
        K::Xor => L(Bits2(|a, b, _| a ^ b)),

        K::BitcastConvert => L(Other(lane::bitcast_convert)),
        K::Clamp => L(Other(lane::clamp)),
        K::Compare => L(Other(lane::compare)),
        K::Convert => L(Other(lane::convert)),
        K::Select => L(Other(lane::select)),

        K::BroadcastInDim => Op(movement::broadcast_in_dim),
        K::Concatenate => Op(movement::concatenate),
        K::Constant => Op(movement::constant),
        K::DimValue => Op(movement::dim_value),
        K::GetDimensionSize => Op(movement::get_dimension_size),
        K::Iota => Op(movement::iota),
        K::Pad => Op(movement::pad),
        K::Reshape => Op(movement::reshape),
        K::Reverse => Op(movement::reverse),
        K::Slice => Op(movement::slice),
        K::Transpose => Op(movement::transpose),
        K::Weight => Op(movement::weight),

        K::DynamicSlice => Op(index::dynamic_slice),
        K::DynamicUpdateSlice => Op(index::dynamic_update_slice),
        K::Gather => Op(index::gather),
        K::Scatter => Op(index::scatter),

        K::Cumulative => Op(reduce::cumulative),
        K::Reduce => Op(reduce::reduce),
        K::Im2col => Op(window::im2col),
        K::ReduceWindow => Op(window::reduce_window),
        K::Convolution => Op(contraction::convolution),
        K::UnpackInt4 => Op(contraction::unpack_int4),
        K::DotGeneral => Op(contraction::dot_general),
        K::Sort => Op(sort::sort),
        K::TopK => Op(sort::top_k),
        K::BindDim => Op(sizes::bind_dim),
        K::Nonzero => Op(sizes::nonzero),
        K::RngBitGenerator => Op(random::rng_bit_generator),

        K::Assert => Op(control::assert),
        K::Call => Op(control::call),
        K::If => Op(control::if_),
        K::Return => Op(control::return_),
        K::While => Op(control::while_),
        K::Fusion => Op(fused::fusion),

        K::Atomic
        | K::Barrier
        | K::CommitCopies
        | K::CopyAsync
        | K::LoadMatrix
        | K::Place
        | K::ReduceGroup
        | K::ReleaseGrid
        | K::Shared
        | K::Shuffle
        | K::Vote
        | K::WaitCopies
        | K::WaitGrid => Op(grid::outside),
        K::Aligned => Op(grid::aligned),
        K::Fetch => Op(grid::fetch),
        K::LaunchGrid => Op(grid::launch),
        K::LibraryConvolution | K::LibraryGemm => Op(grid::decline),

        K::DotLanes => Op(kernel::dot_lanes),
        K::DotPairs => Op(kernel::dot_pairs),
        K::ExtractLane => Op(kernel::extract_lane),
        K::Fma => L(Other(kernel::fma)),
        K::For => Op(kernel::for_),
        K::LaneMask => Op(kernel::lane_mask),
        K::LoadTile => Op(kernel::load_tile),
        K::MultiplyTiles => Op(kernel::multiply_tiles),
        K::StoreTile => Op(kernel::store_tile),
        K::Lanes => Op(kernel::lanes),
        K::Load => Op(kernel::load),
        K::Prefetch => Op(kernel::prefetch),
        K::RecastLanes => Op(kernel::recast_lanes),
        K::ReduceLanes => Op(kernel::reduce_lanes),
        K::ScaleByPower => L(Other(kernel::scale_by_power)),
        K::Scratch => Op(kernel::scratch),
        K::Splat => Op(kernel::splat),
        K::Store => Op(kernel::store),
        K::PickLanes => Op(kernel::pick_lanes),
        K::TransposeLanes => Op(kernel::transpose_lanes),
        K::Winograd => Op(window::winograd),
        K::ZipLanes => Op(kernel::zip_lanes),
        K::UnzipLanes => Op(kernel::unzip_lanes),
        K::View => Op(kernel::view),

        K::Alloc => Op(host::alloc),
        K::AllocOutput => Op(host::alloc_output),
        K::Arena => Op(host::arena),
        K::Launch => Op(host::launch),
        K::Mark => Op(host::mark),
        K::Release => Op(host::release),
        K::LayoutArena => Op(host::layout_arena),
        K::Nontemporal => Op(host::nontemporal),
    }
}
