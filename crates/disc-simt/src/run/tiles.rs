//! Runs matmuls of tiles, and loads of matrices in their layout.
use super::{Done, Run, access::Span, message::Stop};
use crate::{
    alu,
    program::{BufferId, Reg, Slot},
    shadow::Kind,
};
use disc_ir::{
    DType,
    fragment::{Role, Tile},
};
use half::{bf16, f16};

/// Rows of a matrix that `load_matrix` reads, and columns of elements of 2 bytes.
const SIDE: usize = 8;
/// Bytes of a row, and bytes of a matrix that each thread gets.
const ROW: usize = 16;
const WORD: usize = 4;

impl Run<'_> {
    pub(super) fn load_matrix(&mut self, buffer: BufferId, [address, index]: [Reg; 2], transposed: bool, to: Reg) -> Done {
        self.check_warps("a load of matrices")?;
        let (to, warp) = (self.slot(to), self.program.warp as usize);
        let size = to.dtype().size();
        let (bytes, each) = (to.lanes as usize * size, WORD / size);
        let rows = bytes / WORD * SIDE;
        if warp != 4 * SIDE {
            return Err(Stop::new(self.mask.first(), format!("loads matrices by a warp of {warp} threads, 32 do that")));
        }
        let (address, index) = (self.slot(address), self.slot(index));
        let span = Span { buffer, address, index, each: (ROW / size) as u32, align: Some(ROW as u32), verb: "reads" };
        // The lanes after the rows name none.
        let names: Vec<u8> = (0..self.program.threads as usize).map(|thread| u8::from(thread % warp < rows)).collect();
        let named = self.mask.only(&names);
        self.locate(&span, &named)?;
        self.count_access(self.space(buffer), &named, ROW as u64, false);
        let mut loaded = vec![[0_u8; ROW]; self.program.threads as usize];
        self.runs(&span, &named, |run, first, count| {
            run.record(&span, (first, count), Kind::Read)?;
            for thread in first..first + count {
                let at = run.memory_at(buffer, thread);
                let row = &mut loaded[thread as usize];
                // SAFETY: the range was checked.
                unsafe { at.copy_to_nonoverlapping(row.as_mut_ptr(), ROW) };
            }
            Ok(())
        })?;
        let result = self.planes.bytes_mut(to);
        for thread in self.mask.iter() {
            let (thread, lane) = (thread as usize, thread as usize % warp);
            let rows = &loaded[thread - lane..];
            for (held, to) in result[thread * bytes..(thread + 1) * bytes].chunks_exact_mut(size).enumerate() {
                let (matrix, line, along) = (held / each * SIDE, lane / 4, each * (lane % 4) + held % each);
                let (row, column) = if transposed { (along, line) } else { (line, along) };
                to.copy_from_slice(&rows[matrix + row][column * size..(column + 1) * size]);
            }
        }
        Ok(())
    }

    pub(super) fn multiply_tiles(&mut self, tile: Tile, operands: [Reg; 3], to: Reg) -> Done {
        self.check_warps("a product of tiles")?;
        let warp = self.program.warp;
        if warp != tile.warp() {
            let message = format!("multiplies tiles {} by a warp of {warp} threads, {} do that", tile.name(), tile.warp());
            return Err(Stop::new(self.mask.first(), message));
        }
        let (slots, to) = (operands.map(|register| self.slot(register)), self.slot(to));
        for first in (0..self.program.threads).step_by(warp as usize) {
            if self.mask.warp(first / warp, warp) == 0 {
                continue;
            }
            match to.dtype() {
                DType::I32 => self.product(tile, slots, to, first, read_integer, add_integers),
                _ => self.product(tile, slots, to, first, read_single, add_singles),
            }
        }
        Ok(())
    }

    /// Multiplies the tiles of the warp from a thread on: each sum in the order of its terms.
    fn product<T: crate::planes::Element + Default>(
        &mut self,
        tile: Tile,
        [a, b, c]: [Slot; 3],
        to: Slot,
        first: u32,
        read: impl Fn(&Run<'_>, Slot, usize) -> T,
        add: impl Fn(&mut [T], T, &[T]),
    ) {
        let [m, n, k] = tile.sizes().map(|size| size as usize);
        let gather = |slot: Slot, role, columns: usize, count: usize| {
            let mut matrix = vec![T::default(); count];
            for thread in 0..tile.warp() {
                for lane in 0..slot.lanes {
                    let [row, column] = tile.element(role, thread, lane).map(|at| at as usize);
                    let at = ((first + thread) * slot.lanes + lane) as usize;
                    matrix[row * columns + column] = read(self, slot, at);
                }
            }
            matrix
        };
        let (a, b) = (gather(a, Role::A, k, m * k), gather(b, Role::B, n, k * n));
        let mut sums = gather(c, Role::C, n, m * n);
        for (row, sums) in sums.chunks_exact_mut(n).enumerate() {
            for term in 0..k {
                add(sums, a[row * k + term], &b[term * n..(term + 1) * n]);
            }
        }
        let result = self.planes.get_mut::<T>(to);
        for thread in 0..tile.warp() {
            for lane in 0..to.lanes {
                let [row, column] = tile.element(Role::C, thread, lane).map(|at| at as usize);
                result[((first + thread) * to.lanes + lane) as usize] = sums[row * n + column];
            }
        }
    }
}

/// Adds a product to each sum, rounded once, as the interpreter does.
fn add_singles(sums: &mut [f32], left: f32, right: &[f32]) {
    #[cfg(target_arch = "x86_64")]
    if alu::is_wide() {
        // SAFETY: the processor has these instructions.
        return unsafe { add_wide(sums, left, right) };
    }
    add_any(sums, left, right);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn add_wide(sums: &mut [f32], left: f32, right: &[f32]) {
    add_any(sums, left, right);
}

#[inline(always)]
fn add_any(sums: &mut [f32], left: f32, right: &[f32]) {
    for (sum, &right) in sums.iter_mut().zip(right) {
        *sum = left.mul_add(right, *sum);
    }
}

fn add_integers(sums: &mut [i32], left: i32, right: &[i32]) {
    for (sum, &right) in sums.iter_mut().zip(right) {
        *sum = sum.wrapping_add(left.wrapping_mul(right));
    }
}

fn read_single(run: &Run<'_>, slot: Slot, at: usize) -> f32 {
    match slot.dtype() {
        DType::F16 => run.planes.get::<f16>(slot)[at].to_f32(),
        DType::BF16 => run.planes.get::<bf16>(slot)[at].to_f32(),
        _ => run.planes.get::<f32>(slot)[at],
    }
}

fn read_integer(run: &Run<'_>, slot: Slot, at: usize) -> i32 {
    match slot.dtype() {
        DType::I8 => run.planes.get::<i8>(slot)[at].into(),
        DType::U8 => run.planes.get::<u8>(slot)[at].into(),
        _ => run.planes.get::<i32>(slot)[at],
    }
}
