//! Checks the arena's plans of programs: the values that share memory, and that each kind of fact
//! is used.
use super::{compile, launches};
use disc_codegen::host::Program;
use disc_ir::{Attr, FunctionKind, OpKind};
use std::collections::HashSet;

fn arena(program: &Program) -> String {
    let host = program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program");
    let arena = host.walk(host.body).into_iter().find(|&inst| host.kind_of(inst) == OpKind::Arena).expect("an arena");
    match &host.inst(arena).attrs[0] {
        Some(Attr::Dim(bytes)) => bytes.to_string(),
        other => panic!("the arena has size {other:?}"),
    }
}

/// The number of positions at which values are stored: in the arena, or in the memory of a later
/// output.
fn places(program: &Program) -> usize {
    let host = program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program");
    let parts = host.walk(host.body).into_iter().filter(|&inst| host.kind_of(inst) == OpKind::Alloc);
    let places: HashSet<String> = parts.map(|inst| format!("{:?} {:?}", host.operands(inst), host.inst(inst).attrs[0])).collect();
    places.len()
}

/// Two pairs of sorts, one after the other, to see if the memory between the first pair is used for
/// that between the second.
fn two_sorts(facts: &str) -> String {
    let sort = |to: &str, from: &str, ty: &str| {
        format!(
            "  {to}, {to}i = top_k {from}, k = [{}] : (tensor<{ty}xf32>) -> (tensor<{ty}xf32>, tensor<{ty}xi32>)\n",
            &ty[1..2]
        )
    };
    let body = [sort("%a", "%x", "[B]"), sort("%b", "%a", "[B]"), sort("%c", "%y", "[N]"), sort("%d", "%c", "[N]")].concat();
    format!(
        "func @main(%x: tensor<[B]xf32>, %y: tensor<[N]xf32>) -> (tensor<[B]xf32>, tensor<[N]xf32>){facts} {{\n{body}  return %b, %d : (tensor<[B]xf32>, tensor<[N]xf32>)\n}}"
    )
}

#[test]
fn equality_lets_memory_be_used_again() {
    let (without, with) = (arena(&compile(&two_sorts(""))), arena(&compile(&two_sorts(" where B == N"))));
    assert!(without.contains('B') && without.contains('N'), "{without}");
    assert_eq!(with, "64*((B+15)/16)", "one part serves both");
}

#[test]
fn ranges_let_memory_be_used_again() {
    let with = arena(&compile(&two_sorts(" where B >= 1024, N <= 1024")));
    assert_eq!(with, "64*((B+15)/16)", "what holds B elements holds N");
}

#[test]
fn product_equality_lets_memory_be_used_again() {
    let program = |facts: &str| {
        compile(&format!(
            "func @main(%x: tensor<[B]x[S]xf32>, %y: tensor<[N]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[N]xf32>){facts} {{
  %a, %ai = top_k %x, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
  %b, %bi = top_k %a, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
  %c, %ci = top_k %y, k = [N] : (tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xi32>)
  %d, %di = top_k %c, k = [N] : (tensor<[N]xf32>) -> (tensor<[N]xf32>, tensor<[N]xi32>)
  return %b, %d : (tensor<[B]x[S]xf32>, tensor<[N]xf32>)
}}"
        ))
    };
    let (without, with) = (arena(&program("")), arena(&program(" where B*S == N")));
    assert!(without.contains("B*S") && without.contains('N'), "{without}");
    assert!(!(with.contains("B*S") && with.contains('N')), "{with}");
}

/// The sizes of all frames of the arena, and the number of times that memory is allocated or
/// copied.
fn frames(program: &Program) -> Vec<String> {
    let host = program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program");
    let arenas = host.walk(host.body).into_iter().filter(|&inst| host.kind_of(inst) == OpKind::Arena);
    let bytes = arenas.map(|inst| match &host.inst(inst).attrs[0] {
        Some(Attr::Dim(bytes)) => bytes.to_string(),
        other => panic!("the arena has size {other:?}"),
    });
    bytes.collect()
}

/// Two sorts, which no pass fuses, with these ops between them.
fn between(ops: &str) -> Program {
    compile(&format!(
        "func @main(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {{
  %z = constant dense<0.0> : tensor<f32>
  %a, %ai = top_k %x, k = [B] : (tensor<[B]xf32>) -> (tensor<[B]xf32>, tensor<[B]xi32>)
{ops}
  %r, %ri = top_k %e, k = [B] : (tensor<[B]xf32>) -> (tensor<[B]xf32>, tensor<[B]xi32>)
  return %r : tensor<[B]xf32>
}}"
    ))
}

#[test]
fn a_loop_writes_over_an_input_that_dies() {
    assert_eq!(places(&between("  %e = exponential %a : tensor<[B]xf32>")), 1);
    // Two inputs are read at another position each: the memory of neither can be used.
    let turned = between("  %t = reverse %a, dims = [0] : tensor<[B]xf32>\n  %e = add %t, %a : tensor<[B]xf32>");
    assert_eq!(places(&turned), 2);
    // Elements of another size are not at the same position.
    let narrow = between(
        "  %h = convert %a : (tensor<[B]xf32>) -> tensor<[B]xf16>
  %c, %ci = top_k %h, k = [B] : (tensor<[B]xf16>) -> (tensor<[B]xf16>, tensor<[B]xi32>)
  %e = convert %c : (tensor<[B]xf16>) -> tensor<[B]xf32>",
    );
    assert_eq!(places(&narrow), 2, "{}", narrow.module);
}

#[test]
fn a_chain_of_loops_and_sorts_takes_two_buffers() {
    let chain = between(
        "  %b = exponential %a : tensor<[B]xf32>
  %c, %ci = top_k %b, k = [B] : (tensor<[B]xf32>) -> (tensor<[B]xf32>, tensor<[B]xi32>)
  %d = tanh %c : tensor<[B]xf32>
  %f, %fi = top_k %d, k = [B] : (tensor<[B]xf32>) -> (tensor<[B]xf32>, tensor<[B]xi32>)
  %e = negate %f : tensor<[B]xf32>",
    );
    assert_eq!(places(&chain), 2, "{}", chain.module);
    assert_eq!(arena(&chain), "64*((B+15)/16)", "the other one is where the result goes");
}

#[test]
fn what_is_returned_as_a_view_or_from_a_branch_is_made_in_place() {
    let program = compile(
        "func @main(%x: tensor<[B]x8xf32>, %p: tensor<i1>) -> (tensor<[8*B]xf32>, tensor<[B]x8xf32>) {
  %a = exponential %x : tensor<[B]x8xf32>
  %v = reshape %a : (tensor<[B]x8xf32>) -> tensor<[8*B]xf32>
  %r = if %p : (tensor<i1>) -> tensor<[B]x8xf32> then {
    %t = tanh %x : tensor<[B]x8xf32>
    return %t : tensor<[B]x8xf32>
  } else {
    %n = negate %x : tensor<[B]x8xf32>
    return %n : tensor<[B]x8xf32>
  }
  return %v, %r : (tensor<[8*B]xf32>, tensor<[B]x8xf32>)
}",
    );
    assert_eq!(arena(&program), "0", "{}", program.module);
    assert_eq!(launches(&program), 3, "{}", program.module);
}

#[test]
fn a_size_from_data_has_a_frame_of_its_own_unless_a_slot_is_known_to_hold_it() {
    let program = |facts: &str| {
        compile(&format!(
            "func @main(%x: tensor<[N]xf32>, %n: tensor<i64>) -> (tensor<[K]xf32>, tensor<[N]xf32>){facts} {{
  %z = constant dense<0.0> : tensor<f32>
  %a = cumulative %x, %z, dim = 0 : (tensor<[N]xf32>, tensor<f32>) -> tensor<[N]xf32> applies add
  %b = cumulative %a, %z, dim = 0 : (tensor<[N]xf32>, tensor<f32>) -> tensor<[N]xf32> applies add
  bind_dim %n, dim = [K] : tensor<i64>
  %i = iota dim = 0 : tensor<[K]xf32>
  %c = cumulative %i, %z, dim = 0 : (tensor<[K]xf32>, tensor<f32>) -> tensor<[K]xf32> applies add
  %d = cumulative %c, %z, dim = 0 : (tensor<[K]xf32>, tensor<f32>) -> tensor<[K]xf32> applies add
  return %d, %b : (tensor<[K]xf32>, tensor<[N]xf32>)
}}"
        ))
    };
    assert_eq!(frames(&program("")), ["64*((N+15)/16)", "64*((K+15)/16)"]);
    assert_eq!(frames(&program(" where K <= N")), ["64*((N+15)/16)"]);
}

#[test]
fn rows_are_written_over_an_input_that_dies() {
    let rows = |about: &str| {
        between(&format!(
            "  %t = reduce %a, %z, dims = [0] : (tensor<[B]xf32>, tensor<f32>) -> tensor<f32> applies add
  %m = broadcast_in_dim %t, dims = [] : (tensor<f32>) -> tensor<[B]xf32>
{about}"
        ))
    };
    // There are also the partial results of the parts of a long row.
    assert_eq!(places(&rows("  %e = subtract %a, %m : tensor<[B]xf32>")), 3);
    // The row is read at another position than it is written.
    let turned = rows("  %v = reverse %a, dims = [0] : tensor<[B]xf32>\n  %e = subtract %v, %m : tensor<[B]xf32>");
    assert_eq!(places(&turned), 4, "{}", turned.module);
}

#[test]
fn branches_run_one_after_the_other() {
    // In the order of the program all sorted lines would be live when the first ones are added up.
    let names = ["x", "y", "z", "w"];
    let parameters = names.map(|name| format!("%{name}: tensor<[B]x[S]xf32>")).join(", ");
    let sort = |name: &str| {
        format!(
            "  %{name}s, %{name}i = top_k %{name}, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)\n"
        )
    };
    let sum = |name: &str| {
        format!(
            "  %{name}r = reduce %{name}s, %n, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add\n"
        )
    };
    let body = names.map(sort).concat() + &names.map(sum).concat();
    let program = compile(&format!(
        "func @main({parameters}) -> (tensor<[B]xf32>, tensor<[B]xf32>, tensor<[B]xf32>, tensor<[B]xf32>) {{
  %n = constant dense<0.0> : tensor<f32>
{body}  return %xr, %yr, %zr, %wr : (tensor<[B]xf32>, tensor<[B]xf32>, tensor<[B]xf32>, tensor<[B]xf32>)
}}"
    ));
    // There are also the partial results of the parts of a long row.
    assert!(arena(&program).starts_with("64*((B*S+15)/16)"), "{}", arena(&program));
}

#[test]
fn sizes_that_nothing_orders_share_memory_of_the_larger_one() {
    assert_eq!(arena(&compile(&two_sorts(""))), "max(64*((B+15)/16), 64*((N+15)/16))");
}

/// The launches of a program that updates `%a`, sorted lines, and then has `rest`; `%s` is one of
/// their lines, `%t` its number.
fn updated(rest: &str) -> Vec<String> {
    let program = compile(&format!(
        "func @main(%x: tensor<[B]x[S]xf32>, %s: tensor<1x[S]xf32>, %i: tensor<[N]x1xi64>, %u: tensor<[N]x[S]xf32>, %t: tensor<i64>) -> tensor<[B]x[S]xf32> {{
  %z = constant dense<0> : tensor<i64>
  %a, %ai = top_k %x, k = [S] : (tensor<[B]x[S]xf32>) -> (tensor<[B]x[S]xf32>, tensor<[B]x[S]xi32>)
{rest}
  return %r : tensor<[B]x[S]xf32>
}}"
    ));
    let host = program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program");
    let launches = host.walk(host.body).into_iter().filter(|&inst| host.kind_of(inst) == OpKind::Launch);
    let kernels = launches.map(|inst| match &host.inst(inst).attrs[0] {
        Some(Attr::Symbol(kernel)) => kernel.to_string(),
        other => panic!("a launch has a kernel: {other:?}"),
    });
    // Versions for other sizes launch kernels of their own.
    kernels.filter(|kernel| !kernel.contains("k0_")).collect()
}

fn scatter(to: &str, from: &str) -> String {
    format!(
        "  {to} = scatter {from}, %i, %u, update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1 : (tensor<[B]x[S]xf32>, tensor<[N]x1xi64>, tensor<[N]x[S]xf32>) -> tensor<[B]x[S]xf32> applies add"
    )
}

#[test]
fn what_dies_where_a_part_of_it_is_updated_is_not_copied() {
    let replace = |to: &str, from: &str| {
        format!(
            "  {to} = dynamic_update_slice {from}, %s, %t, %z : (tensor<[B]x[S]xf32>, tensor<1x[S]xf32>, tensor<i64>, tensor<i64>) -> tensor<[B]x[S]xf32>"
        )
    };
    assert_eq!(updated(&scatter("%r", "%a")), ["k1_standalone"]);
    assert_eq!(updated(&replace("%r", "%a")), ["k1_update"]);
    let several = [replace("%b", "%a"), scatter("%c", "%b"), scatter("%r", "%c")].join("\n");
    assert_eq!(updated(&several), ["k1_update", "k2_standalone", "k2_standalone"]);
    // The memory of an input, and a value that is read afterwards, are preserved.
    for from in ["%x", "%a"] {
        let kept = updated(&format!("{}\n  %r = subtract %b, %a : tensor<[B]x[S]xf32>", scatter("%b", from)));
        assert_eq!(kept.iter().filter(|kernel| kernel.ends_with("_copy")).count(), 1, "{from}: {kept:?}");
    }
}
