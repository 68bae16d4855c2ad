//! Lists the recipes that rearrange elements.
use super::{
    Given::{Number, Tensor as T},
    Recipe, dims, ints, recipe,
};
use disc_ir::{Attr, Dim};

pub(super) fn rearranging() -> Vec<Recipe> {
    vec![
        recipe("depth_to_space", &[T("N 8 S 3")], &blocks("place_first")),
        recipe("depth_to_space", &[T("4 S N")], &blocks("feature_first")),
        recipe("diagonal", &[T("N S 5")], &[("offset", Attr::Int(1)), ("axes", ints(&[1, 0]))]),
        recipe("diagonal", &[T("N S")], &[("offset", Attr::Int(-2)), ("axes", ints(&[0, 1]))]),
        recipe("repeat_elements", &[T("N S")], &[("axis", Attr::Int(1)), ("times", Attr::Dim(Dim::symbol("N")))]),
        recipe("roll", &[T("N S")], &[("shifts", dims(&["-2", "N"])), ("axes", ints(&[0, 1]))]),
        recipe("roll", &[T("N S")], &[("shifts", dims(&["3"])), ("axes", ints(&[]))]),
        recipe("set_diagonal", &[T("6 N 5"), T("N 4")], &[("offset", Attr::Int(-1)), ("axes", ints(&[2, 0]))]),
        recipe(
            "sliding_windows",
            &[T("N S+3")],
            &[("axis", Attr::Int(1)), ("size", Attr::Dim(Dim::constant(3))), ("step", Attr::Dim(Dim::constant(2)))],
        ),
        recipe("space_to_depth", &[T("N 2*S 4")], &blocks("feature_first")),
        recipe("space_to_depth", &[T("N 3 2*S 4")], &blocks("place_first")),
        recipe("tile", &[T("N S")], &[("repeats", dims(&["2", "S", "3"]))]),
        recipe("triangle", &[T("N S"), Number(1.0)], &[("part", Attr::Enum("lower"))]),
        recipe("triangle", &[T("3 N S"), Number(-1.0)], &[("part", Attr::Enum("upper"))]),
    ]
}

fn blocks(order: &'static str) -> Vec<(&'static str, Attr)> {
    vec![("factor", Attr::Dim(Dim::constant(2))), ("order", Attr::Enum(order))]
}
