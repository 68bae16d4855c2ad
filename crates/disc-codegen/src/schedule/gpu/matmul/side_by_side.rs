//! Computes several matmuls in one launch: its blocks are split among them, those of the first one
//! come first.
//!
//! Each matmul may have weights, sizes and an epilogue of its own. Without columns it has no block.
//!
//! Invariant: all threads of a block compute the same matmul, so they meet at its barriers.
use super::{Matmul, Part};
use crate::schedule::{
    Group, Scheduled,
    gpu::{align, frame::GridFrame},
};
use disc_ir::{Dim, Grid, TensorType, Value};
use disc_kernel_macros::expr;

/// The most matmuls of a launch: each is code of its own in the kernel.
const MOST: usize = 4;

/// A matmul as a way to compute it by the blocks of a grid.
pub(super) trait InBlocks {
    /// Its threads: those of all matmuls of a launch are alike.
    fn grid(&self) -> Grid;

    /// The lanes of its elements.
    fn lanes(&self) -> u32 {
        1
    }

    /// The number of its blocks.
    fn blocks(&self) -> Dim;

    /// The memory that the threads of a block share. All matmuls of a launch ask for as many parts,
    /// each of one type of elements.
    fn shared(&self) -> Vec<TensorType>;

    /// Writes the code of its block number `block`, with at least the memory that it asks for.
    fn write(&self, frame: &mut GridFrame<'_>, block: Value, shared: &[Value]);
}

/// Returns the way to compute a matmul.
pub(super) type Schedule<'s> = dyn for<'m> Fn(&'m Matmul<'m>) -> Box<dyn InBlocks + 'm> + 's;

/// Writes the kernels of a group: one for every few matmuls.
pub(super) fn written(group: &Group<'_>, parts: &[Part], schedule: &Schedule<'_>) -> Scheduled {
    let mut all = Scheduled::default();
    for (number, parts) in parts.chunks(MOST).enumerate() {
        let name = if number > 0 { format!("{}_{number}", group.name) } else { group.name.to_string() };
        let wanted = parts.iter().flat_map(|part| part.wanted.iter().copied()).collect();
        let together = Group { wanted, name: name.into(), ..group.clone() };
        all.append_of(&together, |together| launch(together, parts, schedule));
    }
    all
}

fn launch(group: &Group<'_>, parts: &[Part], schedule: &Schedule<'_>) -> Scheduled {
    let own: Vec<Group<'_>> = parts.iter().map(|part| Group { wanted: part.wanted.clone(), ..group.clone() }).collect();
    let matmuls: Vec<Matmul<'_>> = own.iter().zip(parts).map(|(own, part)| Matmul::of(own, part.dot)).collect();
    let all: Vec<Box<dyn InBlocks + '_>> = matmuls.iter().map(schedule).collect();
    let mut frame = GridFrame::new(group, 1, all[0].grid());
    let shared: Vec<Value> = shared(&all).into_iter().map(|tensor| frame.kb.shared(tensor)).collect();
    let mut start = Dim::constant(0);
    for (number, matmul) in all.iter().enumerate() {
        let end = &start + &matmul.blocks();
        frame.elements.lanes = matmul.lanes();
        let kb = &mut frame.kb;
        let block = kb.place("block");
        if all.len() == 1 {
            matmul.write(&mut frame, block, &shared);
        } else {
            let (low, high) = (kb.dim(&start), kb.dim(&end));
            let is_below = (number + 1 < all.len()).then(|| expr!(kb, block < high));
            let is_behind = (number > 0).then(|| expr!(kb, block >= low));
            let is_own = match (is_behind, is_below) {
                (Some(behind), Some(below)) => expr!(kb, behind & below),
                (one, other) => one.or(other).expect("one of several matmuls is not the first or not the last"),
            };
            let open = kb.open_if(is_own);
            frame.elements.open_scope();
            let block = expr!(frame.kb, block - low);
            matmul.write(&mut frame, block, &shared);
            frame.elements.close_scope();
            frame.kb.close_if(open);
        }
        start = end;
    }
    let mut code = frame.finish(start);
    align::mark(&mut code.kernels[0], &group.solver);
    code
}

/// Returns the memory that suffices for each of several matmuls.
fn shared(all: &[Box<dyn InBlocks + '_>]) -> Vec<TensorType> {
    let mut most = all[0].shared();
    for other in &all[1..] {
        for (part, asked) in most.iter_mut().zip(other.shared()) {
            assert_eq!(part.dtype, asked.dtype, "matmuls of one launch share memory of one type");
            *part = TensorType::new([Dim::max(&part.element_count(), &asked.element_count())], part.dtype);
        }
    }
    most
}
