//! Lists the recipes that read and write elements at computed positions.
use super::{
    Given::{Mask, Number, Places, Tensor as T},
    Recipe, ints, recipe,
};
use disc_ir::{Attr, DType, Dim};

pub(super) fn elements() -> Vec<Recipe> {
    vec![
        recipe("gather_at", &[T("5 N S"), Places("S", 5)], &[("axes", ints(&[0]))]),
        recipe("gather_at", &[T("N 5 S 3"), Places("4 1", 5), Places("S", 3)], &[("axes", ints(&[1, 3]))]),
        recipe("gather_elements", &[T("N 5 3"), Places("N S 3", 5)], &along(1)),
        recipe("gather_elements", &[T("6 5 N+1"), Places("4 S 1", 5)], &along(-2)),
        recipe("one_hot", &[Places("N S", 5)], &[("classes", Attr::Dim(Dim::constant(5)))]),
        recipe("take", &[T("N 5 S"), Places("S 2", 5)], &[("axis", Attr::Int(1))]),
        recipe("masked_scatter", &[T("N S"), Mask("N S"), T("N S")], &[]),
        recipe("masked_scatter", &[T("N 3"), Mask("3"), T("3 N+1")], &[]),
        recipe("reduce_elements", &[T("N 5"), Places("N S", 5), T("N S")], &reduced("add", false)),
        recipe("reduce_elements", &[T("N 5"), Places("N 3", 5), T("N 3")], &reduced("mean", true)),
        recipe("reduce_elements", &[T("N 5"), Places("N S", 5), T("N S")], &reduced("mean", false)),
        recipe("reduce_elements", &[T("N+1 5"), Places("1 3", 5), T("1 3")], &reduced("maximum", false)),
        recipe("replace_slice", &[T("N S+4"), T("N 3")], &replaced("1", "4", 1)),
        recipe("replace_slice", &[T("N S+4"), T("N S+4")], &replaced("0", "S+4", 1)),
        recipe("replace_slice", &[T("N 9"), T("N 3")], &replaced("1", "9", 3)),
        recipe("scatter_at", &[T("5 N S"), T("S"), Places("3", 5)], &written("axes", ints(&[0]), "add")),
        recipe("scatter_at", &[T("5 N 4"), T("1"), Places("S", 5), Places("S", 4)], &written("axes", ints(&[0, 2]), "overwrite")),
        recipe("scatter_elements", &[T("N 5"), Places("N S", 5), T("N S+1")], &written("axis", Attr::Int(1), "maximum")),
        recipe("scatter_elements", &[T("4 5"), Places("3 2", 5), Number(2.0)], &written("axis", Attr::Int(-1), "multiply")),
        recipe("scatter_elements", &[T("N 5"), Places("N S", 5), Number(2.0)], &written("axis", Attr::Int(1), "overwrite")),
        recipe("scatter_slices", &[T("N 5 S"), Places("3", 5), T("N 3 S")], &slices("add", "check")),
        recipe("scatter_slices", &[T("N 5 S"), Places("S", 7), Number(1.0)], &slices("minimum", "skip")),
        recipe("histogram", &[T("N S")], &histogram(-1.0, 1.5)),
        recipe("histogram", &[T("N S")], &histogram(0.0, 0.0)),
        recipe("search_sorted", &[T("0"), T("N S")], &searched(true)),
        recipe("search_sorted", &[T("S"), T("N S")], &searched(false)),
        recipe("search_sorted", &[T("N 3"), T("N S")], &searched(true)),
    ]
}

fn along(axis: i64) -> Vec<(&'static str, Attr)> {
    vec![("axis", Attr::Int(axis)), ("from_end", Attr::Bool(axis < 0))]
}

fn written(name: &'static str, at: Attr, how: &'static str) -> Vec<(&'static str, Attr)> {
    vec![(name, at), ("how", Attr::Enum(how))]
}

fn reduced(how: &'static str, include_self: bool) -> Vec<(&'static str, Attr)> {
    [written("axis", Attr::Int(-1), how), vec![("include_self", Attr::Bool(include_self))]].concat()
}

fn slices(how: &'static str, out_of_range: &'static str) -> Vec<(&'static str, Attr)> {
    let bounds = vec![("from_end", Attr::Bool(true)), ("out_of_range", Attr::Enum(out_of_range))];
    [written("axis", Attr::Int(1), how), bounds].concat()
}

fn replaced(start: &str, limit: &str, step: i64) -> Vec<(&'static str, Attr)> {
    let bounds = [("start", start), ("limit", limit)].map(|(name, bound)| (name, Attr::Dim(Dim::parse(bound).unwrap())));
    [("axis", Attr::Int(-1)), ("step", Attr::Int(step))].into_iter().chain(bounds).collect()
}

fn histogram(low: f64, high: f64) -> Vec<(&'static str, Attr)> {
    vec![("bins", Attr::Int(4)), ("low", Attr::Float(low)), ("high", Attr::Float(high))]
}

fn searched(right: bool) -> Vec<(&'static str, Attr)> {
    vec![("right", Attr::Bool(right)), ("dtype", Attr::DType(DType::I32))]
}
