//! Checks loops that update what they carry: if that is in place, an iteration writes only the
//! update.
mod lowered;

use disc_codegen::host::Program;
use disc_ir::{Attr, Function, FunctionKind, Inst, OpKind};
use lowered::Lowered;

/// The program of this name.
fn program(name: &str) -> Program {
    let all = include_str!("stages/control.disc");
    let (_, rest) = all.split_once(&format!("// {name}\n")).unwrap_or_else(|| panic!("there is no program `{name}`"));
    compiled(rest.split("// ").next().expect("a program follows its name"))
}

fn compiled(text: &str) -> Program {
    let module = disc_ir::text::parse(text).unwrap_or_else(|e| panic!("{}\n{text}", e[0]));
    Lowered::of(&module, &"x86-64-v4".parse().expect("a target")).program
}

fn host(program: &Program) -> &Function {
    program.module.functions.iter().find(|f| f.kind == FunctionKind::Host).expect("a host program")
}

/// The kernels that an iteration launches, and the number of units of each.
fn launches_of_iteration(program: &Program) -> Vec<(String, String)> {
    let host = host(program);
    let inside = host.walk(host.body).into_iter().find(|&inst| host.kind_of(inst) == OpKind::While).expect("a loop");
    let body = host.walk(host.inst(inside).regions[1]);
    body.into_iter().filter(|&inst| host.kind_of(inst) == OpKind::Launch).map(|inst| named(host, inst)).collect()
}

fn named(host: &Function, launch: Inst) -> (String, String) {
    match &host.inst(launch).attrs[..] {
        [Some(Attr::Symbol(kernel)), Some(Attr::Dim(units)), ..] => (kernel.to_string(), units.to_string()),
        other => panic!("a launch has a kernel and units: {other:?}"),
    }
}

/// Asserts that no launch of an iteration walks over all five rows of the result.
fn walks_over_no_more_than_a_row(launches: &[(String, String)]) {
    assert!(launches.iter().all(|(_, units)| !units.contains("5*B")), "{launches:?}");
}

#[test]
fn an_iteration_writes_the_slice_that_it_updates_and_no_more() {
    let launches = launches_of_iteration(&program("a loop that fills a result"));
    let updates: Vec<_> = launches.iter().filter(|(kernel, _)| kernel.ends_with("_update")).collect();
    assert_eq!(updates.len(), 1, "{launches:?}");
    walks_over_no_more_than_a_row(&launches);
}

#[test]
fn a_scatter_into_what_a_loop_carries_copies_nothing() {
    let launches = launches_of_iteration(&program("a loop that adds to places of a result"));
    assert!(launches.iter().any(|(kernel, _)| kernel.ends_with("_standalone")), "{launches:?}");
    assert!(!launches.iter().any(|(kernel, _)| kernel.ends_with("_copy")), "{launches:?}");
    walks_over_no_more_than_a_row(&launches);
}

#[test]
fn what_is_still_read_is_copied() {
    for name in
        ["a loop that reads what it has replaced", "a loop that moves parts of a result", "a loop that fills results in turn"]
    {
        let program = program(name);
        let launches = launches_of_iteration(&program);
        assert!(!launches.iter().any(|(kernel, _)| kernel.ends_with("_update")), "{name}: {launches:?}");
        assert!(launches.iter().any(|(_, units)| units.contains("5*B")), "{name}: {launches:?}");
    }
}

/// The number of launches of the program that walk over all five rows, with loops counted once and
/// versions for large results left out.
fn walks_over_all(program: &Program) -> usize {
    let host = host(program);
    let launches = host.walk(host.body).into_iter().filter(|&inst| host.kind_of(inst) == OpKind::Launch);
    let launches = launches.map(|inst| named(host, inst)).filter(|(kernel, _)| !kernel.ends_with("_nontemporal"));
    launches.filter(|(_, units)| units.contains("5*B")).count()
}

#[test]
fn a_loop_runs_in_the_memory_of_what_it_begins_with() {
    // One fills the rows with their initial values, in the memory in which they are returned.
    assert_eq!(walks_over_all(&program("a loop that fills a result")), 1);
}

#[test]
fn a_loop_in_a_loop_updates_what_both_carry() {
    let nested = compiled(
        "func @main(%x: tensor<1x[B]xf32>) -> tensor<5x[B]xf32> {
  %n = constant dense<0> : tensor<i64>
  %e = constant dense<0.5> : tensor<f32>
  %o = broadcast_in_dim %e, dims = [] : (tensor<f32>) -> tensor<5x[B]xf32>
  %last, %r = while %n, %o : (tensor<i64>, tensor<5x[B]xf32>) -> (tensor<i64>, tensor<5x[B]xf32>) cond(%i: tensor<i64>, %a: tensor<5x[B]xf32>) {
    %five = constant dense<5> : tensor<i64>
    %more = compare LT, %i, %five : (tensor<i64>, tensor<i64>) -> tensor<i1>
    return %more : tensor<i1>
  } do(%i: tensor<i64>, %a: tensor<5x[B]xf32>) {
    %two = constant dense<2> : tensor<i64>
    %end = add %i, %two : tensor<i64>
    %to, %b = while %i, %a : (tensor<i64>, tensor<5x[B]xf32>) -> (tensor<i64>, tensor<5x[B]xf32>) cond(%j: tensor<i64>, %c: tensor<5x[B]xf32>) {
      %more = compare LT, %j, %end : (tensor<i64>, tensor<i64>) -> tensor<i1>
      return %more : tensor<i1>
    } do(%j: tensor<i64>, %c: tensor<5x[B]xf32>) {
      %one = constant dense<1> : tensor<i64>
      %zero = constant dense<0> : tensor<i64>
      %k = add %j, %one : tensor<i64>
      %d = dynamic_update_slice %c, %x, %j, %zero : (tensor<5x[B]xf32>, tensor<1x[B]xf32>, tensor<i64>, tensor<i64>) -> tensor<5x[B]xf32>
      return %k, %d : (tensor<i64>, tensor<5x[B]xf32>)
    }
    return %to, %b : (tensor<i64>, tensor<5x[B]xf32>)
  }
  return %r : tensor<5x[B]xf32>
}",
    );
    assert_eq!(walks_over_all(&nested), 1, "{}", nested.module);
}
