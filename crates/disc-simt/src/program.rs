//! Defines the bytecode of a kernel: steps over planes of registers, with structured control flow.
//!
//! Invariants:
//! - A register holds either one value for the whole block (`varying` is false) or one for each
//!   thread; a value of several lanes is stored lane by lane, thread after thread.
//! - The operands of a step of arithmetic vary exactly if its result does, and no operand overlaps
//!   the result.
use disc_ir::{DType, Dim, Space, Symbol, fragment::Tile};
use std::sync::Arc;

/// The number of a register.
pub(crate) type Reg = u32;

/// The part of the register file that a register has.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slot {
    /// The first byte.
    pub(crate) at: u32,
    /// Elements: lanes, times threads if it varies.
    pub(crate) count: u32,
    pub(crate) lanes: u32,
    pub(crate) varying: bool,
    pub(crate) dtype: Option<DType>,
}

impl Slot {
    pub(crate) fn dtype(self) -> DType {
        self.dtype.expect("registers are placed before they are used")
    }

    pub(crate) fn bytes(self) -> usize {
        self.count as usize * self.dtype().size()
    }

    /// Returns the slot as bytes.
    pub(crate) fn as_bytes(self) -> Self {
        Self { count: self.bytes() as u32, dtype: Some(DType::U8), ..self }
    }
}

/// A compiled kernel.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: Arc<str>,
    pub(crate) threads: u32,
    pub(crate) warp: u32,
    pub(crate) registers: Vec<Slot>,
    pub(crate) register_bytes: usize,
    /// The registers of the parameters.
    pub(crate) parameters: Vec<Reg>,
    /// The symbols whose values follow the parameters among the words of a launch.
    pub(crate) symbols: Vec<Symbol>,
    /// Registers that are written once for a launch.
    pub(crate) constants: Vec<(Reg, Box<[u8]>)>,
    pub(crate) dims: Vec<(Reg, Dim)>,
    pub(crate) places: Vec<(Reg, Place)>,
    /// Planes of registers that are written once for a launch: the plane, then its register.
    pub(crate) planes: Vec<(Reg, Reg)>,
    pub(crate) buffers: Vec<Buffer>,
    /// Memory of the block and of each thread: a register for the address, and the buffer.
    pub(crate) memory: Vec<(Reg, BufferId)>,
    pub(crate) body: Code,
    /// The text of the ops.
    pub(crate) lines: Vec<Box<str>>,
}

/// A number that threads ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Block,
    Thread,
    Warp,
    Lane,
    Grid,
}

/// The number of a [`Buffer`].
pub(crate) type BufferId = u32;

/// The type and the origin of buffers that a value of the kernel can be.
#[derive(Clone, Debug)]
pub(crate) struct Buffer {
    /// The name in messages: of the parameter, of the shared memory.
    pub(crate) name: Arc<str>,
    pub(crate) space: Space,
    pub(crate) dtype: DType,
    pub(crate) dims: Vec<Dim>,
    /// The parameter that it is a part of, if that is known.
    pub(crate) parameter: Option<u32>,
}

pub(crate) type Code = Vec<Step>;

/// One step, with the op that it comes from.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) op: Op,
    pub(crate) line: u32,
    /// Elements that it computes for each thread.
    pub(crate) work: u32,
}

#[derive(Debug)]
pub(crate) enum Op {
    Alu(Alu),
    Load(Access),
    Store(Access),
    View {
        from: BufferId,
        to: BufferId,
        address: Reg,
        index: Reg,
        result: Reg,
    },
    Assert {
        pred: Reg,
        site: i32,
        values: Box<[Reg]>,
    },
    If(Box<If>),
    For(Box<For>),
    While(Box<While>),
    Barrier {
        block: bool,
    },
    Shuffle {
        how: Shuffle,
        width: u32,
        value: Reg,
        by: Reg,
        to: Reg,
    },
    /// `halves` hold the operands of a step.
    ReduceGroup {
        applies: Binary,
        width: u32,
        value: Reg,
        halves: [Reg; 2],
        to: Reg,
    },
    Vote {
        how: Vote,
        pred: Reg,
        to: Reg,
    },
    Atomic(Box<Atomic>),
    CopyAsync(Box<CopyAsync>),
    CommitCopies,
    WaitCopies {
        left: u32,
    },
    LoadMatrix {
        buffer: BufferId,
        address: Reg,
        index: Reg,
        transposed: bool,
        to: Reg,
    },
    MultiplyTiles {
        tile: Tile,
        a: Reg,
        b: Reg,
        c: Reg,
        to: Reg,
    },
}

/// A load or a store. `value` is the result or the operand.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    pub(crate) buffer: BufferId,
    pub(crate) address: Reg,
    pub(crate) index: Reg,
    pub(crate) mask: Option<Reg>,
    pub(crate) value: Reg,
    pub(crate) align: Option<u32>,
    pub(crate) readonly: bool,
}

#[derive(Debug)]
pub(crate) struct Atomic {
    pub(crate) how: AtomicHow,
    pub(crate) buffer: BufferId,
    pub(crate) address: Reg,
    pub(crate) index: Reg,
    pub(crate) value: Reg,
    pub(crate) expected: Option<Reg>,
    pub(crate) to: Reg,
}

#[derive(Debug)]
pub(crate) struct CopyAsync {
    pub(crate) to: BufferId,
    pub(crate) to_address: Reg,
    pub(crate) to_index: Reg,
    pub(crate) from: BufferId,
    pub(crate) from_address: Reg,
    pub(crate) from_index: Reg,
    /// False in the threads that copy zeros.
    pub(crate) exists: Option<Reg>,
    pub(crate) elements: u32,
}

#[derive(Debug)]
pub(crate) struct If {
    pub(crate) pred: Reg,
    pub(crate) then: Code,
    pub(crate) otherwise: Code,
    /// The result, then the values of both regions.
    pub(crate) results: Vec<[Reg; 3]>,
}

/// A value that a loop carries along. Its register is the argument of the region, and the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Carried {
    pub(crate) register: Reg,
    pub(crate) init: Reg,
    pub(crate) next: Reg,
}

#[derive(Debug)]
pub(crate) struct For {
    pub(crate) lower: Reg,
    pub(crate) upper: Reg,
    pub(crate) step: Reg,
    pub(crate) index: Reg,
    pub(crate) carried: Vec<Carried>,
    pub(crate) body: Code,
}

#[derive(Debug)]
pub(crate) struct While {
    pub(crate) cond: Code,
    pub(crate) goes_on: Reg,
    pub(crate) carried: Vec<Carried>,
    pub(crate) body: Code,
}

/// Arithmetic on registers: the result is the last one.
#[derive(Clone, Debug)]
pub(crate) enum Alu {
    Unary(Unary, Reg, Reg),
    Binary(Binary, [Reg; 2], Reg),
    Compare(Direction, [Reg; 2], Reg),
    Select([Reg; 3], Reg),
    /// Least, value, greatest.
    Clamp([Reg; 3], Reg),
    Fma([Reg; 3], Reg),
    Scale([Reg; 2], Reg),
    Convert(Reg, Reg),
    /// The same bytes.
    Bits(Reg, Reg),
    /// A value of the block, for each thread.
    Expand(Reg, Reg),
    /// Lane `i` of the result is a lane of an operand.
    Permute(Box<[(Reg, u32)]>, Reg),
    Pick([Reg; 3], Reg),
    LaneMask(Reg, Reg),
    ReduceLanes(Binary, Reg, Reg),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Abs,
    Ceil,
    CountLeadingZeros,
    Floor,
    IsFinite,
    IsInf,
    IsNan,
    Negate,
    Not,
    Popcnt,
    RoundNearestAfz,
    RoundNearestEven,
    Rsqrt,
    Sign,
    Sqrt,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    And,
    Divide,
    Maximum,
    Minimum,
    Multiply,
    Or,
    Power,
    Remainder,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Subtract,
    Xor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shuffle {
    Xor,
    Up,
    Down,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vote {
    Any,
    All,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicHow {
    Add,
    Max,
    Min,
    Exchange,
    Compare,
}
