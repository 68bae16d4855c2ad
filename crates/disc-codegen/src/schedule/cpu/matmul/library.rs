//! Offers products to a library, which the runtime may call in place of the kernel.
//!
//! A library multiplies matrices in memory, and nothing else: the rest of the group becomes a
//! kernel that runs after it.
//!
//! Invariant: the offer and the kernel compute the same, up to the order of the sums.
use super::{
    group::plans,
    launch::schedule,
    plan::{MatmulPlan, epilogue, forms::RightForm, operand::Operand},
};
use crate::schedule::{Argument, Group, ProductOffer, Scheduled, cpu::pointwise, space_of};
use disc_ir::{DType, Dim, Function, Value};
use std::sync::Arc;

/// Adds offers to the launches of a scheduled group: to that of its matmul, if it has exactly one.
pub(in crate::schedule) fn offer_products(group: &Group<'_>, scheduled: &mut Scheduled) {
    let plans = plans(group).unwrap_or_default();
    if let ([plan], [_]) = (&plans[..], &scheduled.launches[..])
        && let Some((dims, operands)) = matrices(group, plan)
        && let Some((result, rest)) = rest(group, plan, group.first_site + scheduled.sites.len() as i64)
    {
        let rest = rest.map(|mut rest| {
            scheduled.kernels.append(&mut rest.kernels);
            scheduled.sites.append(&mut rest.sites);
            rest.launches.remove(0)
        });
        let [left, right] = operands;
        scheduled.launches[0].product = Some(Box::new(ProductOffer { dims, left, right, result, rest }));
    }
}

/// Schedules a group whose product is offered for any sizes, if it can be offered: it has no
/// versions for some sizes.
pub(in crate::schedule) fn offered(group: &Group<'_>) -> Option<Scheduled> {
    let mut scheduled = schedule(group).ok()?;
    offer_products(group, &mut scheduled);
    scheduled.launches.iter().any(|launch| launch.product.is_some()).then_some(scheduled)
}

/// Gives the sizes and strides of a product of two matrices of f32 in memory, and their arguments.
fn matrices(group: &Group<'_>, plan: &MatmulPlan) -> Option<([Dim; 8], [Argument; 2])> {
    let product = group.tensor(group.function.result(plan.dot)).dtype;
    if !plan.shape.outer.is_empty() || plan.shape.sums.len() > 1 || product != DType::F32 {
        return None;
    }
    let one = || Dim::constant(1);
    let stride = |side: &Operand, dims: &[usize]| dims.last().map_or(one(), |&dim| side.stride(dim));
    let (left, right) = (&plan.left.operand, &plan.right.operand);
    let (right_strides, panel) = match plan.right.form {
        RightForm::Panels => ([Dim::constant(0), Dim::constant(0)], Dim::constant(i64::from(plan.tile.columns))),
        _ => ([stride(right, &right.sum), stride(right, &right.free)], Dim::constant(0)),
    };
    let [right_row, right_column] = right_strides;
    let sizes = [plan.shape.m.size.clone(), plan.shape.n.size.clone(), plan.shape.k.size.clone()];
    let strides = [stride(left, &left.free), stride(left, &left.sum), right_row, right_column, panel];
    let place = |side: &Operand| {
        let input = side.memory.as_ref()?.input;
        let position = group.inputs().iter().position(|&known| known == input)?;
        (group.tensor(input).dtype == DType::F32).then_some(Argument::Input(position))
    };
    let dims: Vec<Dim> = sizes.into_iter().chain(strides).collect();
    Some((dims.try_into().ok()?, [place(left)?, place(right)?]))
}

/// Gives the place that a library writes the result to: an output, or the memory that the kernel
/// for the rest of the group reads. None if there is no such kernel.
fn rest(group: &Group<'_>, plan: &MatmulPlan, first_site: i64) -> Option<(Option<Argument>, Option<Scheduled>)> {
    let (product, outputs) = (group.function.result(plan.dot), group.outputs());
    if outputs == [product] {
        return Some((Some(Argument::Output(group.wanted[0])), None));
    }
    if outputs.iter().any(|&output| epilogue::before_transpose(group.function, output) == product) {
        return None;
    }
    let function = without_product(group.function, plan, product);
    let position = function.parameters().len() - 1;
    let rest = Group { function: &function, name: Arc::from(format!("{}_rest", group.name)), first_site, ..group.clone() };
    space_of(&rest, &rest.outputs())?;
    let mut scheduled = pointwise::schedule(&rest);
    let [launch] = &mut scheduled.launches[..] else { return None };
    let renamed = |argument: &mut Argument| {
        if *argument == Argument::Input(position) {
            *argument = Argument::Product;
        }
    };
    launch.arguments.iter_mut().for_each(renamed);
    Some((None, Some(scheduled)))
}

/// Gives a group with the result of its product as its last input.
fn without_product(group: &Function, plan: &MatmulPlan, product: Value) -> Function {
    let mut function = group.clone();
    let body = function.body;
    let result = function.add_argument(body, group.ty(product).clone());
    function.replace_uses(&[(product, result)].into_iter().collect());
    let kept = group.insts(body).iter().copied().filter(|&inst| inst != plan.dot);
    function.set_insts(body, kept.collect());
    function
}
