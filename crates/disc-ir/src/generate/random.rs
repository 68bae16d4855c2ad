//! A small generator of random numbers (SplitMix64), the same on every machine, and plain random
//! tensors.
use crate::{
    diag::{Code, Diagnostic},
    interp::Tensor,
    types::DType,
};

/// A reproducible sequence of random choices.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D4E1_2F35)
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// A number from `low` up to but not including `high`.
    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high - low)
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns one of `options`, which is not empty.
    pub fn choose<'o, T>(&mut self, options: &'o [T]) -> &'o T {
        &options[self.below(options.len())]
    }

    /// Returns a number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Draws a tensor of floats in [-2, 2), or of small integers: so that results are neither all
    /// infinite nor all out of range.
    ///
    /// # Errors
    /// A negative size, or more than 2^28 elements.
    pub fn tensor(&mut self, dtype: DType, sizes: Vec<i64>) -> Result<Tensor, Diagnostic> {
        const MOST: usize = 1 << 28;
        let Some(count) = crate::interp::element_count(&sizes).filter(|&count| count <= MOST) else {
            return Err(Diagnostic::new(
                Code::E0605,
                format!("sizes {sizes:?}: at most {MOST} random elements, and no size below 0"),
            ));
        };
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| 4.0 * self.unit() - 2.0).collect();
            return Tensor::from_f64s(dtype, &sizes, &values);
        }
        let range = if dtype == DType::I1 { 2 } else { 8 };
        let least = if dtype.is_signed_integer() { -2 } else { 0 };
        let values: Vec<i64> = (0..count).map(|_| self.below(range) as i64 + least).collect();
        Tensor::from_i64s(dtype, &sizes, &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_are_in_range_and_depend_on_the_seed_alone() {
        let of = |seed, dtype| Random::new(seed).tensor(dtype, vec![100]).unwrap();
        assert_eq!(of(1, DType::F32), of(1, DType::F32));
        assert_ne!(of(1, DType::F32), of(2, DType::F32));
        assert!(of(1, DType::F64).to_f64s().iter().all(|x| (-2.0..2.0).contains(x)));
        assert!(of(1, DType::I8).to_i64s().iter().all(|x| (-2..6).contains(x)));
        assert!(of(1, DType::U8).to_i64s().iter().all(|x| (0..8).contains(x)));
        assert!(Random::new(0).tensor(DType::F32, vec![-1]).is_err());
        assert!(Random::new(0).tensor(DType::F32, vec![i64::MAX, 9]).is_err());
    }
}
