//! Tests the verifier on graphs that no text can express. All other cases are in
//! `filetests/verify/`.
use disc_ir::{
    Code, Function, Inst, Module, Value,
    ops::Stage,
    parse,
    verify::{stage_of, verify},
};

const TEXT: &str = "func @f(%x: tensor<[B]xf32>) -> tensor<[B]xf32> {
  %y = negate %x : tensor<[B]xf32>
  %z = transpose %y, dims = [0] : tensor<[B]xf32>
  return %z : tensor<[B]xf32>
}";

/// Returns the codes of a function that was valid before `break_it`.
fn codes(break_it: impl FnOnce(&mut Function, &[Inst])) -> Vec<Code> {
    let mut module = parse(TEXT).unwrap();
    verify(&module, Stage::Tensor).unwrap();
    let function = &mut module.functions[0];
    let insts = function.insts(function.body).to_vec();
    break_it(function, &insts);
    verify(&module, Stage::Tensor).expect_err("it is broken").into_iter().map(|error| error.code).collect()
}

#[test]
fn a_use_before_its_definition_is_found() {
    assert_eq!(codes(|f, insts| f.set_insts(f.body, vec![insts[1], insts[0], insts[2]])), [Code::E0210]);
    assert_eq!(codes(|f, insts| f.set_insts(f.body, vec![insts[1], insts[2]])), [Code::E0210]);
}

#[test]
fn an_op_that_is_listed_twice_is_found() {
    assert_eq!(codes(|f, insts| f.set_insts(f.body, vec![insts[0], insts[0], insts[1], insts[2]])), [Code::E0211]);
}

#[test]
fn slots_that_are_not_the_declared_ones_are_found() {
    assert_eq!(codes(|f, insts| f.inst_mut(insts[1]).attrs.clear()), [Code::E0211]);
    assert_eq!(codes(|f, insts| f.inst_mut(insts[1]).attrs[0] = Some(3.into())), [Code::E0202]);
    assert_eq!(codes(|f, insts| f.inst_mut(insts[1]).attrs[0] = None), [Code::E0202]);
}

#[test]
fn a_region_of_two_ops_is_found() {
    let text = "func @f(%p: tensor<i1>) {
  if %p : (tensor<i1>) -> () then { return } else { return }
  if %p : (tensor<i1>) -> () then { return } else { return }
  return
}";
    let mut module = parse(text).unwrap();
    verify(&module, Stage::Tensor).unwrap();
    let function = &mut module.functions[0];
    let insts = function.insts(function.body).to_vec();
    let shared = function.inst(insts[0]).regions[0];
    function.inst_mut(insts[1]).regions[0] = shared;
    assert_eq!(verify(&module, Stage::Tensor).unwrap_err()[0].code, Code::E0211);
}

#[test]
fn constant_c1_the_literal_has_another_element_type() {
    let mut module = parse("func @f() { %c = constant dense<1> : tensor<i32> return }").unwrap();
    let function = &mut module.functions[0];
    let constant = function.insts(function.body)[0];
    function.inst_mut(constant).attrs[0] = Some(disc_ir::Literal::splat_i64(disc_ir::DType::I64, 1).into());
    let error = &verify(&module, Stage::Tensor).unwrap_err()[0];
    assert_eq!((error.code, error.message.starts_with("(C1)")), (Code::E0204, true));
}

#[test]
fn results_that_belong_to_another_op_are_found() {
    assert_eq!(
        codes(|f, insts| {
            let other: Value = f.result(insts[0]);
            f.inst_mut(insts[1]).results[0] = other;
        })[0],
        Code::E0211
    );
}

#[test]
fn the_stage_of_a_module_is_that_of_its_ops() {
    assert_eq!(stage_of(&parse(TEXT).unwrap()), Stage::Tensor);
    assert_eq!(stage_of(&parse("kernel @k(%begin: i64, %end: i64) { return }").unwrap()), Stage::Kernel);
    assert_eq!(stage_of(&Module::default()), Stage::Tensor);
}
