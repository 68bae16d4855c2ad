//! Options of the passes: the cost model of the target, and choices of the user.
use crate::analysis::cost_model::{CostModel, NeutralModel};
use disc_ir::DType;
use std::{collections::HashMap, str::FromStr, sync::Arc};

/// The settings that passes read.
#[derive(Clone, Debug)]
pub struct Options {
    /// The numbers of the target.
    pub model: Arc<dyn CostModel>,
    /// Allows Winograd's method for convolutions.
    pub winograd: bool,
    /// The storage form of matmul weights.
    pub weights: WeightForm,
    /// The form of the rows that matrices of int8 weights are multiplied by.
    pub activations: ActivationForm,
    /// The number of rewrites that may be made in all, to bisect a miscompilation.
    pub fuel: Option<u64>,
    /// Weights that exist in prepared form already, by recipe; see
    /// [`PassCx::recipes`](crate::pass::PassCx::recipes).
    pub ready: Arc<HashMap<String, Arc<str>>>,
}

impl Default for Options {
    fn default() -> Self {
        Self::of(NeutralModel::default())
    }
}

impl Options {
    /// Makes the options that a user does not change, for the target of a model.
    pub fn of(model: impl CostModel + 'static) -> Self {
        let (weights, activations) = (WeightForm::Exact, ActivationForm::Exact);
        Self { model: Arc::new(model), winograd: false, weights, activations, fuel: None, ready: Arc::new(HashMap::new()) }
    }
}

/// The storage form of matmul weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightForm {
    /// As in the model.
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

    /// A type at least as wide as the stored form of one weight.
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

/// The form of the rows that matrices of int8 weights are multiplied by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ActivationForm {
    /// As in the model.
    #[default]
    Exact,
    /// Integers of 8 bits with a scale for each row, made in the call.
    Int8,
}

impl ActivationForm {
    pub const ALL: [Self; 2] = [Self::Exact, Self::Int8];

    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Int8 => "int8",
        }
    }
}

impl FromStr for ActivationForm {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|form| form.name() == text);
        found.ok_or_else(|| format!("activations cannot be `{text}`: expected {}", Self::ALL.map(Self::name).join(", ")))
    }
}
