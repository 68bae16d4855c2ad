//! Lists the recipes of reductions, scans and orders.
use super::{Given::Tensor as T, Recipe, ints, recipe};
use disc_ir::{Attr, Dim};

pub(super) fn reductions() -> Vec<Recipe> {
    vec![
        recipe(
            "kth_least",
            &[T("N 20")],
            &[("axis", Attr::Int(-1)), ("k", Attr::Dim(Dim::constant(17))), ("keep", Attr::Bool(false))],
        ),
        recipe(
            "kth_least",
            &[T("4 N")],
            &[("axis", Attr::Int(0)), ("k", Attr::Dim(Dim::constant(2))), ("keep", Attr::Bool(true))],
        ),
        recipe("median", &[T("N 5")], &[("axis", Attr::Int(1)), ("keep", Attr::Bool(true))]),
        recipe("median", &[T("4 S")], &[("axis", Attr::Int(0)), ("keep", Attr::Bool(false))]),
        recipe("sort_places", &[T("N S")], &[("axis", Attr::Int(0)), ("descending", Attr::Bool(true))]),
        recipe(
            "top_k_of",
            &[T("4 N")],
            &[("axis", Attr::Int(0)), ("k", Attr::Dim(Dim::constant(2))), ("largest", Attr::Bool(false))],
        ),
        recipe(
            "arg_extreme",
            &[T("N 4")],
            &[("axis", Attr::Int(1)), ("which", Attr::Enum("minimum")), ("keep", Attr::Bool(false))],
        ),
        recipe(
            "arg_reduce",
            &[T("4 S")],
            &[("axis", Attr::Int(0)), ("which", Attr::Enum("maximum")), ("keep", Attr::Bool(true))],
        ),
        recipe("log_sum_exp", &[T("N S")], &[("axes", ints(&[0, 1])), ("keep", Attr::Bool(false))]),
        recipe("lp_norm", &[T("N S")], &[("order", Attr::Float(2.0)), ("axes", ints(&[1])), ("keep", Attr::Bool(true))]),
        recipe("lp_norm", &[T("N S")], &[("order", Attr::Float(3.0)), ("axes", ints(&[0])), ("keep", Attr::Bool(false))]),
        recipe("lp_norm", &[T("N S")], &[("order", Attr::Float(0.0)), ("axes", ints(&[0])), ("keep", Attr::Bool(false))]),
        recipe(
            "lp_norm",
            &[T("N S")],
            &[("order", Attr::Float(f64::INFINITY)), ("axes", ints(&[-1])), ("keep", Attr::Bool(false))],
        ),
        recipe("mean", &[T("N S")], &[("axes", ints(&[0])), ("keep", Attr::Bool(false))]),
        recipe("variance", &[T("N S")], &[("axes", ints(&[1])), ("correction", Attr::Float(1.0)), ("keep", Attr::Bool(true))]),
        recipe("difference", &[T("N S"), T("2 S")], &[("axis", Attr::Int(0)), ("times", Attr::Int(2))]),
        recipe("running_extreme", &[T("N S")], &[("axis", Attr::Int(1)), ("which", Attr::Enum("minimum"))]),
        recipe("running_log_sum_exp", &[T("N S")], &[("axis", Attr::Int(0))]),
        recipe("running_total", &[T("N S")], &[("axis", Attr::Int(0)), ("how", Attr::Enum("add"))]),
        recipe("running_total", &[T("N S")], &[("axis", Attr::Int(1)), ("how", Attr::Enum("multiply"))]),
    ]
}
