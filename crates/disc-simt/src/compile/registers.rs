//! Gives registers their places in the register file, so that those which are needed at different
//! times share one.
use crate::program::{Reg, Slot};
use disc_ir::DType;

/// A register before it has a place.
#[derive(Clone, Copy, Debug)]
struct Register {
    lanes: u32,
    dtype: DType,
    varying: bool,
    /// The first and the last step that needs it.
    start: u32,
    end: u32,
}

/// The registers of a kernel, and the loops that are open.
#[derive(Debug, Default)]
pub(super) struct Registers {
    all: Vec<Register>,
    /// The first step of each open loop, with the registers from outside that it uses.
    loops: Vec<(u32, Vec<Reg>)>,
    now: u32,
}

/// The end of a register that is kept.
const FOREVER: u32 = u32::MAX;

impl Registers {
    /// Goes on to the next step.
    pub(super) fn step(&mut self) {
        self.now += 1;
    }

    pub(super) fn make(&mut self, dtype: DType, lanes: u32, varying: bool) -> Reg {
        self.all.push(Register { lanes, dtype, varying, start: self.now, end: self.now });
        self.all.len() as Reg - 1
    }

    /// Makes a register that is written before the first step and kept.
    pub(super) fn keep(&mut self, dtype: DType, lanes: u32, varying: bool) -> Reg {
        self.all.push(Register { lanes, dtype, varying, start: 0, end: FOREVER });
        self.all.len() as Reg - 1
    }

    pub(super) fn is_kept(&self, reg: Reg) -> bool {
        self.all[reg as usize].end == FOREVER
    }

    pub(super) fn varies(&self, reg: Reg) -> bool {
        self.all[reg as usize].varying
    }

    pub(super) fn ty(&self, reg: Reg) -> (DType, u32) {
        let register = &self.all[reg as usize];
        (register.dtype, register.lanes)
    }

    /// Records that the current step needs a register.
    pub(super) fn touch(&mut self, reg: Reg) {
        let register = &mut self.all[reg as usize];
        register.end = register.end.max(self.now);
        // The next turn of a loop needs it again.
        if let Some((_, used)) = self.loops.iter_mut().find(|(start, _)| *start > register.start) {
            used.push(reg);
        }
    }

    pub(super) fn open_loop(&mut self) {
        self.now += 1;
        self.loops.push((self.now, Vec::new()));
    }

    pub(super) fn close_loop(&mut self) {
        self.now += 1;
        for reg in self.loops.pop().map(|(_, used)| used).unwrap_or_default() {
            self.touch(reg);
        }
        self.now += 1;
    }

    /// Returns the places of all registers, and the bytes of the file.
    pub(super) fn placed(&self, threads: u32) -> (Vec<Slot>, usize) {
        let mut order: Vec<usize> = (0..self.all.len()).collect();
        order.sort_by_key(|&i| self.all[i].start);
        let mut slots = vec![Slot::default(); self.all.len()];
        // Free and used places: first byte and bytes, with the end of the user.
        let mut free: Vec<(u32, u32)> = Vec::new();
        let mut used: Vec<(u32, u32, u32)> = Vec::new();
        let mut top = 0;
        for i in order {
            let register = self.all[i];
            used.retain(|&(end, at, bytes)| {
                let stays = end >= register.start;
                if !stays {
                    free.push((at, bytes));
                }
                stays
            });
            let count = register.lanes * if register.varying { threads } else { 1 };
            let bytes = (count * register.dtype.size() as u32).next_multiple_of(64);
            let found = (0..free.len()).filter(|&j| free[j].1 >= bytes).min_by_key(|&j| free[j].1);
            let fits = found.filter(|&j| free[j].1 <= 2 * bytes);
            let (at, bytes) = fits.map_or((top, bytes), |j| free.swap_remove(j));
            top = top.max(at + bytes);
            used.push((register.end, at, bytes));
            let (lanes, varying, dtype) = (register.lanes, register.varying, Some(register.dtype));
            slots[i] = Slot { at, count, lanes, varying, dtype };
        }
        (slots, top as usize)
    }
}
