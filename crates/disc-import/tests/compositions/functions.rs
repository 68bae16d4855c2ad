//! Lists the recipes of mathematical functions.
use super::{Given::Tensor as T, Recipe, ints, recipe};
use disc_ir::{Attr, Dim};

pub(super) fn functions() -> Vec<Recipe> {
    vec![
        recipe("distances", &[T("N S 3"), T("N 2 3")], &[("order", Attr::Float(2.0))]),
        recipe("distances", &[T("N 3"), T("S 3")], &[("order", Attr::Float(f64::INFINITY))]),
        recipe("distances", &[T("N 3"), T("S 3")], &[("order", Attr::Float(0.0))]),
        recipe("pair_distances", &[T("N 3")], &[("order", Attr::Float(1.0))]),
        recipe("pair_distances", &[T("5 S")], &[("order", Attr::Float(3.0))]),
        recipe("floor_divide", &[T("N S"), T("S")], &[]),
        recipe("floor_remainder", &[T("N S"), T("S")], &[]),
        recipe("hypot", &[T("N S"), T("S")], &[]),
        recipe("log_add_exp", &[T("N S"), T("S")], &[]),
        recipe("logit", &[T("N S")], &[("epsilon", Attr::Float(0.125))]),
        recipe("logit", &[T("N")], &[]),
        recipe("next_after", &[T("N S"), T("S")], &[]),
        recipe("sinc", &[T("N S")], &[]),
        recipe("x_log_y", &[T("N S"), T("S")], &[]),
        recipe("fourier", &[T("4 N S+1"), T("4 N S+1")], &fourier(&[0, -1], "root", ("forward", false))),
        recipe("fourier", &[T("N S+1"), T("N S+1")], &fourier(&[1], "none", ("forward", true))),
        recipe("fourier_of_real", &[T("N 3 S+1")], &fourier(&[1, 2], "none", ("onesided", true))),
        recipe("fourier_of_real", &[T("N S+1")], &fourier(&[1], "count", ("onesided", false))),
        recipe(
            "fourier_to_real",
            &[T("N 3 4"), T("N 3 4")],
            &[("axes", ints(&[1, 2])), ("normalization", Attr::Enum("count")), ("size", Attr::Dim(Dim::constant(6)))],
        ),
        recipe("angle", &[T("N S")], &[]),
        recipe("copy_sign", &[T("N S"), T("S")], &[]),
        recipe("heaviside", &[T("N S"), T("S")], &[]),
        recipe("sign_bit", &[T("N S")], &[]),
        recipe("polygamma", &[T("N S")], &[("n", Attr::Int(0))]),
        recipe("polygamma", &[T("N S")], &[("n", Attr::Int(1))]),
        recipe("zeta", &[T("N S"), T("S")], &[]),
    ]
}

fn fourier(axes: &[i64], normalization: &'static str, (name, truth): (&'static str, bool)) -> Vec<(&'static str, Attr)> {
    vec![("axes", ints(axes)), ("normalization", Attr::Enum(normalization)), (name, Attr::Bool(truth))]
}
