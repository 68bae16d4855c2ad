//! Runs the blocks of a launch, one after another: the threads of a block in lockstep under a mask.
mod access;
mod atomics;
mod control;
mod copies;
mod group;
mod mask;
mod message;
mod sectors;
mod spaces;
mod tiles;

use crate::{
    alu,
    chip::Chip,
    counters::KernelCounters,
    memory::Memory,
    planes::Planes,
    program::{Op, Place, Program, Reg, Slot},
    shadow::{LAST_TIME, WarpTimes, Who},
};
use copies::Copies;
use disc_abi::{GRID_PERSISTENT, GridLaunch, KERNEL_VALUES};
use disc_ir::{DType, Space};
use disc_ral::Fault;
use mask::Mask;
use message::Stop;
use spaces::{Limit, Own, Shared};

/// Steps of warps after which a launch is ended: it would run for minutes.
const MOST_STEPS: u64 = 1_000_000_000;

/// One launch of a kernel.
pub(crate) struct Launch<'a> {
    pub(crate) program: &'a Program,
    pub(crate) memory: &'a Memory,
    pub(crate) chip: &'static Chip,
    pub(crate) words: &'a [u64],
    pub(crate) grid: GridLaunch,
}

impl Launch<'_> {
    /// Returns the number of blocks that run.
    pub(crate) fn blocks(&self) -> i64 {
        let blocks = self.grid.blocks.max(0);
        if self.grid.flags & GRID_PERSISTENT == 0 { blocks } else { blocks.min(self.chip.resident) }
    }

    /// Runs all blocks; `first` is the number of the first one among the runs of the device.
    ///
    /// # Errors
    /// A message about the kernel's first error.
    pub(crate) fn run(&self, first: u32) -> Result<Ended, String> {
        let mut run = Run::new(self, first).map_err(|message| format!("kernel @{}: {message}", self.program.name))?;
        for block in 0..self.blocks() {
            let ended = run.block(block);
            // Threads that failed leave others without their values.
            if let Some((_, fault)) = run.fault {
                return Ok(Ended { counters: run.counters, fault: Some(fault) });
            }
            ended.map_err(|stop| run.describe(&stop))?;
        }
        Ok(Ended { counters: run.counters, fault: None })
    }
}

/// The result of a launch.
pub(crate) struct Ended {
    pub(crate) counters: KernelCounters,
    pub(crate) fault: Option<Fault>,
}

type Done = Result<(), Box<Stop>>;

/// The state of a launch, and of the block that runs.
struct Run<'a> {
    program: &'a Program,
    memory: &'a Memory,
    planes: Planes,
    /// The memory of each buffer.
    limits: Vec<Limit>,
    shared: Shared,
    own: Own,
    copies: Copies,
    /// Threads that run the op, and those that no assertion has switched off.
    mask: Mask,
    live: Mask,
    block: i64,
    who: Who,
    warp_times: WarpTimes,
    steps: u64,
    counters: KernelCounters,
    /// The thread of the first failed assertion.
    fault: Option<(u32, Fault)>,
    /// The address that each thread accesses.
    addresses: Vec<u64>,
}

impl<'a> Run<'a> {
    fn new(launch: &Launch<'a>, first: u32) -> Result<Self, String> {
        let program = launch.program;
        let threads = program.threads;
        let values = spaces::Values::new(program, launch.words)?;
        let (limits, shared) = spaces::limits(launch, &values)?;
        let who = Who {
            first,
            several: first + launch.blocks() as u32,
            run: first,
            thread: 0,
            warp_bits: program.warp.ilog2(),
            time: 0,
            block_time: 0,
        };
        let mut run = Self {
            program,
            memory: launch.memory,
            planes: Planes::new(program.register_bytes),
            limits,
            shared: Shared::new(shared),
            own: Own::new(launch.grid.scratch, threads),
            copies: Copies::new(threads),
            mask: Mask::all(threads),
            live: Mask::all(threads),
            block: 0,
            who,
            warp_times: [0; 32],
            steps: 0,
            counters: KernelCounters { kernel: program.name.to_string(), launches: 1, ..Default::default() },
            fault: None,
            addresses: vec![0; threads as usize],
        };
        run.write_constants(launch, &values)?;
        Ok(run)
    }

    /// Writes the registers that keep their values.
    fn write_constants(&mut self, launch: &Launch<'_>, values: &spaces::Values<'_>) -> Result<(), String> {
        let program = self.program;
        for (&parameter, &word) in program.parameters.iter().zip(launch.words) {
            let slot = self.slot(parameter);
            self.set_integer(slot, 0, word as i64);
        }
        for (register, bytes) in &program.constants {
            let slot = self.slot(*register);
            self.planes.bytes_mut(slot).copy_from_slice(bytes);
        }
        for (register, dim) in &program.dims {
            let (value, slot) = (values.dim(dim)?, self.slot(*register));
            (0..slot.count as usize).for_each(|i| self.set_integer(slot, i, value));
        }
        for &(register, buffer) in &program.memory {
            let (start, slot) = (self.limits[buffer as usize].start, self.slot(register));
            self.set_integer(slot, 0, start as i64);
        }
        let warp = i64::from(program.warp);
        for &(register, place) in &program.places {
            let slot = self.slot(register);
            for thread in 0..i64::from(slot.count) {
                self.set_integer(
                    slot,
                    thread as usize,
                    match place {
                        Place::Block => 0,
                        Place::Grid => launch.blocks(),
                        Place::Thread => thread,
                        Place::Warp => thread / warp,
                        Place::Lane => thread % warp,
                    },
                );
            }
        }
        for &(plane, register) in &program.planes {
            let (from, to) = (self.slot(register), self.slot(plane));
            alu::expand(&mut self.planes, from, to);
        }
        Ok(())
    }

    fn slot(&self, register: Reg) -> Slot {
        self.program.registers[register as usize]
    }

    /// Writes an integer, wrapped, or the low bits of a word.
    fn set_integer(&mut self, slot: Slot, index: usize, value: i64) {
        let size = slot.dtype().size();
        let bytes = &mut self.planes.bytes_mut(slot)[index * size..(index + 1) * size];
        match slot.dtype() {
            DType::I1 => bytes[0] = u8::from(value & 0xFF != 0),
            _ => bytes.copy_from_slice(&value.to_le_bytes()[..size]),
        }
    }

    /// Reads an integer of a register.
    fn integer(&self, slot: Slot, index: usize) -> i64 {
        let index = if slot.varying { index } else { 0 };
        match slot.dtype() {
            DType::I1 | DType::U8 => self.planes.get::<u8>(slot)[index].into(),
            DType::I8 => self.planes.get::<i8>(slot)[index].into(),
            DType::I16 => self.planes.get::<i16>(slot)[index].into(),
            DType::U16 => self.planes.get::<u16>(slot)[index].into(),
            DType::I32 => self.planes.get::<i32>(slot)[index].into(),
            DType::U32 => self.planes.get::<u32>(slot)[index].into(),
            _ => self.planes.get::<i64>(slot)[index],
        }
    }

    fn block(&mut self, block: i64) -> Done {
        let program = self.program;
        self.block = block;
        self.who.run = self.who.first + block as u32;
        (self.who.time, self.who.block_time, self.warp_times) = (0, 0, [0; 32]);
        self.mask = Mask::all(program.threads);
        self.live = self.mask;
        self.shared.begin_block();
        self.own.begin_block();
        self.copies.begin_block();
        for &(register, place) in &program.places {
            if place == Place::Block {
                let slot = self.slot(register);
                self.set_integer(slot, 0, block);
            }
        }
        self.code(&program.body)
    }

    /// Returns this access's place in the order of accesses.
    fn who(&self, thread: u32) -> Who {
        Who { thread, ..self.who }
    }

    /// Runs the steps of a region on the threads of the mask.
    fn code(&mut self, code: &'a [crate::program::Step]) -> Done {
        for step in code {
            if self.mask.count == 0 {
                break;
            }
            self.counters.operations += u64::from(step.work) * u64::from(self.mask.count);
            self.count_step().and_then(|()| self.step(&step.op)).map_err(|stop| Box::new(stop.at(step.line)))?;
        }
        Ok(())
    }

    fn count_step(&mut self) -> Done {
        self.steps += u64::from(self.mask.warps(self.program.warp));
        match self.steps > MOST_STEPS {
            true => Err(Stop::new(self.mask.first(), format!("runs for more than {MOST_STEPS} steps of warps"))),
            false => Ok(()),
        }
    }

    fn step(&mut self, op: &'a Op) -> Done {
        match op {
            Op::Alu(op) => {
                alu::run(&mut self.planes, &self.program.registers, op);
                Ok(())
            }
            Op::Load(access) => {
                self.load(access)?;
                self.normalize_truths(access);
                Ok(())
            }
            Op::Store(access) => self.store(access),
            Op::View { from, to, address, index, result } => self.view([*from, *to], [*address, *index], *result),
            Op::Assert { pred, site, values } => {
                self.assert(*pred, *site, values);
                Ok(())
            }
            Op::If(op) => self.if_(op),
            Op::For(op) => self.for_(op),
            Op::While(op) => self.while_(op),
            Op::Barrier { block } => self.barrier(*block),
            Op::Shuffle { how, width, value, by, to } => self.shuffle(*how, *width, [*value, *by], *to),
            Op::ReduceGroup { applies, width, value, halves, to } => self.reduce_group((*applies, *width), *value, *halves, *to),
            Op::Vote { how, pred, to } => self.vote(*how, *pred, *to),
            Op::Atomic(op) => self.atomic(op),
            Op::CopyAsync(op) => self.copy_async(op),
            Op::CommitCopies => {
                self.copies.commit(&self.mask);
                Ok(())
            }
            Op::WaitCopies { left } => {
                self.wait_copies(*left);
                Ok(())
            }
            Op::LoadMatrix { buffer, address, index, transposed, to } => {
                self.load_matrix(*buffer, [*address, *index], *transposed, *to)
            }
            Op::MultiplyTiles { tile, a, b, c, to } => self.multiply_tiles(*tile, [*a, *b, *c], *to),
        }
    }

    /// Switches off the threads for which an assertion fails.
    fn assert(&mut self, pred: Reg, site: i32, values: &[Reg]) {
        let holds = self.mask.only(self.planes.get::<u8>(self.slot(pred)));
        let failed = self.mask.without(&holds);
        let Some(thread) = failed.first() else { return };
        if self.fault.is_none_or(|(other, _)| thread < other) {
            let mut left = [0; KERNEL_VALUES];
            for (left, &value) in left.iter_mut().zip(values) {
                *left = self.integer(self.slot(value), thread as usize);
            }
            self.fault = Some((thread, Fault { status: site, values: left }));
        }
        (self.mask, self.live) = (holds, self.live.without(&failed));
    }

    fn barrier(&mut self, block: bool) -> Done {
        match block {
            true => self.check_block("a barrier of the block")?,
            false => self.check_warps("a barrier of the warp")?,
        }
        if self.who.time == LAST_TIME {
            return Err(Stop::new(None, format!("has more than {LAST_TIME} barriers in a block")));
        }
        self.who.time += 1;
        let time = self.who.time;
        if block {
            self.counters.barriers += 1;
            (self.who.block_time, self.warp_times) = (time, [time; 32]);
            return Ok(());
        }
        for warp in 0..self.program.threads / self.program.warp {
            if self.mask.warp(warp, self.program.warp) != 0 {
                self.warp_times[warp as usize] = time;
            }
        }
        Ok(())
    }

    /// Returns true if the buffer is of shared memory.
    fn space(&self, buffer: u32) -> Space {
        self.program.buffers[buffer as usize].space
    }
}
