//! Holds the registers of a block.
//!
//! Invariant: the operands and the result of a step are disjoint, which is checked where both are
//! borrowed; so registers are plain slices.
use crate::program::Slot;
use half::{bf16, f16};

/// An element of a register.
///
/// # Safety
/// Every pattern of bits is a value, and there is no padding.
pub(crate) unsafe trait Element: Copy + 'static {}

macro_rules! element {
    ($($ty:ty),*) => { $(
        // SAFETY: a number.
        unsafe impl Element for $ty {}
    )* };
}
element!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

/// The register file: zeros at first.
#[derive(Debug)]
pub(crate) struct Planes {
    lines: Vec<Line>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl Planes {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { lines: vec![Line([0; 64]); bytes.div_ceil(64)] }
    }

    fn check<T: Element>(&self, slot: Slot) {
        let end = slot.at as usize + slot.count as usize * size_of::<T>();
        assert!(slot.dtype().size() == size_of::<T>() && end <= 64 * self.lines.len() && slot.at.is_multiple_of(64));
    }

    #[inline]
    pub(crate) fn get<T: Element>(&self, slot: Slot) -> &[T] {
        self.check::<T>(slot);
        // SAFETY: the range is in the file, aligned, and any bits are a value.
        unsafe {
            let at = self.lines.as_ptr().cast::<u8>().add(slot.at as usize);
            std::slice::from_raw_parts(at.cast(), slot.count as usize)
        }
    }

    #[inline]
    pub(crate) fn get_mut<T: Element>(&mut self, slot: Slot) -> &mut [T] {
        self.check::<T>(slot);
        // SAFETY: as in `get`; the file is borrowed mutably.
        unsafe {
            let at = self.lines.as_mut_ptr().cast::<u8>().add(slot.at as usize);
            std::slice::from_raw_parts_mut(at.cast(), slot.count as usize)
        }
    }

    pub(crate) fn bytes(&self, slot: Slot) -> &[u8] {
        self.get(slot.as_bytes())
    }

    pub(crate) fn bytes_mut(&mut self, slot: Slot) -> &mut [u8] {
        self.get_mut(slot.as_bytes())
    }

    /// Borrows operands, and the result mutably.
    #[inline]
    pub(crate) fn split<T: Element, U: Element, const N: usize>(&mut self, from: [Slot; N], to: Slot) -> ([&[T]; N], &mut [U]) {
        self.check::<U>(to);
        let (start, end) = (to.at as usize, to.at as usize + to.bytes());
        for slot in from {
            self.check::<T>(slot);
            assert!(slot.at as usize >= end || slot.at as usize + slot.bytes() <= start, "registers overlap");
        }
        let base = self.lines.as_mut_ptr().cast::<u8>();
        // SAFETY: all ranges are in the file and aligned; the result overlaps no operand.
        unsafe {
            let operands =
                from.map(|slot| std::slice::from_raw_parts(base.add(slot.at as usize).cast::<T>(), slot.count as usize));
            (operands, std::slice::from_raw_parts_mut(base.add(start).cast(), to.count as usize))
        }
    }

    /// As [`Planes::split`], with an operand of another type.
    pub(crate) fn split_two<P: Element, T: Element, const N: usize>(
        &mut self,
        first: Slot,
        from: [Slot; N],
        to: Slot,
    ) -> (&[P], [&[T]; N], &mut [T]) {
        let at: *const P = {
            let ([first], _) = self.split::<P, T, 1>([first], to);
            first.as_ptr()
        };
        let (operands, result) = self.split::<T, T, N>(from, to);
        // SAFETY: the range was checked, and is not that of the result.
        (unsafe { std::slice::from_raw_parts(at, first.count as usize) }, operands, result)
    }
}
