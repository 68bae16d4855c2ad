//! Lists the recipes of layers: activations, contractions, norms, recurrent layers.
use super::{
    Given::{Absent, Number, Tensor as T},
    Recipe, ints, recipe,
};
use disc_ir::Attr;

pub(super) fn layers() -> Vec<Recipe> {
    let epsilon = Number(1e-5);
    vec![
        recipe(
            "elu",
            &[T("N S")],
            &[("alpha", Attr::Float(1.5)), ("scale", Attr::Float(1.25)), ("input_scale", Attr::Float(0.5))],
        ),
        recipe("gelu", &[T("N S")], &[("approximate", Attr::Enum("none"))]),
        recipe("gelu", &[T("S")], &[("approximate", Attr::Enum("tanh"))]),
        recipe("glu", &[T("N 6 S")], &[("axis", Attr::Int(-2))]),
        recipe("hard_shrink", &[T("N S")], &[("limit", Attr::Float(0.5))]),
        recipe("hard_sigmoid", &[T("N S")], &[]),
        recipe("hard_swish", &[T("")], &[]),
        recipe("hard_tanh", &[T("N S"), Number(-1.0), Number(0.5)], &[]),
        recipe("leaky_relu", &[T("N S"), Number(0.1)], &[]),
        recipe("log_sigmoid", &[T("N S")], &[]),
        recipe("mish", &[T("N S")], &[]),
        recipe("prelu", &[T("N 4 S"), T("4")], &[]),
        recipe("silu", &[T("N S")], &[]),
        recipe("soft_shrink", &[T("N S")], &[("limit", Attr::Float(0.5))]),
        recipe("softplus", &[T("N S"), Number(2.0), Number(20.0)], &[]),
        recipe("threshold", &[T("N S"), Number(0.25), Number(-2.0)], &[]),
        recipe("attention", &[T("N 2 S 4"), T("N 2 3 4"), T("N 2 3 5"), T("S 3"), Absent], &[("causal", Attr::Bool(false))]),
        recipe(
            "attention",
            &[T("N 4 S 4"), T("N 2 1 S 4"), T("N 2 1 S 2"), Absent, Number(0.5)],
            &[("causal", Attr::Bool(true))],
        ),
        recipe("bilinear", &[T("N 3"), T("N S"), T("5 3 S"), T("5")], &[]),
        recipe("gemm", &[T("5"), T("N S"), T("S 5"), Number(0.5), Number(2.0)], &[]),
        recipe("linear", &[T("N S 4"), T("3 4"), T("3")], &[]),
        recipe("linear", &[T("N S"), T("S"), Absent], &[]),
        recipe("matmul", &[T("N 3 4"), T("4 S")], &[]),
        recipe("matmul", &[T("N 1 3 4"), T("S 4 2")], &[]),
        recipe("matmul", &[T("S"), T("N S 2")], &[]),
        recipe("outer", &[T("N"), T("S")], &[]),
        recipe("scaled_sum", &[T("N S"), T("N S"), Number(0.5), Number(-1.0)], &[]),
        recipe("einsum", &[T("N 3 S"), T("3 S 2"), T("2 2")], &[("equation", Attr::Str("bis,isj,jj->bj".into()))]),
        recipe("einsum", &[T("N S 4"), T("4 S")], &[("equation", Attr::Str("...sk, ks".into()))]),
        recipe("batch_norm", &[T("N 4 S"), T("4"), T("4"), T("4"), T("4"), Number(20.0)], &[]),
        recipe("batch_norm", &[T("N 4"), Absent, Absent, T("4"), T("4"), Number(20.0)], &[]),
        recipe("feature_norm", &[T("N 4 S"), T("4"), T("4"), epsilon], &[("axes", ints(&[0, 2]))]),
        recipe("group_norm", &[T("N 6 S"), T("6"), T("6"), epsilon], &[("groups", Attr::Int(3))]),
        recipe("layer_norm", &[T("N S 8"), T("8"), T("8"), epsilon], &[("axes", ints(&[-1]))]),
        recipe("layer_norm", &[T("N S"), Absent, Absent, epsilon], &[("axes", ints(&[0, 1]))]),
        recipe("rms_norm", &[T("N S 8"), T("8"), epsilon], &[("axes", ints(&[-1]))]),
        recipe("weight_norm", &[T("4 S"), T("4 1")], &[("kept", ints(&[0]))]),
        recipe(
            "recurrent_cell",
            &[T("N 3"), T("N 2"), T("N 2"), T("8 3"), T("8 2"), T("8"), T("8")],
            &[("cell", Attr::Enum("lstm"))],
        ),
        recipe("recurrent_cell", &[T("N S"), T("N 2"), Absent, T("2 S"), T("2 2")], &[("cell", Attr::Enum("rnn_relu"))]),
        recipe(
            "recurrent_layer",
            &[T("4 N 3"), T("1 2"), T("1 2"), T("8 3"), T("8 2"), T("8"), T("8")],
            &[("cell", Attr::Enum("lstm")), ("backwards", Attr::Bool(true))],
        ),
        recipe(
            "recurrent_layer",
            &[T("3 N 3"), T("N 2"), Absent, T("6 3"), T("6 2"), T("6"), T("6")],
            &[("cell", Attr::Enum("gru")), ("backwards", Attr::Bool(false))],
        ),
        recipe("log_softmax", &[T("N S")], &[("axis", Attr::Int(1))]),
        recipe("safe_softmax", &[T("N S")], &[("axis", Attr::Int(-1))]),
        recipe("softmax", &[T("N S")], &[("axis", Attr::Int(0))]),
    ]
}
