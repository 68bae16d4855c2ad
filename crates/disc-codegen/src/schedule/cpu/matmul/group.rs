//! The products of a group.
use super::{
    emit::epilogue_routine,
    plan::{MatmulPlan, epilogue},
};
use crate::schedule::Group;
use disc_ir::{Inst, OpKind, Value};

/// Plans each product, with the outputs that come from it.
pub(super) fn plans(group: &Group<'_>) -> Result<Vec<MatmulPlan>, String> {
    if let Some(plans) = MatmulPlan::interleaved(group) {
        return plans;
    }
    let function = group.function;
    let is_dot = |&inst: &Inst| function.kind_of(inst) == OpKind::DotGeneral;
    let dots: Vec<Inst> = function.insts(function.body).iter().copied().filter(is_dot).collect();
    let outputs = group.outputs();
    let of = |&dot: &Inst| -> Vec<Value> {
        outputs.iter().copied().filter(|&o| epilogue::depends(function, function.result(dot), o)).collect()
    };
    let parts: Vec<Vec<Value>> = dots.iter().map(of).collect();
    if dots.is_empty() || parts.iter().map(Vec::len).sum::<usize>() != outputs.len() {
        return Err("the group's outputs do not each come from one product".into());
    }
    let made = dots.iter().zip(&parts).filter(|(_, outputs)| !outputs.is_empty());
    let plan = |(&dot, outputs): (&Inst, &Vec<Value>)| {
        let mut plan = MatmulPlan::of_product(function, &group.solver, group.target, dot, outputs, true)?;
        plan.choose_result(group, |plan| epilogue_routine::length(group, plan));
        Ok(plan)
    };
    made.map(plan).collect()
}
