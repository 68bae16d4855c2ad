//! Lowers `x * 2^n` to AVX-512's scale instruction, register by register.
//!
//! Schedules ask for it if `Target::scales_by_power` holds. Vectors of any number of lanes are cut
//! into registers; the last one is padded.
use crate::emit::{Emit, Emitted, Val, lanes_of};
use disc_ir::DType;

impl<'c> Emit<'c> {
    pub(super) fn scale_by_power(&self, dtype: DType, x: Val<'c>, n: Val<'c>) -> Emitted<'c> {
        let (lanes, bits) = (lanes_of(x), dtype.bits());
        let register = (lanes * bits).next_power_of_two().clamp(128, 512);
        let count = register / bits;
        let suffix = if dtype == DType::F64 { "pd" } else { "ps" };
        let name = format!("llvm.x86.avx512.mask.scalef.{suffix}.{register}");
        let (zeros, all) = (self.const_float(dtype, count, 0.0), self.const_int(count.max(8), 1, -1));
        // Only the widest form takes a rounding mode: the CPU's current one.
        let mode = (register == 512).then(|| self.const_int(32, 1, 4));
        let mut parts = Vec::new();
        for first in (0..lanes).step_by(count as usize) {
            let (x, n) = (self.lanes_from(x, first, count)?, self.lanes_from(n, first, count)?);
            let arguments: Vec<Val<'c>> = [x, n, zeros, all].into_iter().chain(mode).collect();
            parts.push(self.target_intrinsic(&name, &arguments)?);
        }
        self.joined(parts, lanes)
    }

    /// Joins registers, and takes the first `lanes` of all.
    pub(super) fn joined(&self, mut parts: Vec<Val<'c>>, lanes: u32) -> Emitted<'c> {
        while parts.len() > 1 {
            let pair = |pair: &[Val<'c>]| self.shuffle(pair[0], pair.last().copied(), 0..2 * lanes_of(pair[0]));
            parts = parts.chunks(2).map(pair).collect::<Result<_, _>>()?;
        }
        match lanes {
            1 => Ok(self.builder.build_extract_element(parts[0].into_vector_value(), self.i64(0), "")?),
            _ if lanes == lanes_of(parts[0]) => Ok(parts[0]),
            _ => self.shuffle(parts[0], None, 0..lanes),
        }
    }

    /// Extracts `count` lanes from `first` on, and repeats the last lane as padding.
    pub(super) fn lanes_from(&self, value: Val<'c>, first: u32, count: u32) -> Emitted<'c> {
        let lanes = lanes_of(value);
        match lanes {
            1 => self.splat(value, count),
            _ if lanes == count => Ok(value),
            _ => self.shuffle(value, None, (first..first + count).map(|lane| lane.min(lanes - 1))),
        }
    }
}
