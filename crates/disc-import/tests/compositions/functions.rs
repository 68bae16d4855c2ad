//! Lists the recipes of mathematical functions.
use super::{Given::Tensor as T, Recipe, recipe};
use disc_ir::Attr;

pub(super) fn functions() -> Vec<Recipe> {
    vec![
        recipe("floor_divide", &[T("N S"), T("S")], &[]),
        recipe("floor_remainder", &[T("N S"), T("S")], &[]),
        recipe("hypot", &[T("N S"), T("S")], &[]),
        recipe("log_add_exp", &[T("N S"), T("S")], &[]),
        recipe("logit", &[T("N S")], &[("epsilon", Attr::Float(0.125))]),
        recipe("logit", &[T("N")], &[]),
        recipe("next_after", &[T("N S"), T("S")], &[]),
        recipe("sinc", &[T("N S")], &[]),
        recipe("x_log_y", &[T("N S"), T("S")], &[]),
    ]
}
