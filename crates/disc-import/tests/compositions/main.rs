//! Emits every composition for each element type, with static, partly open and open sizes, and runs
//! it by the interpreter: no size that the constraints admit fails, and every type agrees with f64.
//! That f64 is right is shown beside torch, by the rows of tests/torch/lowering.
mod elements;
mod functions;
mod images;
mod layers;
mod losses;
mod rearranging;
mod reductions;

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
    /// A tensor of i64 from 0 on, below a number.
    Places(&'static str, i64),
    /// A tensor of truth values.
    Mask(&'static str),
    Number(f64),
    Absent,
}

use Given::{Absent, Mask, Number, Places, Tensor as T};

#[derive(Clone)]
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

/// Sizes that may depend on `N` and `S`.
fn dims(values: &[&str]) -> Attr {
    Attr::Dims(values.iter().map(|value| Dim::parse(value).unwrap()).collect())
}

fn recipes() -> Vec<Recipe> {
    let families = [
        layers::layers(),
        losses::losses(),
        images::images(),
        rearranging::rearranging(),
        elements::elements(),
        reductions::reductions(),
        functions::functions(),
    ];
    families.concat()
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
    let typed = |dim: &Dim| {
        dim.substitute(&|symbol| match (symbol.name(), open) {
            ("N", Open::Neither) => Some(Dim::constant(sizes.0)),
            ("S", Open::Neither | Open::First) => Some(Dim::constant(sizes.1)),
            _ => None,
        })
    };
    let mut operands = Vec::new();
    for (i, given) in recipe.operands.iter().enumerate() {
        let (dims, dtype) = match given {
            Absent => {
                operands.push(None);
                continue;
            }
            Number(number) => {
                operands.push(Some(Operand::Float(*number)));
                continue;
            }
            T(dims) => (dims, dtype),
            Places(dims, _) => (dims, DType::I64),
            Mask(dims) => (dims, DType::I1),
        };
        let shape = dims.split_whitespace().map(|word| typed(&Dim::parse(word).unwrap()));
        let value = function.add_argument(body, Type::tensor(shape, dtype));
        function.set_name(value, format!("x{i}"));
        operands.push(Some(Operand::Value(value)));
    }
    // Sizes that only attributes name have to be those of some argument.
    function.add_argument(body, Type::tensor(["N", "S"].map(|name| typed(&Dim::symbol(name))), DType::I1));
    let mut attrs = recipe.attrs.clone();
    for (_, attr) in &mut attrs {
        match attr {
            Attr::Dim(dim) => *dim = typed(dim),
            Attr::Dims(dims) => dims.iter_mut().for_each(|dim| *dim = typed(dim)),
            _ => {}
        }
    }
    let needs_type = def.attrs.iter().any(|attr| attr.name == "dtype" && attr.required);
    if needs_type && !attrs.iter().any(|(name, _)| *name == "dtype") {
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
    let mut tensor = |dims: &str, dtype, element: &dyn Fn(f64) -> f64| {
        let value_of = |symbol: &disc_ir::dim::Symbol| Some(if symbol.name() == "N" { n } else { s });
        let sizes: Vec<i64> = dims.split_whitespace().map(|word| Dim::parse(word).unwrap().eval(&value_of).unwrap()).collect();
        let elements: Vec<f64> = (0..sizes.iter().product::<i64>()).map(|_| element(draw())).collect();
        Tensor::from_f64s(dtype, &sizes, &elements).unwrap()
    };
    let made = recipe.operands.iter().filter_map(|given| match *given {
        Absent | Number(_) => None,
        T(dims) => Some(tensor(dims, dtype, &|drawn| drawn)),
        Places(dims, below) => Some(tensor(dims, DType::I64, &|drawn| ((drawn + 2.0) * 8.0) % below as f64)),
        Mask(dims) => Some(tensor(dims, DType::I1, &|drawn| f64::from(drawn > 0.0))),
    });
    made.collect::<Vec<_>>().into_iter().chain([tensor("N S", DType::I1, &|_| 0.0)]).collect()
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
        let operands = compose::find(recipe.name).unwrap().operands;
        let takes =
            |dtype| recipe.operands.iter().zip(operands).all(|(given, def)| !matches!(given, T(_)) || def.class.contains(dtype));
        for dtype in DTypeClass::FLOAT.members().filter(|&dtype| takes(dtype)) {
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
