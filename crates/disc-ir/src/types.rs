//! Represents types of values: tensors of symbolic shape, vectors of a kernel, and buffers.
//!
//! A type does not depend on the place of a value or on its computation.
//!
//! Invariants:
//! - Rank is static, sizes are [`Dim`] expressions, each >= 0.
//! - A tensor or buffer is dense and row-major; strided data exists only at a kernel's address
//!   arithmetic.
//! - A scalar of a kernel is a vector of one lane.
use crate::dim::Dim;
use std::fmt;

/// Element types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    F16,
    BF16,
    F32,
    F64,
    /// A truth value; one byte, 0 or 1, in memory.
    I1,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

impl DType {
    /// Returns true if every value of `narrow` is one of this type.
    pub fn holds(self, narrow: DType) -> bool {
        let value_bits = |dtype: DType| match dtype {
            DType::I1 => 1,
            _ if dtype.is_signed_integer() => dtype.bits() - 1,
            _ => dtype.bits(),
        };
        // Bits of an integer that are exact in a float type.
        let precision = match self {
            DType::F16 => 11,
            DType::BF16 => 8,
            DType::F32 => 24,
            _ => 53,
        };
        match (self.is_float(), narrow.is_float()) {
            _ if self == narrow => true,
            (true, true) => self == DType::F64 || (self == DType::F32 && narrow != DType::F64),
            (true, false) => value_bits(narrow) <= precision,
            (false, true) => false,
            (false, false) => {
                let signs_fit = self.is_signed_integer() || !narrow.is_signed_integer();
                self != DType::I1 && value_bits(narrow) <= value_bits(self) && signs_fit
            }
        }
    }

    pub const ALL: [DType; 13] = [
        DType::F16,
        DType::BF16,
        DType::F32,
        DType::F64,
        DType::I1,
        DType::I8,
        DType::I16,
        DType::I32,
        DType::I64,
        DType::U8,
        DType::U16,
        DType::U32,
        DType::U64,
    ];

    /// The name in text, such as `f32`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::F32 => "f32",
            DType::F64 => "f64",
            DType::I1 => "i1",
            DType::I8 => "i8",
            DType::I16 => "i16",
            DType::I32 => "i32",
            DType::I64 => "i64",
            DType::U8 => "u8",
            DType::U16 => "u16",
            DType::U32 => "u32",
            DType::U64 => "u64",
        }
    }

    /// The element type of a name; `ui8` and its like are read too, as StableHLO writes them.
    pub fn from_name(name: &str) -> Option<DType> {
        let name = name.strip_prefix("ui").map(|width| format!("u{width}")).unwrap_or_else(|| name.to_owned());
        DType::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Bytes of one element in memory.
    pub fn size(self) -> usize {
        match self {
            DType::I1 | DType::I8 | DType::U8 => 1,
            DType::F16 | DType::BF16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 => 4,
            DType::F64 | DType::I64 | DType::U64 => 8,
        }
    }

    /// Bits of one element in memory.
    pub fn bits(self) -> u32 {
        8 * self.size() as u32
    }

    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::BF16 | DType::F32 | DType::F64)
    }

    pub fn is_signed_integer(self) -> bool {
        matches!(self, DType::I8 | DType::I16 | DType::I32 | DType::I64)
    }

    pub fn is_unsigned_integer(self) -> bool {
        matches!(self, DType::U8 | DType::U16 | DType::U32 | DType::U64)
    }

    /// Returns true if the type is signed or unsigned, and not a truth value.
    pub fn is_integer(self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A dense tensor: sizes and element type. Rank 0 is a scalar.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorType {
    pub dims: Vec<Dim>,
    pub dtype: DType,
}

impl TensorType {
    pub fn new(dims: impl IntoIterator<Item = Dim>, dtype: DType) -> Self {
        Self { dims: dims.into_iter().collect(), dtype }
    }

    pub fn scalar(dtype: DType) -> Self {
        Self { dims: Vec::new(), dtype }
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// The number of elements.
    pub fn element_count(&self) -> Dim {
        Dim::product(self.dims.iter().cloned())
    }

    /// The same shape with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        Self { dims: self.dims.clone(), dtype }
    }

    /// Returns the sizes, if all are constant.
    pub fn static_dims(&self) -> Option<Vec<i64>> {
        self.dims.iter().map(Dim::as_const).collect()
    }
}

/// The memory of a buffer. `Global` is the one that the text leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Memory of the device, seen by every task.
    Global,
    /// Private to one task (a CPU thread, a GPU block), of the size that a launch asks for.
    Task,
    /// On the chip, shared by the threads of one block of a grid.
    Shared,
}

impl Space {
    pub const ALL: [Self; 3] = [Self::Global, Self::Task, Self::Shared];

    pub fn name(self) -> &'static str {
        match self {
            Self::Global => "global",
            Self::Task => "task",
            Self::Shared => "shared",
        }
    }
}

/// The type of a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    Tensor(TensorType),
    /// A SIMD value of a kernel or a host program, `vector<8xf32>`; one lane is a scalar and prints
    /// as `f32`.
    Vector {
        lanes: u32,
        dtype: DType,
    },
    /// Memory that holds a tensor, `buffer<[B]x768xf32>`; in another space than `Global`,
    /// `buffer<8xf32, task>`.
    Buffer {
        tensor: TensorType,
        space: Space,
    },
}

impl Type {
    pub fn tensor(dims: impl IntoIterator<Item = Dim>, dtype: DType) -> Self {
        Type::Tensor(TensorType::new(dims, dtype))
    }

    /// A scalar of a kernel or host program.
    pub fn scalar(dtype: DType) -> Self {
        Type::Vector { lanes: 1, dtype }
    }

    pub fn as_tensor(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(tensor) => Some(tensor),
            Type::Vector { .. } | Type::Buffer { .. } => None,
        }
    }

    /// Returns the shape and element type of a tensor, or of a buffer's contents.
    pub fn shaped(&self) -> Option<&TensorType> {
        match self {
            Type::Tensor(tensor) | Type::Buffer { tensor, .. } => Some(tensor),
            Type::Vector { .. } => None,
        }
    }

    pub fn dtype(&self) -> DType {
        match self {
            Type::Tensor(tensor) | Type::Buffer { tensor, .. } => tensor.dtype,
            Type::Vector { dtype, .. } => *dtype,
        }
    }

    /// Returns the same form with another element type.
    pub fn with_dtype(&self, dtype: DType) -> Self {
        match self {
            Type::Tensor(tensor) => Type::Tensor(tensor.with_dtype(dtype)),
            Type::Vector { lanes, .. } => Type::Vector { lanes: *lanes, dtype },
            Type::Buffer { tensor, space } => Type::Buffer { tensor: tensor.with_dtype(dtype), space: *space },
        }
    }
}

/// Writes one size: a constant plainly, an expression in brackets.
fn write_dim(f: &mut fmt::Formatter<'_>, dim: &Dim) -> fmt::Result {
    match dim.as_const() {
        Some(size) => write!(f, "{size}x"),
        None => write!(f, "[{dim}]x"),
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dims.iter().try_for_each(|dim| write_dim(f, dim))?;
        write!(f, "{}", self.dtype)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Tensor(tensor) => write!(f, "tensor<{tensor}>"),
            Type::Vector { lanes: 1, dtype } => write!(f, "{dtype}"),
            Type::Vector { lanes, dtype } => write!(f, "vector<{lanes}x{dtype}>"),
            Type::Buffer { tensor, space: Space::Global } => write!(f, "buffer<{tensor}>"),
            Type::Buffer { tensor, space } => write!(f, "buffer<{tensor}, {}>", space.name()),
        }
    }
}
