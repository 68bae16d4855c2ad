//! Graphs of TensorFlow that contradict themselves: each is an error that names its node.
use bytes::Bytes;
use disc_import::program::Imported;
use disc_import::tensorflow::{Output, docs, read};
use disc_ir::{Code, Diagnostic};
use std::panic::{AssertUnwindSafe, catch_unwind};

// Protobuf: numbers of fields are those of crates/disc-import/src/tensorflow/proto.rs.

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

fn int(field: u64, value: i64) -> Vec<u8> {
    [varint(field << 3), varint(value as u64)].concat()
}

fn part(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    [&varint(field << 3 | 2), &varint(content.as_ref().len() as u64), content.as_ref()].concat()
}

fn entry(name: &str, value: impl AsRef<[u8]>) -> Vec<u8> {
    [part(1, name), part(2, value)].concat()
}

fn node(name: &str, op: &str, inputs: &[&str], attrs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let inputs = inputs.iter().flat_map(|input| part(3, input));
    let attrs = attrs.iter().flat_map(|(name, value)| part(5, entry(name, value)));
    [part(1, name), part(2, op)].concat().into_iter().chain(inputs).chain(attrs).collect()
}

fn graph(nodes: &[Vec<u8>]) -> Vec<u8> {
    nodes.iter().flat_map(|node| part(1, node)).collect()
}

/// A library of functions of one argument `x`; each returns `y`, which is `returned`.
fn library(functions: &[(&str, &str, Vec<Vec<u8>>)]) -> Vec<u8> {
    let functions = functions.iter().flat_map(|(name, returned, nodes)| {
        let signature = [part(1, name), part(2, part(1, "x")), part(3, part(1, "y"))].concat();
        let nodes: Vec<u8> = nodes.iter().flat_map(|node| part(3, node)).collect();
        part(1, [part(1, signature), nodes, part(4, entry("y", returned))].concat())
    });
    part(2, functions.collect::<Vec<u8>>())
}

const F32: i64 = 1;
const F64: i64 = 2;
const I32: i64 = 3;
const U8: i64 = 4;
const I64: i64 = 9;
const BOOL: i64 = 10;
const F16: i64 = 19;

fn dtype(number: i64) -> Vec<u8> {
    int(6, number)
}

fn shape(sizes: &[i64]) -> Vec<u8> {
    sizes.iter().flat_map(|&size| part(2, int(1, size))).collect()
}

fn list(values: &[i64]) -> Vec<u8> {
    part(1, values.iter().flat_map(|&value| int(3, value)).collect::<Vec<u8>>())
}

fn text(text: &str) -> Vec<u8> {
    part(2, text)
}

fn input(name: &str, number: i64, sizes: &[i64]) -> Vec<u8> {
    node(name, "Placeholder", &[], &[("dtype", dtype(number)), ("shape", part(7, shape(sizes)))])
}

/// A constant whose elements are these bytes.
fn bytes(name: &str, number: i64, sizes: &[i64], content: &[u8]) -> Vec<u8> {
    let tensor = [int(1, number), part(2, shape(sizes)), part(4, content)].concat();
    node(name, "Const", &[], &[("dtype", dtype(number)), ("value", part(8, tensor))])
}

fn constant(name: &str, sizes: &[i64], values: &[i64]) -> Vec<u8> {
    bytes(name, I64, sizes, &values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())
}

fn import(bytes: &[u8]) -> Result<Imported, Vec<Diagnostic>> {
    read("model.pb", Bytes::copy_from_slice(bytes), &[])
}

fn named(result: &str) -> Output {
    Output { name: result.into(), result: result.into() }
}

/// Imports a graph that is refused, and returns its error.
fn refused(bytes: &[u8]) -> Diagnostic {
    let errors = import(bytes).map(|imported| imported.module.to_string()).unwrap_err();
    assert_eq!(errors.len(), 1, "{errors:?}");
    errors.into_iter().next().unwrap()
}

/// Checks that an error has this code, and names this node.
#[track_caller]
fn check(error: &Diagnostic, code: Code, node: &str) {
    let text = format!("{error} {:?}", error.notes);
    assert!(error.code == code && text.contains(&format!("`{node}`")), "{error:?}");
}

#[test]
fn a_graph_of_a_node_is_imported() {
    let imported = import(&graph(&[input("x", F32, &[-1, 4]), node("y", "Tanh", &["x"], &[])])).unwrap();
    assert_eq!((&*imported.signature.inputs, &*imported.signature.outputs), (&["x".into()][..], &["y".into()][..]));
    assert!(imported.module.to_string().contains("tanh"), "{}", imported.module);
}

#[test]
fn outputs_depend_on_inputs_and_nothing_reads_them() {
    let nodes = [
        input("x", F32, &[2]),
        constant("left", &[2], &[1, 2]),
        node("behind", "Identity", &["left"], &[]),
        node("y", "Tanh", &["x"], &[]),
        node("z", "Neg", &["y"], &[]),
    ];
    assert_eq!(read("graph.pb", Bytes::from(graph(&nodes)), &[]).unwrap().signature.outputs, ["z"]);
}

#[test]
fn a_cycle_is_an_error_of_a_node_in_it() {
    let x = input("x", F32, &[2]);
    let pair = [node("a", "Add", &["x", "b"], &[]), node("b", "Tanh", &["a"], &[]), node("y", "Tanh", &["b"], &[])];
    let error = refused(&graph(&[&[x.clone()][..], &pair].concat()));
    check(&error, Code::E1004, if error.op.as_deref() == Some("Add") { "a" } else { "b" });
    check(&refused(&graph(&[x, node("a", "Add", &["x", "a"], &[]), node("y", "Tanh", &["a"], &[])])), Code::E1004, "a");
}

#[test]
fn an_input_that_is_not_there_is_an_error_of_the_node_that_reads_it() {
    for wrong in ["z", "x:1", "x:-1", "x:y", "x:0:0:0", "x:18446744073709551615", "x:18446744073709551616", "", ":", "x:"] {
        check(&refused(&graph(&[input("x", F32, &[2]), node("y", "Tanh", &[wrong], &[])])), Code::E1004, "y");
    }
    let in_a_function = |wrong: &str| {
        let nodes =
            vec![constant("k", &[], &[1]), node("n", "TopKV2", &["x", "k:output:0"], &[]), node("t", "Tanh", &[wrong], &[])];
        let call = node("y", "PartitionedCall", &["x"], &[("f", part(10, part(1, "f")))]);
        [graph(&[input("x", F32, &[2]), call]), library(&[("f", "t:y:0", nodes)])].concat()
    };
    for wrong in ["z", "x:0", "n:indices:18446744073709551615", "n:values:2", "n:places:0", "n:0"] {
        check(&refused(&in_a_function(wrong)), Code::E1004, "t");
    }
}

#[test]
fn functions_that_do_not_end_are_errors() {
    let call = |name: &str, input: &str, f: &str| node(name, "PartitionedCall", &[input], &[("f", part(10, part(1, f)))]);
    let main = graph(&[input("x", F32, &[2]), call("y", "x", "f0")]);
    let itself = library(&[("f0", "c:output:0", vec![call("c", "x", "f0")])]);
    check(&refused(&[&main[..], &itself].concat()), Code::E1004, "c");
    let round = library(&[("f0", "c:output:0", vec![call("c", "x", "f1")]), ("f1", "d:output:0", vec![call("d", "x", "f0")])]);
    check(&refused(&[&main[..], &round].concat()), Code::E1004, "d");
    let absent = library(&[("f0", "c:output:0", vec![call("c", "x", "f1")])]);
    check(&refused(&[&main[..], &absent].concat()), Code::E1004, "c");
    // Each calls the next one, so deep that the stack would not hold them.
    let names: Vec<String> = (0..=20_000).map(|i| format!("f{i}")).collect();
    let chain: Vec<_> = names.windows(2).map(|pair| (&*pair[0], "c:output:0", vec![call("c", "x", &pair[1])])).collect();
    assert_eq!(refused(&[main.clone(), library(&chain)].concat()).code, Code::E1002);
    // Each calls the next one twice: a few bytes are 2^50 calls.
    let twice = |next: &str| vec![call("c", "x", next), call("d", "c:output:0", next)];
    let doubled = names[..50].windows(2).map(|pair| (&*pair[0], "d:output:0", twice(&pair[1])));
    let doubled: Vec<_> = doubled.chain([(&*names[49], "x", vec![])]).collect();
    assert_eq!(refused(&[main, library(&doubled)].concat()).code, Code::E1002);
}

#[test]
fn a_call_of_fewer_arguments_than_the_function_has_is_an_error() {
    let call = node("y", "PartitionedCall", &[], &[("f", part(10, part(1, "f")))]);
    let f = library(&[("f", "t:y:0", vec![node("t", "Tanh", &["x"], &[])])]);
    check(&refused(&[graph(&[input("x", F32, &[2]), call.clone()]), f].concat()), Code::E1004, "t");
    let same = library(&[("f", "x", vec![])]);
    check(&refused(&[graph(&[input("x", F32, &[2]), call]), same].concat()), Code::E1004, "y");
}

#[test]
fn nodes_of_one_name_and_outputs_that_are_not_there_are_errors() {
    let x = input("x", F32, &[2]);
    check(&refused(&graph(&[x.clone(), node("y", "Tanh", &["x"], &[]), node("y", "Sin", &["x"], &[])])), Code::E1004, "y");
    let bytes = Bytes::from(graph(&[x.clone(), node("y", "Tanh", &["x"], &[])]));
    for (output, code) in [("z", Code::E1001), ("y:a", Code::E1001), ("^y", Code::E1001)] {
        check(&read("model.pb", bytes.clone(), &[named(output)]).unwrap_err()[0], code, output);
    }
    check(&read("model.pb", bytes, &[named("y:1")]).unwrap_err()[0], Code::E1004, "y");
    assert_eq!(refused(&graph(&[x])).code, Code::E1001, "it computes nothing");
    assert_eq!(refused(b"").code, Code::E1001);
    assert_eq!(refused(b"\x0a\xff").code, Code::E1001);
}

#[test]
fn attributes_that_are_missing_wrong_or_unknown_are_errors() {
    let x = input("x", F32, &[-1, 4]);
    for (op, inputs, attrs) in [
        ("Cast", &["x"][..], vec![]),
        ("Cast", &["x"], vec![("DstT", dtype(7))]),
        ("Cast", &["x"], vec![("DstT", int(3, 1))]),
        ("Softmax", &["x"], vec![("axis", int(3, 0))]),
        ("MatMul", &["x", "x"], vec![("transpose_b", int(3, 1))]),
        ("PartitionedCall", &["x"], vec![]),
        ("EnsureShape", &["x"], vec![("shape", part(7, shape(&[-1, 5])))]),
        ("EnsureShape", &["x"], vec![("shape", part(7, shape(&[4])))]),
        ("Unpack", &["x"], vec![("num", int(3, -1))]),
    ] {
        check(&refused(&graph(&[x.clone(), node("y", op, inputs, &attrs)])), Code::E1004, "y");
    }
    let many = ("num_split", int(3, i64::MAX));
    let split = [constant("axis", &[], &[1]), node("y", "Split", &["axis", "x"], &[many])];
    check(&refused(&graph(&[&[x][..], &split].concat())), Code::E1002, "y");
    let reads = |attrs: &[(&str, Vec<u8>)]| graph(&[node("x", "Placeholder", &[], attrs), node("y", "Tanh", &["x"], &[])]);
    check(&refused(&reads(&[])), Code::E1004, "x");
    check(&refused(&reads(&[("dtype", dtype(F32))])), Code::E1004, "x");
    check(&refused(&reads(&[("dtype", dtype(20)), ("shape", part(7, vec![]))])), Code::E1004, "x");
    let of_shape = |shape: Vec<u8>| refused(&reads(&[("dtype", dtype(F32)), ("shape", part(7, shape))]));
    check(&of_shape(int(3, 1)), Code::E1006, "x");
    check(&of_shape(shape(&[i64::MAX, i64::MAX])), Code::E1006, "x");
    check(&of_shape(shape(&[1; 17])), Code::E1002, "x");
}

#[test]
fn axes_of_lists_of_sizes_are_checked() {
    let sizes = node("s", "Shape", &["x"], &[("out_type", dtype(I64))]);
    let before = [input("x", F32, &[-1, 4]), sizes, constant("far", &[], &[7]), constant("zero", &[], &[0])];
    let first = node("f", "GatherV2", &["s", "zero", "zero"], &[]);
    let part = node("p", "Slice", &["s", "zero", "one"], &[]);
    let before = [&before[..], &[constant("one", &[], &[1]), first, part]].concat();
    let far = || int(3, 7);
    for (op, inputs, attrs) in [
        ("Sum", &["s", "far"][..], vec![]),
        ("ConcatV2", &["s", "s", "far"], vec![]),
        ("GatherV2", &["s", "zero", "far"], vec![]),
        ("GatherV2", &["s", "zero", "zero"], vec![("batch_dims", int(3, 1))]),
        ("ExpandDims", &["f", "far"], vec![]),
        ("Pack", &["f", "f"], vec![("axis", far())]),
        ("Unpack", &["s"], vec![("num", int(3, 2)), ("axis", far())]),
        ("Squeeze", &["p"], vec![("squeeze_dims", list(&[7]))]),
        ("Neg", &["min"], vec![]),
    ] {
        let nodes = [&before[..], &[constant("min", &[], &[i64::MIN]), node("y", op, inputs, &attrs)]].concat();
        let error =
            read("model.pb", Bytes::from(graph(&nodes)), &[named("y")]).map(|imported| imported.module.to_string()).unwrap_err();
        check(&error[0], if op == "Neg" { Code::E1006 } else { Code::E1004 }, "y");
    }
}

#[test]
fn loops_and_branches_whose_functions_do_not_fit_are_errors() {
    let function = |name: &str| part(10, part(1, name));
    let functions = library(&[
        ("same", "x", vec![]),
        ("holds", "t:output:0", vec![bytes("t", BOOL, &[], &[1])]),
        ("many", "t:z:0", vec![node("t", "Greater", &["x", "x"], &[])]),
        ("other", "t:output:0", vec![bytes("t", F32, &[3], &[0; 12])]),
        ("double", "t:y:0", vec![node("t", "Cast", &["x"], &[("DstT", dtype(F64))])]),
        ("again", "w:output:0", vec![node("w", "While", &["x"], &[("cond", function("holds")), ("body", function("again"))])]),
    ]);
    let loops = [
        ("", "same"),
        ("holds", ""),
        ("none", "other"),
        ("holds", "none"),
        ("many", "other"),
        ("same", "double"),
        ("holds", "double"),
    ];
    let branches = [("", "same"), ("same", "none"), ("same", "double"), ("other", "same")];
    let named = |names: [&'static str; 2], values: (&str, &str)| -> Vec<(&'static str, Vec<u8>)> {
        let given = names.into_iter().zip([values.0, values.1]).filter(|(_, value)| !value.is_empty());
        given.map(|(name, value)| (name, function(value))).collect()
    };
    let loops = loops.map(|values| node("y", "While", &["x"], &named(["cond", "body"], values)));
    let branches = branches.map(|values| node("y", "If", &["p", "x"], &named(["then_branch", "else_branch"], values)));
    let few = [
        node("y", "If", &[], &named(["then_branch", "else_branch"], ("same", "same"))),
        node("y", "If", &["x", "x"], &named(["then_branch", "else_branch"], ("same", "same"))),
        node("y", "While", &["x", "x"], &named(["cond", "body"], ("holds", "same"))),
        node("y", "While", &[], &named(["cond", "body"], ("holds", "same"))),
    ];
    for tried in [&loops[..], &branches, &few].concat() {
        let nodes = [input("x", F32, &[2]), input("p", BOOL, &[]), tried.clone()];
        check(&refused(&[graph(&nodes), functions.clone()].concat()), Code::E1004, "y");
    }
    let nodes = [input("x", F32, &[2]), node("y", "While", &["x"], &named(["cond", "body"], ("holds", "again")))];
    check(&refused(&[graph(&nodes), functions].concat()), Code::E1002, "y");
}

#[test]
fn constants_of_wrong_sizes_are_errors() {
    let with = |constant: Vec<u8>| graph(&[input("x", F32, &[2]), constant, node("y", "Identity", &["c"], &[])]);
    let tensor = |sizes: &[i64], rest: Vec<u8>| {
        let tensor = [int(1, F32), part(2, shape(sizes)), rest].concat();
        node("c", "Const", &[], &[("value", part(8, tensor))])
    };
    check(&refused(&with(tensor(&[2], part(4, [0; 5])))), Code::E1005, "c");
    check(&refused(&with(tensor(&[i64::MAX, i64::MAX], part(4, [0; 4])))), Code::E1005, "c");
    check(&refused(&with(tensor(&[1 << 61], vec![]))), Code::E1005, "c");
    check(&refused(&with(tensor(&[1 << 60], vec![]))), Code::E1002, "c");
    check(&refused(&with(tensor(&[-1], vec![]))), Code::E1004, "c");
    check(&refused(&with(tensor(&[1], part(5, [0; 8])))), Code::E1005, "c");
    check(&refused(&with(node("c", "Const", &[], &[]))), Code::E1004, "c");
    check(&refused(&with(node("c", "Const", &[], &[("value", part(8, int(1, 99)))]))), Code::E1004, "c");
}

#[test]
fn a_constant_of_a_function_is_one_weight_however_often_it_is_called() {
    let call = |name: &str, input: &str| node(name, "PartitionedCall", &[input], &[("f", part(10, part(1, "f")))]);
    let weight = |name: &str, size: usize| bytes(name, F32, &[size as i64], &vec![1; 4 * size]);
    let nodes = vec![weight("c", 20), node("t", "Mul", &["x", "c:output:0"], &[])];
    let main = [input("x", F32, &[20]), weight("f/c", 20), call("a", "x"), call("b", "a"), node("y", "Add", &["b", "f/c"], &[])];
    let imported = import(&[graph(&main), library(&[("f", "t:z:0", nodes)])].concat()).unwrap();
    let names: Vec<&str> = imported.weights.iter().map(|weight| &*weight.name).collect();
    assert_eq!(names, ["f:c", "f/c"]);
}

#[test]
fn constants_that_repeat_an_element_are_limited_together() {
    let splat = |name: &str| {
        let tensor = [int(1, F32), part(2, shape(&[10 << 20])), part(5, [0; 4])].concat();
        node(name, "Const", &[], &[("value", part(8, tensor))])
    };
    let sum = node("y", "AddN", &["a", "b"], &[]);
    check(&refused(&graph(&[input("x", F32, &[2]), splat("a"), splat("b"), sum])), Code::E1002, "b");
    assert!(import(&graph(&[input("x", F32, &[2]), splat("a"), node("y", "Tanh", &["a"], &[])])).is_ok());
}

/// The operands of the nodes that are tried: of many types and ranks, sizes beyond every limit.
fn operands() -> Vec<(&'static str, Vec<u8>)> {
    let (min, max) = (i64::MIN, i64::MAX);
    vec![
        ("x", input("x", F32, &[-1, 4])),
        ("half", input("half", F16, &[-1])),
        ("double", input("double", F64, &[])),
        ("image", input("image", F32, &[1, -1, -1, 3])),
        ("volume", input("volume", F32, &[2, 3, -1, 5, 2])),
        ("mask", input("mask", BOOL, &[-1, 4])),
        ("place", input("place", I64, &[-1])),
        ("number", input("number", I32, &[])),
        ("byte", input("byte", U8, &[2, 3])),
        ("huge", input("huge", F32, &[1 << 30, 1 << 28])),
        ("none", input("none", F32, &[0, 3])),
        ("zero", constant("zero", &[], &[0])),
        ("one", constant("one", &[], &[1])),
        ("minus", constant("minus", &[], &[-1])),
        ("min", constant("min", &[], &[min])),
        ("max", constant("max", &[], &[max])),
        ("empty", constant("empty", &[0], &[])),
        ("twos", constant("twos", &[2], &[2, 2])),
        ("open", constant("open", &[2], &[0, -1])),
        ("opens", constant("opens", &[2], &[-1, -1])),
        ("ends", constant("ends", &[2], &[min, max])),
        ("order", constant("order", &[4], &[1, 0, 3, 2])),
        ("pads", constant("pads", &[2, 2], &[1, 0, -1, max])),
        ("truth", bytes("truth", BOOL, &[2], &[1, 7])),
        ("floats", bytes("floats", F32, &[2, 2], &[1; 16])),
        ("filter", bytes("filter", F32, &[3, 3, 3, 2], &[0; 216])),
        ("filter3", bytes("filter3", F32, &[1, 1, 1, 2, 2], &[0; 16])),
        ("size", node("size", "Shape", &["image"], &[])),
        ("sizes", node("sizes", "Shape", &["huge"], &[("out_type", dtype(I64))])),
        ("wide", node("wide", "Mul", &["sizes", "sizes"], &[])),
    ]
}

/// Values of attributes, right and wrong.
fn attributes() -> Vec<(&'static str, Vec<Vec<u8>>)> {
    let numbers: Vec<Vec<u8>> = [0, 1, 2, -1, 7, 64, i64::MIN, i64::MAX, i64::MAX / 2].map(|value| int(3, value)).into();
    let lists: Vec<Vec<u8>> = [
        &[][..],
        &[1, 1, 1, 1],
        &[1, 2, 2, 1],
        &[1, 1, 2, 2],
        &[1, 2, 2, 2, 1],
        &[1, 0, 1, 1],
        &[1, -1, 2, 1],
        &[i64::MAX, i64::MAX, 2, 1],
        &[1, i64::MAX, i64::MAX, 1],
        &[1, i64::MIN, i64::MAX, 1],
        &[0, 0, 1, 1, 2, 2, 0, 0],
        &[0, 0, -1, i64::MAX, 1, 1, 0, 0],
        &[3],
    ]
    .map(list)
    .into();
    let texts: Vec<Vec<u8>> =
        ["SAME", "VALID", "EXPLICIT", "NHWC", "NCHW", "NDHWC", "REFLECT", "SYMMETRIC", "", "ij,jk->ik", "i..,->..j"]
            .map(text)
            .into();
    let truths = vec![int(5, 0), int(5, 1), int(3, 1)];
    let types: Vec<Vec<u8>> = [F32, I32, I64, F16, BOOL, 7].map(dtype).into();
    let mut all = Vec::new();
    for name in
        "axis num num_split N batch_dims block_size begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask".split(' ')
    {
        all.push((name, numbers.clone()));
    }
    for name in "strides ksize dilations explicit_paddings squeeze_dims".split(' ') {
        all.push((name, lists.clone()));
    }
    for name in "padding data_format mode equation".split(' ') {
        all.push((name, texts.clone()));
    }
    for name in "keep_dims transpose_a adj_y exclusive reverse is_training".split(' ') {
        all.push((name, truths.clone()));
    }
    for name in "DstT out_type output_type index_type Tout T".split(' ') {
        all.push((name, types.clone()));
    }
    all.push(("shape", vec![part(7, shape(&[-1, 4])), part(7, shape(&[i64::MAX])), part(7, int(3, 1)), int(3, 1)]));
    all
}

/// Numbers of a seed, by the generator of D. H. Lehmer.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0 * 48_271 % 0x7fff_ffff;
        self.0 as usize % limit
    }
}

#[test]
fn no_row_panics_on_operands_and_attributes_of_other_ops() {
    const TRIES: usize = 40;
    let (operands, attributes) = (operands(), attributes());
    let before: Vec<Vec<u8>> = operands.iter().map(|(_, node)| node.clone()).collect();
    let mut random = Random(99);
    let mut wrong = Vec::new();
    let docs = docs();
    let names = docs.split('`').skip(1).step_by(2).filter(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric()));
    for op in names {
        for _ in 0..TRIES {
            let inputs: Vec<&str> = (0..random.below(5)).map(|_| operands[random.below(operands.len())].0).collect();
            let mut attrs = Vec::new();
            for (name, values) in &attributes {
                if random.below(6) == 0 {
                    attrs.push((*name, values[random.below(values.len())].clone()));
                }
            }
            let graph = graph(&[&before[..], &[node("tried", op, &inputs, &attrs)]].concat());
            let case = || format!("{op}({}) {attrs:?}", inputs.join(", "));
            match catch_unwind(AssertUnwindSafe(|| read("model.pb", Bytes::from(graph), &[named("tried")]))) {
                Err(_) => wrong.push(format!("{} panics", case())),
                Ok(Err(errors)) => {
                    wrong.extend(errors.iter().filter(|error| !is_of_node(error)).map(|error| format!("{}: {error:?}", case())))
                }
                Ok(Ok(_)) => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

fn is_of_node(error: &Diagnostic) -> bool {
    error.code.to_string().starts_with("E10") && format!("{error} {:?}", error.notes).contains("`tried`")
}
