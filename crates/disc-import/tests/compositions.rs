//! Emits every composition for each element type, with static, partly open and open sizes, and runs
//! it by the interpreter: no size that the constraints admit fails, and every type agrees with f64.
//! That f64 is right is shown beside torch, by the rows of tests/torch/lowering.
use disc_import::{
    compose::{self, COMPOSITIONS, Composed},
    emit::{Emitter, Operand, Sign},
};
use disc_ir::{
    Attr, Builder, DType, Dim, Function, FunctionKind, Module, Type,
    interp::{self, Tensor},
    ops::{DTypeClass, Stage},
    verify,
};

/// The sizes of the named axes, as the tests run them.
const SIZES: [i64; 4] = [0, 1, 3, 17];

/// An operand of a recipe.
#[derive(Clone, Copy)]
enum Given {
    /// A tensor: `N` and `S` are open axes, numbers are fixed.
    Tensor(&'static str),
    Number(f64),
    Absent,
}

use Given::{Absent, Number, Tensor as T};

struct Recipe {
    name: &'static str,
    operands: Vec<Given>,
    attrs: Vec<(&'static str, Attr)>,
}

fn recipe(name: &'static str, operands: &[Given], attrs: &[(&'static str, Attr)]) -> Recipe {
    Recipe { name, operands: operands.to_vec(), attrs: attrs.to_vec() }
}

fn ints(values: &[i64]) -> Attr {
    Attr::Ints(values.to_vec())
}

fn sizes(values: &[i64]) -> Attr {
    Attr::Dims(values.iter().map(|&value| Dim::constant(value)).collect())
}

/// A window over two axes.
fn window(kernel: &[i64]) -> Vec<(&'static str, Attr)> {
    vec![("kernel", ints(kernel)), ("strides", ints(&[2, 1])), ("padding", ints(&[1, 2])), ("dilations", ints(&[1, 2]))]
}

/// The form of a convolution over one axis.
fn filters(groups: i64) -> Vec<(&'static str, Attr)> {
    let edges = [("padding_low", sizes(&[2])), ("padding_high", sizes(&[3]))];
    let form = [("strides", ints(&[2])), ("dilations", ints(&[2])), ("groups", Attr::Int(groups))];
    edges.into_iter().chain(form).collect()
}

/// The windows of a pool over two axes.
fn pool(kernel: &[i64], ceil: bool) -> Vec<(&'static str, Attr)> {
    let edges = [("padding_low", ints(&[1, 1])), ("padding_high", ints(&[1, 1]))];
    let form = [("kernel", ints(kernel)), ("strides", ints(&[2, 3])), ("ceil", Attr::Bool(ceil))];
    edges.into_iter().chain(form).collect()
}

fn recipes() -> Vec<Recipe> {
    let dilated = |kernel, ceil| [pool(kernel, ceil), vec![("dilations", ints(&[1, 2]))]].concat();
    let counted = |kernel, ceil, counts| [pool(kernel, ceil), vec![("count_padding", Attr::Bool(counts))]].concat();
    let transposed = [filters(2), vec![("output_padding", sizes(&[1]))]].concat();
    let image = [vec![("sizes", sizes(&[5, 4]))], window(&[2, 2])].concat();
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
        recipe("adaptive_max_pool", &[T("N 5 6")], &[("sizes", sizes(&[2, 3]))]),
        recipe("adaptive_pool", &[T("N 5 6")], &[("sizes", sizes(&[3, 1])), ("how", Attr::Enum("mean"))]),
        recipe("adaptive_pool", &[T("N 5")], &[("sizes", sizes(&[2])), ("how", Attr::Enum("maximum"))]),
        recipe("attention", &[T("N 2 S 4"), T("N 2 3 4"), T("N 2 3 5"), T("S 3"), Absent], &[("causal", Attr::Bool(false))]),
        recipe(
            "attention",
            &[T("N 4 S 4"), T("N 2 1 S 4"), T("N 2 1 S 2"), Absent, Number(0.5)],
            &[("causal", Attr::Bool(true))],
        ),
        recipe("average_pool", &[T("N 3 4 S")], &counted(&[2, 2], false, true)),
        recipe("average_pool", &[T("N 6 6")], &counted(&[3, 2], true, false)),
        recipe("average_pool", &[T("N 6 6")], &counted(&[3, 3], true, true)),
        recipe("max_pool", &[T("N 3 S 4")], &dilated(&[2, 2], false)),
        recipe("max_pool", &[T("N 6 5")], &dilated(&[3, 2], true)),
        recipe("max_pool_places", &[T("N 6 5")], &dilated(&[2, 2], false)),
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
        recipe("columns_to_image", &[T("N 8 18")], &image),
        recipe("convolution", &[T("N 4 S"), T("6 2 2"), T("6")], &filters(2)),
        recipe("convolution", &[T("4 S"), T("6 4 1"), Absent], &filters(1)),
        recipe("image_to_columns", &[T("N 3 S 4")], &window(&[2, 3])),
        recipe("transposed_convolution", &[T("N 4 3"), T("4 3 2"), T("6")], &transposed),
        recipe("batch_norm", &[T("N 4 S"), T("4"), T("4"), T("4"), T("4"), Number(20.0)], &[]),
        recipe("batch_norm", &[T("N 4"), Absent, Absent, T("4"), T("4"), Number(20.0)], &[]),
        recipe("feature_norm", &[T("N 4 S"), T("4"), T("4"), epsilon], &[("axes", ints(&[0, 2]))]),
        recipe("group_norm", &[T("N 6 S"), T("6"), T("6"), epsilon], &[("groups", Attr::Int(3))]),
        recipe("layer_norm", &[T("N S 8"), T("8"), T("8"), epsilon], &[("axes", ints(&[-1]))]),
        recipe("layer_norm", &[T("N S"), Absent, Absent, epsilon], &[("axes", ints(&[0, 1]))]),
        recipe("rms_norm", &[T("N S 8"), T("8"), epsilon], &[("axes", ints(&[-1]))]),
        recipe("weight_norm", &[T("4 S"), T("4 1")], &[("kept", ints(&[0]))]),
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
        recipe("log_softmax", &[T("N S")], &[("axis", Attr::Int(1))]),
        recipe("safe_softmax", &[T("N S")], &[("axis", Attr::Int(-1))]),
        recipe("softmax", &[T("N S")], &[("axis", Attr::Int(0))]),
    ]
}

/// The way in which named axes are typed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Open {
    Both,
    First,
    Neither,
}

/// Emits one composition into a function. `N` and `S` have these sizes where they are not open.
fn composed(recipe: &Recipe, dtype: DType, open: Open, sizes: (i64, i64), function: &mut Function) -> Composed {
    let def = compose::find(recipe.name).unwrap();
    let body = function.body;
    let axis = |word: &str| match (word, open) {
        ("N", Open::Neither) => Dim::constant(sizes.0),
        ("S", Open::Neither | Open::First) => Dim::constant(sizes.1),
        ("N" | "S", _) => Dim::symbol(word),
        (number, _) => Dim::constant(number.parse().unwrap()),
    };
    let mut operands = Vec::new();
    for (i, given) in recipe.operands.iter().enumerate() {
        operands.push(match given {
            Absent => None,
            Number(number) => Some(Operand::Float(*number)),
            T(dims) => {
                let value = function.add_argument(body, Type::tensor(dims.split_whitespace().map(axis), dtype));
                function.set_name(value, format!("x{i}"));
                Some(Operand::Value(value))
            }
        });
    }
    let mut attrs = recipe.attrs.clone();
    if def.attrs.iter().any(|attr| attr.name == "dtype" && attr.required) {
        attrs.push(("dtype", Attr::DType(dtype)));
    }
    compose::compose(&Emitter::new(Builder::new(function), None), def, &operands, &attrs)
}

/// Builds a program of one composition.
fn program(recipe: &Recipe, dtype: DType, open: Open, sizes: (i64, i64)) -> Module {
    let mut function = Function::new("main", FunctionKind::Func);
    let results = composed(recipe, dtype, open, sizes, &mut function).unwrap_or_else(|error| panic!("{}: {error}", recipe.name));
    let declared = compose::find(recipe.name).unwrap().results.len();
    assert!(!results.is_empty() && results.len() <= declared, "{}", recipe.name);
    Builder::new(&mut function).ret(&results).unwrap();
    function.results = results.iter().map(|&value| function.ty(value).clone()).collect();
    let module = Module { functions: vec![function], weights: Vec::new(), lines: Default::default() };
    verify(&module, Stage::Tensor).unwrap_or_else(|errors| panic!("{} {dtype} {open:?}: {errors:?}\n{module}", recipe.name));
    module
}

/// Small numbers, the same for each type that has them.
fn inputs(recipe: &Recipe, dtype: DType, (n, s): (i64, i64)) -> Vec<Tensor> {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 33) as f64 / 8.0 - 2.0
    };
    let tensors = recipe.operands.iter().filter_map(|given| if let T(dims) = given { Some(*dims) } else { None });
    let made = tensors.map(|dims| {
        let size = |word| match word {
            "N" => n,
            "S" => s,
            number => str::parse(number).unwrap(),
        };
        let sizes: Vec<i64> = dims.split_whitespace().map(size).collect();
        let elements: Vec<f64> = (0..sizes.iter().product::<i64>()).map(|_| draw()).collect();
        Tensor::from_f64s(dtype, &sizes, &elements).unwrap()
    });
    made.collect()
}

fn tolerance(dtype: DType) -> f64 {
    match dtype {
        DType::BF16 => 8e-2,
        DType::F16 => 1e-2,
        _ => 1e-4,
    }
}

fn check(recipe: &Recipe, dtype: DType, open: Open, sizes: (i64, i64)) {
    let run = |dtype| interp::run(&program(recipe, dtype, open, sizes), "main", &inputs(recipe, dtype, sizes));
    let context = format!("{} {dtype} {open:?} {sizes:?}", recipe.name);
    let got = run(dtype).unwrap_or_else(|error| panic!("{context}: {error}"));
    let wanted = run(DType::F64).unwrap_or_else(|error| panic!("{context}: {error}"));
    for (got, wanted) in got.iter().zip(&wanted) {
        assert_eq!(got.dims(), wanted.dims(), "{context}");
        for (a, b) in got.to_f64s().into_iter().zip(wanted.to_f64s()) {
            let bound = tolerance(dtype) * b.abs().max(1.0);
            assert!((a - b).abs() <= bound || (a.is_nan() && b.is_nan()) || a == b, "{context}: {a} and {b}");
        }
    }
}

#[test]
fn every_composition_has_a_recipe() {
    let recipes = recipes();
    // Its types are integers; the rows of torch ops run it.
    let is_tested = |name: &str| name == "integer_matmul" || recipes.iter().any(|recipe| recipe.name == name);
    let missing: Vec<&str> = COMPOSITIONS.iter().map(|def| def.name).filter(|name| !is_tested(name)).collect();
    assert!(missing.is_empty(), "without a recipe: {missing:?}");
}

#[test]
fn compositions_take_every_size_and_float_type() {
    for recipe in recipes() {
        for dtype in DTypeClass::FLOAT.members() {
            for open in [Open::Both, Open::First, Open::Neither] {
                for n in SIZES {
                    for s in SIZES {
                        check(&recipe, dtype, open, (n, s));
                    }
                }
            }
        }
    }
}

#[test]
fn a_call_that_does_not_fit_is_an_error_that_names_the_composition() {
    let mut function = Function::new("main", FunctionKind::Func);
    let body = function.body;
    let x = function.add_argument(body, Type::tensor([Dim::symbol("N"), Dim::constant(5)], DType::F32));
    let i = function.add_argument(body, Type::tensor([Dim::symbol("N")], DType::I64));
    let emitter = Emitter::new(Builder::new(&mut function), None);
    let of = |name: &str, operands: &[Option<Operand>], attrs: &[(&'static str, Attr)]| {
        let error = compose::find(name).and_then(|def| compose::compose(&emitter, def, operands, attrs)).unwrap_err();
        error.to_string()
    };
    let (x, i) = (Some(Operand::from(x)), Some(Operand::from(i)));
    let one = std::slice::from_ref(&x);
    assert!(of("softmx", one, &[]).contains("is `softmax` meant?"));
    assert_eq!(of("silu", &[], &[]), "error[E0201]: `silu`: 0 operands, expected (x)");
    assert_eq!(
        of("silu", std::slice::from_ref(&i), &[]),
        "error[E0204]: `silu`: operand `x` has element type i64, expected float"
    );
    assert_eq!(of("silu", &[None], &[]), "error[E0201]: `silu`: operand `x` is needed");
    assert_eq!(of("silu", &[Some(1.0.into())], &[]), "error[E0201]: `silu`: operand `x` is a number, expected a tensor");
    assert!(of("gelu", one, &[("aproximate", Attr::Enum("tanh"))]).contains("is `approximate` meant?"));
    assert_eq!(of("gelu", one, &[]), "error[E0202]: `gelu`: attribute `approximate` is needed");
    let word = of("gelu", one, &[("approximate", Attr::Enum("sigmoid"))]);
    assert_eq!(word, "error[E0202]: `gelu`: attribute `approximate` must be one of none, tanh");
    assert_eq!(
        of("glu", one, &[("axis", Attr::Int(2))]),
        "error[E0206]: `glu`: (C1) axis 2 is out of range of a tensor of rank 2"
    );
    assert_eq!(of("glu", one, &[("axis", Attr::Int(1))]), "error[E0203]: `glu`: sizes 1 and 0 do not fit: expected 1 == 0");
    let inner = of("linear", &[x.clone(), i, None], &[]);
    assert!(
        inner.starts_with("error[E0204]: `dot_general`: (C4)") && inner.ends_with("note: in the composition `linear`"),
        "{inner}"
    );
    let twice = of("layer_norm", &[x, None, None, Some(1e-5.into())], &[("axes", ints(&[0, -2]))]);
    assert_eq!(twice, "error[E0206]: `layer_norm`: (C1) axis 0 is named twice");
}

/// Operands of other ranks than the recipe has, and attributes with other numbers in them.
fn malformed(recipe: &Recipe) -> Vec<Recipe> {
    const DIMS: [&str; 5] = ["", "N", "N 3", "2 N 4", "N 2 3 S"];
    let mut found = Vec::new();
    for position in 0..recipe.operands.len() {
        for dims in DIMS.map(T).into_iter().chain([Absent, Number(2.0)]) {
            let mut operands = recipe.operands.clone();
            operands[position] = dims;
            found.push(Recipe { name: recipe.name, operands, attrs: recipe.attrs.clone() });
        }
    }
    for position in 0..recipe.attrs.len() {
        let others = match &recipe.attrs[position].1 {
            Attr::Int(_) => [i64::MIN, -9, 0, 9, i64::MAX].map(Attr::Int).to_vec(),
            Attr::Ints(list) => {
                let same = [0, -3, 1 << 40].map(|value| ints(&vec![value; list.len()]));
                same.into_iter().chain([ints(&[]), ints(&[0, 1, 2, 3, 4])]).collect()
            }
            Attr::Dims(_) => vec![sizes(&[]), sizes(&[0]), sizes(&[-1, 1 << 60]), sizes(&[1, 2, 3, 4, 5])],
            _ => Vec::new(),
        };
        for other in others {
            let mut attrs = recipe.attrs.clone();
            attrs[position].1 = other;
            found.push(Recipe { name: recipe.name, operands: recipe.operands.clone(), attrs });
        }
    }
    found
}

#[test]
fn malformed_calls_are_errors_and_never_panics() {
    let mut refused = 0;
    for recipe in recipes().iter().flat_map(malformed) {
        let mut function = Function::new("main", FunctionKind::Func);
        refused += usize::from(composed(&recipe, DType::F32, Open::First, (4, 5), &mut function).is_err());
    }
    assert!(refused > 100, "{refused} calls were refused");
}

#[test]
fn stated_facts_are_given_as_texts() {
    let mut function = Function::new("main", FunctionKind::Func);
    let emitter = Emitter::new(Builder::new(&mut function), None);
    let (n, s, one) = (Dim::symbol("N"), Dim::symbol("S"), Dim::constant(1));
    emitter.require(&one, Sign::Le, &Dim::constant(2)).unwrap();
    emitter.require(&n, Sign::Ge, &one).unwrap();
    emitter.require(&n, Sign::Eq, &s).unwrap();
    emitter.require(&s, Sign::Eq, &n).unwrap();
    assert_eq!(emitter.take_stated(), ["N >= 1", "N == S"]);
    assert!(emitter.take_stated().is_empty());
}
