//! Multiplies tiles that the threads of a warp hold together, for kernels of GPUs and of CPUs.
use super::{
    Tensor,
    scalar::{Scalar, round},
};
use crate::{
    fragment::{Role, Tile},
    types::DType,
};
use std::borrow::Borrow;

/// The elements of an operand, row by row.
pub(super) struct Elements {
    columns: u32,
    values: Vec<Scalar>,
}

impl Elements {
    /// Collects the elements that the threads of a warp hold.
    pub(super) fn of(tile: Tile, role: Role, held: &[impl Borrow<Tensor>]) -> Self {
        let [m, n, k] = tile.sizes();
        let (rows, columns) = match role {
            Role::A => (m, k),
            Role::B => (k, n),
            Role::C => (m, n),
        };
        let mut values = vec![Scalar::Int(0); (rows * columns) as usize];
        for (thread, held) in (0..).zip(held) {
            for lane in 0..tile.part(role).lanes {
                let [row, column] = tile.element(role, thread, lane);
                values[(row * columns + column) as usize] = held.borrow().at(lane as usize);
            }
        }
        Self { columns, values }
    }

    fn at(&self, row: u32, column: u32) -> Scalar {
        self.values[(row * self.columns + column) as usize]
    }
}

/// Returns a thread's part of `a * b + c`, in the type of `c`.
pub(super) fn product(tile: Tile, [a, b, c]: &[Elements; 3], thread: u32, dtype: DType) -> Tensor {
    let element = |lane: usize| {
        let [row, column] = tile.element(Role::C, thread, lane as u32);
        (0..tile.sizes()[2]).fold(c.at(row, column), |sum, term| add(sum, a.at(row, term), b.at(term, column)))
    };
    Tensor::from_fn(dtype, vec![tile.part(Role::C).lanes.into()], element)
}

/// Adds a product, rounded once in f32; integers wrap.
fn add(sum: Scalar, a: Scalar, b: Scalar) -> Scalar {
    match (a, b, sum) {
        (Scalar::Int(a), Scalar::Int(b), Scalar::Int(sum)) => round(DType::I32, Scalar::Int(a * b + sum)),
        (a, b, sum) => Scalar::Float((a.as_f64() as f32).mul_add(b.as_f64() as f32, sum.as_f64() as f32).into()),
    }
}
