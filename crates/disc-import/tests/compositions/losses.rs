//! Lists the recipes of losses and of bags of embeddings.
use super::{
    Given::{Absent, Places, Tensor as T},
    Recipe, recipe,
};
use disc_ir::{Attr, Dim};

pub(super) fn losses() -> Vec<Recipe> {
    vec![
        recipe("embedding_bag", &[T("7 N"), Places("S", 7), Places("3", 1), T("S")], &bag("sum", None)),
        recipe("embedding_bag", &[T("7 N"), Places("S", 7), Places("4", 1), Absent], &bag("mean", Some(2))),
        recipe("embedding_bag", &[T("7 N"), Places("S", 7), Places("3", 1), Absent], &bag("maximum", Some(0))),
        recipe("binary_cross_entropy", &[T("N S"), T("N S"), T("S"), T("S")], &[("reduction", Attr::Enum("none"))]),
        recipe("binary_cross_entropy", &[T("N S"), T("N S"), Absent, Absent], &[("reduction", Attr::Enum("mean"))]),
        recipe("cosine_similarity", &[T("N S"), T("1 S")], &[("axis", Attr::Int(-1)), ("epsilon", Attr::Float(1e-6))]),
        recipe("cross_entropy", &[T("N 5 S"), Places("N S", 5), T("5")], &entropy("mean", 2, 0.25)),
        recipe("cross_entropy", &[T("5"), Places("", 5), Absent], &entropy("sum", -100, 0.0)),
        recipe("cross_entropy", &[T("N 5 S"), T("N 5 S"), T("5")], &entropy("mean", -100, 0.25)),
        recipe("distance_loss", &[T("N S"), T("N S")], &distance("squared", None, "mean")),
        recipe("distance_loss", &[T("N S"), T("S")], &distance("absolute", None, "sum")),
        recipe("distance_loss", &[T("N S"), T("N S")], &distance("smooth_l1", Some(0.5), "mean")),
        recipe("distance_loss", &[T("N S"), T("N S")], &distance("huber", Some(2.0), "none")),
        recipe("likelihood_loss", &[T("N 5 S"), Places("N S", 5), T("5")], &likelihood("none", 1)),
        recipe("likelihood_loss", &[T("N 5"), Places("N", 5), Absent], &likelihood("mean", -100)),
    ]
}

fn bag(mode: &'static str, padding: Option<i64>) -> Vec<(&'static str, Attr)> {
    let padding = padding.map(|row| ("padding", Attr::Dim(Dim::constant(row))));
    let form = [("mode", Attr::Enum(mode)), ("count", Attr::Dim(Dim::constant(3))), ("has_end", Attr::Bool(false))];
    form.into_iter().chain(padding).collect()
}

fn likelihood(reduction: &'static str, ignored: i64) -> Vec<(&'static str, Attr)> {
    vec![("reduction", Attr::Enum(reduction)), ("ignored", Attr::Int(ignored))]
}

fn entropy(reduction: &'static str, ignored: i64, smoothing: f64) -> Vec<(&'static str, Attr)> {
    [likelihood(reduction, ignored), vec![("smoothing", Attr::Float(smoothing))]].concat()
}

fn distance(distance: &'static str, bound: Option<f64>, reduction: &'static str) -> Vec<(&'static str, Attr)> {
    let bound = bound.map(|bound| ("bound", Attr::Float(bound)));
    [("distance", Attr::Enum(distance)), ("reduction", Attr::Enum(reduction))].into_iter().chain(bound).collect()
}
