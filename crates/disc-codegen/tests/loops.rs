//! Checks how the pointwise schedule treats short dimensions and joined halves.
mod lowered;

use disc_ir::{Attr, DType, Function, FunctionKind, Module, OpKind, Type};
use lowered::Lowered;

/// The kernels of a program.
fn kernels(text: &str) -> Vec<Function> {
    let module = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    let lowered: Module = Lowered::of(&module, &"x86-64-v4".parse().expect("a target")).program.module;
    lowered.functions.into_iter().filter(|f| f.kind == FunctionKind::Kernel).collect()
}

fn count(kernel: &Function, kind: OpKind) -> usize {
    kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == kind).count()
}

/// Two tensors stacked along a last dimension.
fn stacked(size: &str) -> String {
    format!(
        "func @main(%x: tensor<[N]x[M]xf32>, %f: tensor<{size}xf32>) -> tensor<[N]x[M]x{size}xf32> {{
  %a = broadcast_in_dim %x, dims = [0, 1] : (tensor<[N]x[M]xf32>) -> tensor<[N]x[M]x{size}xf32>
  %b = broadcast_in_dim %f, dims = [2] : (tensor<{size}xf32>) -> tensor<[N]x[M]x{size}xf32>
  %r = multiply %a, %b : tensor<[N]x[M]x{size}xf32>
  return %r : tensor<[N]x[M]x{size}xf32>
}}"
    )
}

#[test]
fn vectors_lie_along_the_dimension_before_a_short_one() {
    let zips = |size: &str| kernels(&stacked(size)).iter().map(|kernel| count(kernel, OpKind::ZipLanes)).sum::<usize>();
    assert!(zips("2") > 0 && zips("4") > zips("2"), "{} and {}", zips("2"), zips("4"));
    assert_eq!((zips("3"), zips("8"), zips("[K]")), (0, 0, 0), "these are walked");
}

/// A row of two parts.
fn parts(second: &str) -> String {
    format!(
        "func @main(%x: tensor<[N]x[K]xf32>, %y: tensor<[N]x[{second}]xf32>) -> tensor<[N]x[K+{second}]xf32> {{
  %c = concatenate %x, %y, dim = 1 : (tensor<[N]x[K]xf32>, tensor<[N]x[{second}]xf32>) -> tensor<[N]x[K+{second}]xf32>
  %r = negate %c : tensor<[N]x[K+{second}]xf32>
  return %r : tensor<[N]x[K+{second}]xf32>
}}"
    )
}

#[test]
fn parts_of_one_length_are_one_loop() {
    let loops =
        |second: &str| -> Vec<usize> { kernels(&parts(second)).iter().map(|kernel| count(kernel, OpKind::For)).collect() };
    assert_eq!(loops("K"), [1, 1, 2, 2], "rows, and both parts where they are no vectors");
    assert_eq!(loops("M"), [1, 1, 3, 3], "each part has its own loop where it is no vector");
}

/// A row of eight parts, with this many ops after it.
fn many_parts(ops: usize) -> String {
    let ty = "tensor<[N]x[8*K]xf32>";
    let inputs: Vec<String> = (0..8).map(|i| format!("%x{i}: tensor<[N]x[K]xf32>")).collect();
    let (names, types) = ((0..8).map(|i| format!("%x{i}")).collect::<Vec<_>>().join(", "), ["tensor<[N]x[K]xf32>"; 8].join(", "));
    let chain: String = (1..=ops).map(|i| format!("  %y{i} = negate %y{} : {ty}\n", i - 1)).collect();
    let inputs = inputs.join(", ");
    format!(
        "func @main({inputs}) -> {ty} {{\n  %y0 = concatenate {names}, dim = 1 : ({types}) -> {ty}\n{chain}  return %y{ops} : {ty}\n}}"
    )
}

#[test]
fn many_parts_are_walked_one_by_one_where_that_is_little_code() {
    let plain = kernels(&many_parts(0)).pop().expect("a kernel");
    assert_eq!(count(&plain, OpKind::Select), 0, "no lane asks which part it is in:\n{plain}");
    let long = kernels(&many_parts(300)).pop().expect("a kernel");
    assert!(count(&long, OpKind::For) <= 2, "{} loops", count(&long, OpKind::For));
}

/// Rows of a tensor to which a matrix is added, so that not all dimensions are one.
fn planes(rows: &str) -> String {
    let ty = format!("tensor<[B]x[C]x{rows}x[K]xf32>");
    format!(
        "func @main(%x: {ty}, %y: tensor<{rows}x[K]xf32>, %z: tensor<[B]x[C]xf32>) -> {ty} {{
  %a = broadcast_in_dim %z, dims = [0, 1] : (tensor<[B]x[C]xf32>) -> {ty}
  %b = slice %y [0:{0}:1, 0:K:1] : (tensor<{rows}x[K]xf32>) -> tensor<{rows}x[K]xf32>
  %c = reverse %b, dims = [1] : tensor<{rows}x[K]xf32>
  %d = broadcast_in_dim %c, dims = [2, 3] : (tensor<{rows}x[K]xf32>) -> {ty}
  %e = add %a, %d : {ty}
  %r = multiply %x, %e : {ty}
  return %r : {ty}
}}",
        rows.trim_matches(['[', ']'])
    )
}

#[test]
fn the_last_run_of_units_is_a_loop_of_its_own() {
    let nested = |rows: &str| count(&kernels(&planes(rows))[0], OpKind::While);
    assert_eq!(nested("[R]"), 1, "planes, then rows");
    assert_eq!(nested("3"), 0, "three rows are counted along");
}

/// The names of the kernels of a pointwise group that multiplies values computed from rows, `of_x`,
/// by sines that are the same across a batch.
fn names_with_sines(of_x: &str) -> Vec<String> {
    let made = kernels(&format!(
        "func @main(%x: tensor<[B]x[S]x[C]xf32>, %a: tensor<[S]x[C]xf32>) -> tensor<[B]x[S]x[C]xf32> {{
  %s = sine %a : tensor<[S]x[C]xf32>
  %w = broadcast_in_dim %s, dims = [1, 2] : (tensor<[S]x[C]xf32>) -> tensor<[B]x[S]x[C]xf32>
  %r = {of_x} : tensor<[B]x[S]x[C]xf32>
  %y = multiply %r, %w : tensor<[B]x[S]x[C]xf32>
  return %y : tensor<[B]x[S]x[C]xf32>
}}"
    ));
    made.iter().map(|kernel| kernel.name.to_string()).collect()
}

#[test]
fn rows_of_a_block_are_walked_as_one_where_the_table_alone_tells_them_apart() {
    assert_eq!(names_with_sines("negate %x"), ["k0_pointwise_tables", "k0_pointwise"]);
    // A reversed row is no part of a longer run: short ones are single vectors.
    let reversed = names_with_sines("reverse %x, dims = [2]");
    assert_eq!(reversed, ["k0_pointwise_short8", "k0_pointwise_short16", "k0_pointwise_tables", "k0_pointwise"]);
}

/// Rows that are twice as long: each element occurs for two neighbours. `places` holds their
/// positions.
fn enlarged(parameters: &str, places: &str) -> String {
    format!(
        "func @main(%x: tensor<[B]x[S]xf32>{parameters}) -> tensor<[B]x[2*S]xf32> {{
  {places}
  %y = gather %x, %at, offset_dims = [0], collapsed_slice_dims = [1], start_index_map = [1], index_vector_dim = 1, \
         slice_sizes = [B, 1], bounds = clamp : (tensor<[B]x[S]xf32>, tensor<[2*S]xi64>) -> tensor<[B]x[2*S]xf32>
  return %y : tensor<[B]x[2*S]xf32>
}}"
    )
}

#[test]
fn places_that_are_counted_are_picked_from_vectors_and_kept_in_32_bits() {
    let counted = "%i = iota dim = 0 : tensor<[2*S]xf32>
  %h = constant dense<0.5> : tensor<[2*S]xf32>
  %p = multiply %i, %h : tensor<[2*S]xf32>
  %at = convert %p, dtype = i64 : (tensor<[2*S]xf32>) -> tensor<[2*S]xi64>";
    let made = kernels(&enlarged("", counted));
    let names: Vec<&str> = made.iter().map(|kernel| &*kernel.name).collect();
    assert_eq!(names, ["k0_pointwise_short8", "k0_pointwise_short16", "k0_pointwise_tables", "k0_pointwise"]);
    let made = &made[1..];
    assert!(made.iter().all(|kernel| count(kernel, OpKind::PickLanes) > 0), "{}\n{}", made[0], made[1]);
    let tables = |kernel: &Function| -> Vec<DType> {
        let insts = kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == OpKind::Scratch);
        insts.map(|inst| kernel.ty(kernel.result(inst)).dtype()).collect()
    };
    assert_eq!((tables(&made[0]), tables(&made[1]), tables(&made[2])), (vec![], vec![DType::I32], vec![]));
    let data = kernels(&enlarged(", %at: tensor<[2*S]xi64>", ""));
    assert!(data.iter().all(|kernel| count(kernel, OpKind::PickLanes) == 0), "data may say any place:\n{}", data[0]);
}

#[test]
fn what_two_registers_leave_of_a_row_is_computed_by_single_ones() {
    let made = kernels(
        "func @main(%x: tensor<[N]x[K]xf32>, %y: tensor<[K]xf32>) -> tensor<[N]x[K]xf32> {
  %b = broadcast_in_dim %y, dims = [1] : (tensor<[K]xf32>) -> tensor<[N]x[K]xf32>
  %s = add %x, %b : tensor<[N]x[K]xf32>
  %r = tanh %s : tensor<[N]x[K]xf32>
  return %r : tensor<[N]x[K]xf32>
}",
    );
    let lanes = |kernel: &Function| -> Vec<(u32, bool)> {
        let stores = kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == OpKind::Store);
        let lanes = stores.map(|inst| match (kernel.operands(inst), kernel.ty(kernel.operands(inst)[2])) {
            (operands, Type::Vector { lanes, .. }) => (*lanes, operands.len() == 4),
            (_, ty) => panic!("a store of {ty}"),
        });
        lanes.collect()
    };
    let [half, one, large, long] = &made[..] else { panic!("{} kernels", made.len()) };
    assert_eq!([lanes(half), lanes(one)], [[(8, true)], [(16, true)]], "rows that one vector holds");
    assert_eq!(lanes(long), [(32, false), (16, true)], "{long}");
    assert_eq!(lanes(large), [(32, false), (16, true)], "{large}");
}

#[test]
fn integers_of_64_bits_make_tables_of_conversions() {
    // A conversion between floats and integers of 64 bits is worth a table by itself, one between
    // those of 32 bits is not.
    let tables = |dtype: &str| {
        let text = format!(
            "func @main(%x: tensor<[N]x[K]x{dtype}>) -> tensor<[N]x[K]x{dtype}> {{
  %i = iota dim = 0 : tensor<[K]xf32>
  %c = convert %i, dtype = {dtype} : (tensor<[K]xf32>) -> tensor<[K]x{dtype}>
  %b = broadcast_in_dim %c, dims = [1] : (tensor<[K]x{dtype}>) -> tensor<[N]x[K]x{dtype}>
  %r = add %x, %b : tensor<[N]x[K]x{dtype}>
  return %r : tensor<[N]x[K]x{dtype}>
}}"
        );
        kernels(&text).iter().any(|kernel| kernel.name.ends_with("_tables"))
    };
    assert_eq!((tables("i64"), tables("i32")), (true, false));
}

#[test]
fn large_results_are_streamed_but_for_masked_ends() {
    let streams = |text: &str| -> Vec<(String, Vec<Option<i64>>)> {
        let multiple = |kernel: &Function, inst| match kernel.inst(inst).attrs[0] {
            Some(Attr::Int(multiple)) => Some(multiple),
            _ => None,
        };
        let stores = |kernel: &Function| {
            let stores = kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == OpKind::Store);
            stores.map(|inst| multiple(kernel, inst)).collect()
        };
        kernels(text).iter().map(|kernel| (kernel.name.to_string(), stores(kernel))).collect()
    };
    let negated = |dims: &str, facts: &str| {
        format!(
            "func @main(%x: tensor<{dims}>) -> tensor<{dims}> {facts} {{
  %r = negate %x : tensor<{dims}>
  return %r : tensor<{dims}>
}}"
        )
    };
    let plain = ("k0_pointwise".to_owned(), vec![None, None]);
    let stream = |multiple| ("k0_pointwise_nontemporal".to_owned(), vec![Some(multiple), None]);
    assert_eq!(streams(&negated("[N]xf32", "")), [stream(64), plain.clone()]);
    // A vector of eight lanes of 64 bits, and of sixteen lanes of 8 bits.
    assert_eq!(streams(&negated("[N]xf64", "")), [stream(64), plain.clone()]);
    assert_eq!(streams(&negated("[N]xi8", "")), [stream(16), plain.clone()]);
    assert_eq!(streams(&negated("[N]xf32", "where N < 8000000")), [plain], "what is read and written is known to be less");
}
