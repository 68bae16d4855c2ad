//! The builder of imported programs, as a reader of a format fills it.
use disc_import::program::{Assumption, DimChoice, Imported, Input, Node, ProgramBuilder, Size, open_dims};
use disc_ir::{Code, DType, Diagnostic, Dim, Literal, OpKind, Value, dim::Fact};

const NODE: Node<'_> = Node { number: 3, name: "/layer/Add_0", op: "Add" };

fn dim(name: &str) -> Dim {
    Dim::symbol(name)
}

fn builder() -> ProgramBuilder {
    ProgramBuilder::new("m.onnx", "main")
}

fn bytes(values: &[f32]) -> bytes::Bytes {
    values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>().into()
}

/// `input:0 + w`, with `w` used twice.
fn scaled() -> Imported {
    let mut program = builder();
    let x = program.input("input:0", DType::F32, vec![dim("N"), Dim::from(2)]).unwrap();
    program.weight("/w/1", DType::F32, &[2], bytes(&[1.0, 2.0])).unwrap();
    program.weight("unread", DType::F32, &[1], bytes(&[1.0])).unwrap();
    let w = program.weight_value("/w/1").unwrap();
    assert_eq!(program.weight_value("/w/1").unwrap(), w);
    let sum = program
        .node(NODE, |e| {
            let wide = e.expand(w, &[dim("N"), Dim::from(2)])?;
            e.op(OpKind::Add, &[x, wide])
        })
        .unwrap();
    program.finish(&[("sum:0".into(), sum), ("again".into(), sum)]).unwrap()
}

#[test]
fn the_ir_has_words_and_the_signature_the_names_of_the_file() {
    let imported = scaled();
    let text = imported.module.to_string();
    assert!(text.contains("func @main(%input_0: tensor<[N]x2xf32>)"), "{text}");
    assert!(text.contains("weight @\"/w/1\" : tensor<2xf32>") && !text.contains("unread"), "{text}");
    assert_eq!(text.matches("= weight").count(), 1, "{text}");
    assert_eq!(disc_ir::parse(&text).unwrap().to_string(), text);
    assert_eq!(imported.signature.inputs, ["input:0"]);
    assert_eq!(imported.signature.outputs, ["sum:0", "again"]);
    let weights: Vec<&str> = imported.weights.iter().map(|weight| &*weight.name).collect();
    assert_eq!((weights, imported.weights[0].bytes.len()), (vec!["/w/1"], 8));
}

#[test]
fn ops_have_the_node_as_their_origin() {
    let imported = scaled();
    let function = &imported.module.functions[0];
    let add = function.walk(function.body).into_iter().find(|&inst| function.kind_of(inst) == OpKind::Add).unwrap();
    let line = imported.module.lines.get(function.inst(add).origin.unwrap()).unwrap();
    assert_eq!(line.to_string(), "m.onnx:3 /layer/Add_0");
}

fn add(program: &mut ProgramBuilder, node: Node<'_>, operands: [Value; 2]) -> Result<Value, Diagnostic> {
    program.node(node, |e| e.op(OpKind::Add, &operands))
}

#[test]
fn an_error_names_the_node_as_the_file_does() {
    let mut program = builder();
    let x = program.input("x", DType::F32, vec![Dim::from(2)]).unwrap();
    let y = program.input("y", DType::F32, vec![Dim::from(3)]).unwrap();
    let error = add(&mut program, NODE, [x, y]).unwrap_err();
    assert_eq!((error.code, error.op.as_deref()), (Code::E1004, Some("Add")));
    assert!(error.notes.iter().any(|note| note.contains("node 3 of the file, `/layer/Add_0`")), "{error}");
    // The next node works.
    add(&mut program, NODE, [x, x]).unwrap();
}

#[test]
fn assumptions_are_facts_that_are_listed_with_their_node() {
    let mut program = builder();
    let x = program.input("x", DType::F32, vec![dim("N")]).unwrap();
    let y = program.input("y", DType::F32, vec![dim("M")]).unwrap();
    assert!(add(&mut program, NODE, [x, y]).is_err());
    for _ in 0..2 {
        program.assume(Fact::Equal(dim("M"), dim("N")), NODE).unwrap();
    }
    let sum = add(&mut program, NODE, [x, y]).unwrap();
    let fact = |text| Fact::parse(text).unwrap();
    program.assume(fact("N >= 5"), NODE).unwrap();
    assert_eq!(program.fact(fact("N <= 4"), NODE).unwrap_err().code, Code::E1006);
    let imported = program.finish(&[("sum".into(), sum)]).unwrap();
    let node = |fact: &str| Assumption { fact: fact.into(), node: NODE.name.into(), op: "Add".into() };
    assert_eq!(imported.assumed, [node("M == N"), node("5 <= N")]);
    assert!(imported.module.to_string().contains("M == N"));
}

#[test]
fn weights_have_exactly_the_bytes_of_their_type() {
    let mut program = builder();
    let mut refused = |sizes: &[i64], count| program.weight("w", DType::F32, sizes, vec![0; count].into()).unwrap_err();
    for (sizes, count) in [(&[2][..], 7), (&[2], 9), (&[-1], 4), (&[i64::MAX, i64::MAX, 4], 0), (&[], 0)] {
        assert_eq!(refused(sizes, count).code, Code::E1005, "{sizes:?}");
    }
    assert_eq!(refused(&[1; 17], 4).code, Code::E1002);
    assert_eq!(program.weight_value("w").unwrap_err().code, Code::E1005);
    program.weight("w", DType::F32, &[0, 3], bytes::Bytes::new()).unwrap();
    assert_eq!(program.weight("w", DType::F32, &[0], bytes::Bytes::new()).unwrap_err().code, Code::E1004);
}

#[test]
fn names_ranks_and_literals_have_limits_that_errors_name() {
    let mut program = builder();
    let long = "x".repeat(513);
    let too_long = [
        program.input(&long, DType::F32, vec![]).unwrap_err(),
        program.weight(&long, DType::F32, &[], bytes(&[0.0])).unwrap_err(),
        program.node(Node { name: &long, ..NODE }, |_| Ok(())).unwrap_err(),
    ];
    assert!(too_long.iter().all(|error| error.code == Code::E1002 && error.message.contains("512")), "{too_long:?}");
    let deep = program.input("deep", DType::F32, vec![dim("N"); 17]).unwrap_err();
    assert!(deep.code == Code::E1002 && deep.message.contains("axes of a tensor: 16"), "{deep}");
    program.input(&long[..512], DType::F32, vec![dim("N"); 16]).unwrap();
    assert_eq!(program.input(&long[..512], DType::F32, vec![]).unwrap_err().code, Code::E1004);
    let dense = |count: usize| Literal::dense(DType::U8, vec![7; count]);
    assert_eq!(program.literal(dense(3), &[4]).unwrap_err().code, Code::E1004);
    program.literal(dense(2), &[2]).unwrap();
    let error = program.literal(dense(64 << 20), &[64 << 20]).unwrap_err();
    assert!(error.code == Code::E1002 && error.message.contains("bytes of literals"), "{error}");
}

#[test]
fn nodes_have_a_limit() {
    let mut program = builder();
    for _ in 0..500_000 {
        program.node(NODE, |_| Ok(())).unwrap();
    }
    let error = program.node(NODE, |_| Ok(())).unwrap_err();
    assert!(error.code == Code::E1002 && error.message.contains("nodes: 500000"), "{error}");
}

#[test]
fn outputs_have_different_names() {
    let mut program = builder();
    let x = program.input("x", DType::F32, vec![]).unwrap();
    let error = program.finish(&[("y".into(), x), ("y".into(), x)]).unwrap_err();
    assert_eq!(error[0].code, Code::E1004);
}

fn choice(input: &str, axis: usize, size: Size) -> DimChoice {
    DimChoice { input: Input::Named(input.into()), axis, size }
}

/// `x + y` over `[A]x[B]`, whose sizes are equal by a fact.
fn sum_of_two() -> Imported {
    let mut program = builder();
    let x = program.input("x:0", DType::F32, vec![dim("A"), dim("N"), Dim::from(3)]).unwrap();
    let y = program.input("y", DType::F32, vec![dim("B"), dim("N"), Dim::from(3)]).unwrap();
    program.assume(Fact::Equal(dim("A"), dim("B")), NODE).unwrap();
    let sum = add(&mut program, NODE, [x, y]).unwrap();
    program.finish(&[("sum".into(), sum)]).unwrap()
}

#[test]
fn chosen_sizes_replace_those_of_the_file() {
    let named = |name: &str| Size::Named(name.into());
    let mut imported = sum_of_two();
    // `N` is a name of the file too, for another size.
    open_dims(&mut imported, &[choice("x:0", 0, named("N")), choice("y", 0, Size::Fixed(4))], &[]).unwrap();
    let text = imported.module.to_string();
    assert!(text.contains("%x_0: tensor<[N]x[") && text.contains("%y: tensor<4x["), "{text}");
    assert!(text.contains("where N == 4"), "{text}");
    assert_eq!(disc_ir::parse(&text).unwrap().to_string(), text);
    for (wrong, words) in [
        (choice("z", 0, named("N")), "no input `z`; the model has: x:0, y"),
        (choice("x:0", 3, named("N")), "has 3 axes"),
        (choice("x:0", 2, named("C")), "has the size 3 in the model, not C"),
        (choice("x:0", 0, Size::Fixed(-1)), "cannot have the size -1"),
        (choice("x:0", 0, named("a b")), "cannot be called `a b`"),
    ] {
        let error = open_dims(&mut sum_of_two(), &[wrong], &[]).unwrap_err();
        assert!(error.code == Code::E1006 && error.message.contains(words), "{error}");
    }
    open_dims(&mut sum_of_two(), &[choice("x:0", 2, Size::Fixed(3))], &[]).unwrap();
    for pair in [[("x:0", 0), ("y", 0)], [("x:0", 1), ("y", 1)]] {
        let [a, b] = pair.map(|(input, axis)| (input, axis));
        let error = open_dims(&mut sum_of_two(), &[choice(a.0, a.1, Size::Fixed(4)), choice(b.0, b.1, Size::Fixed(5))], &[]);
        assert_eq!(error.unwrap_err().code, Code::E1006, "{pair:?}");
    }
}

#[test]
fn facts_about_chosen_sizes_are_of_the_program() {
    let by_position = DimChoice { input: Input::At(0), axis: 1, size: Size::Named("S".into()) };
    let open = |facts: &[&str]| {
        let facts: Vec<Fact> = facts.iter().map(|text| Fact::parse(text).unwrap()).collect();
        let mut imported = sum_of_two();
        open_dims(&mut imported, std::slice::from_ref(&by_position), &facts).map(|()| imported.module.to_string())
    };
    let text = open(&["S <= 64", "S % 8 == 0"]).unwrap();
    assert!(text.contains("S <= 64") && text.contains("S % 8 == 0") && text.contains("%y: tensor<[B]x[S]x3xf32>"), "{text}");
    assert!(open(&["T <= 64"]).unwrap_err().message.contains("no size of an input is called T"));
    assert_eq!(open(&["S <= 4", "S >= 5"]).unwrap_err().code, Code::E1006);
    let error = open_dims(&mut sum_of_two(), &[DimChoice { input: Input::At(2), ..by_position.clone() }], &[]).unwrap_err();
    assert!(error.message.contains("there is no input 2"), "{error}");
}
