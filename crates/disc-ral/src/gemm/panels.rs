//! Unpacks weights from panels into plain matrices for a library.
//!
//! A matrix is unpacked when a library first needs it and kept with the set of weights: weights
//! that never go to a library cost no memory.
use crate::device::{Block, Device};
use disc_abi::Gemm;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

/// The unpacked matrices of a set of weights, by the address of the panels.
#[derive(Default)]
pub(crate) struct PlainForms(Mutex<HashMap<usize, Form>>);

struct Form {
    columns: i64,
    sums: i64,
    panel: i64,
    block: Arc<Block>,
}

impl PlainForms {
    /// Returns the matrix `[l][j]` of a GEMM's f32 panels; `None` without memory for it, or if the
    /// same panels were unpacked as another matrix. `is_weight` returns true if an address is a
    /// weight's: other panels may change from call to call.
    pub(crate) fn of(
        &self,
        device: &Arc<dyn Device>,
        product: &Gemm,
        is_weight: impl Fn(*const u8) -> bool,
    ) -> Option<Arc<Block>> {
        let address = product.right.addr();
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = forms.get(&address) {
            let [_, columns, sums] = product.sizes;
            let is_same = [known.columns, known.sums, known.panel] == [columns, sums, product.panel];
            return is_same.then(|| Arc::clone(&known.block));
        }
        let [_, columns, sums] = product.sizes.map(|size| usize::try_from(size).unwrap_or(0));
        let (width, bytes) = (usize::try_from(product.panel).ok()?, columns.checked_mul(sums)?.checked_mul(size_of::<f32>())?);
        if width == 0 || !is_weight(product.right) {
            return None;
        }
        let block = Arc::new(Block::new(device, bytes).ok()?);
        let (from, to) = (product.right.cast::<f32>(), block.at().cast::<f32>());
        for (panel, first) in (0..columns).step_by(width).enumerate() {
            for sum in 0..sums {
                let count = width.min(columns - first);
                // SAFETY: the panels have `sums` rows of `width` elements each, and the block
                // `sums` rows of `columns` elements.
                unsafe {
                    let row = from.add((panel * sums + sum) * width);
                    to.add(sum * columns + first).copy_from_nonoverlapping(row, count);
                }
            }
        }
        let [_, columns, sums] = product.sizes;
        forms.insert(address, Form { columns, sums, panel: product.panel, block: Arc::clone(&block) });
        Some(block)
    }

    /// Returns the bytes that are held.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().map(|form| form.block.bytes()).sum()
    }

    /// Frees all matrices of a size that the library will not take.
    pub(crate) fn release(&self, [columns, sums]: [i64; 2]) {
        let mut forms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        forms.retain(|_, form| (form.columns, form.sums) != (columns, sums));
    }
}
