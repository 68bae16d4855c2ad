//! Options of the passes: the numbers of the target that they need, and choices of the user.
use disc_ir::DType;
use std::{collections::HashMap, str::FromStr, sync::Arc};

/// What the compiler's user can choose about passes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Columns of a weight panel of the target: 0 leaves weights as they are.
    pub panel_columns: i64,
    /// For element types that the target multiplies in words: how many rows of a panel of them lie together.
    pub words: Vec<(DType, i64)>,
    /// Rows of a register block of the target.
    pub block_rows: i64,
    /// Whether convolutions may be computed by Winograd's method.
    pub winograd: bool,
    /// How the matrices of products are stored.
    pub weights: WeightForm,
    /// How many rewrites may be made in all: for finding the one that breaks a program.
    pub fuel: Option<u64>,
    /// Weights that are there in prepared form already, by how they are made: see [`PassCx::recipes`](crate::pass::PassCx::recipes).
    pub ready: Arc<HashMap<String, Arc<str>>>,
}

/// How the matrices of products are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightForm {
    /// As the model has them.
    #[default]
    Exact,
    Bf16,
    Int8,
    Int4,
}

impl WeightForm {
    pub const ALL: [Self; 4] = [Self::Exact, Self::Bf16, Self::Int8, Self::Int4];

    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
            Self::Int4 => "int4",
        }
    }

    /// A type that is no smaller than what is stored of one weight.
    pub(crate) fn dtype(self) -> Option<DType> {
        match self {
            Self::Exact => None,
            Self::Bf16 => Some(DType::BF16),
            Self::Int8 | Self::Int4 => Some(DType::I8),
        }
    }
}

impl FromStr for WeightForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.name() == text);
        found.ok_or_else(|| format!("weights cannot be `{text}`: expected {}", Self::ALL.map(Self::name).join(", ")))
    }
}
