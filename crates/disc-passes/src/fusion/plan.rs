//! Writes the decision about a reduction group on its `fusion` op, and reads it: the space that it
//! walks, the axes that it reduces, the walk that writes each result, and the order in which each
//! result is stored.
//!
//! `fuse` decides once; whoever changes the ops of a group later decides anew. Code generation
//! reads the decision, and a schedule that cannot follow it is an error of the compiler.
use super::{
    form::{layout_of, shown},
    layout::Layout,
    reduction_phases::Phases,
    space::{axes_of, map_of},
};
use crate::analysis::query::Query;
use disc_ir::{Attr, Code, Diagnostic, Function, FunctionKind, FusionKind, Inst, OpKind, Solver, Value};
use std::collections::HashMap;

/// The decision about a reduction group.
#[derive(Clone, Debug)]
pub struct ReductionPlan {
    pub layout: Layout,
    pub phases: Phases,
}

impl ReductionPlan {
    /// Decides about a group that computes these outputs, given as a function of its own.
    ///
    /// # Errors
    /// The reason that the group is no reduction.
    pub fn of(group: &Function, solver: &Solver, outputs: &[Value]) -> Result<Self, String> {
        let layout = layout_of(group, solver, outputs)?;
        if !layout.reduces {
            return Err("there is no reduction".into());
        }
        let phases = Phases::of(group, group.body, outputs, &|value| layout.whole(solver, value, group.shape(value)).is_some())?;
        Ok(Self { layout, phases })
    }

    /// Reads the decision that an op of `host` carries about its region, given as the function
    /// `group`.
    ///
    /// # Errors
    /// The op carries none, or one that does not fit the region.
    pub fn read(host: &Function, inst: Inst, group: &Function, solver: &Solver) -> Result<Self, Diagnostic> {
        let wrong =
            |why: &str| Diagnostic::new(Code::E0211, format!("a reduction group {why}")).in_op("fusion").at(host.inst(inst).span);
        let outputs = group.returned(group.body).to_vec();
        if host.attr(inst, "walks").is_none() {
            return Err(wrong("has no `space`, `reduced` and `walks`, which `fuse` writes"));
        }
        let (space, reduced) = (host.dims(inst, "space").to_vec(), host.axes(inst, "reduced"));
        let kept = (0..space.len()).filter(|axis| !reduced.contains(axis)).collect();
        let mut reordered = Vec::new();
        let orders = host.axes(inst, "orders");
        for (order, &output) in orders.chunks(space.len().max(1)).zip(&outputs).filter(|(order, _)| !order.is_sorted()) {
            let map = map_of(solver, &space, order, group.shape(output));
            reordered.push((output, map.ok_or_else(|| wrong("has `orders` that do not fit the shape of a result"))?));
        }
        let walks: Vec<Option<usize>> = host.ints(inst, "walks").iter().map(|&walk| usize::try_from(walk).ok()).collect();
        let layout = Layout { space, reduced, kept, reduces: true, reordered };
        if walks.len() != outputs.len() {
            return Err(wrong("has another number of `walks` than of results"));
        }
        let phases = Phases::decided(group, group.body, &outputs, &walks).map_err(|why| wrong(&format!("is too deep: {why}")))?;
        for (&output, &walk) in outputs.iter().zip(&walks) {
            let is_whole = layout.whole(solver, output, group.shape(output)).is_some();
            if walk.map_or(is_whole, |walk| !is_whole || !phases.can_write(output, walk)) {
                return Err(wrong("has a result that cannot be written by the walk that `walks` states"));
            }
        }
        Ok(Self { layout, phases })
    }

    /// The values of [`ATTRIBUTES`].
    fn attributes(&self, outputs: &[Value]) -> [Option<Attr>; 4] {
        let Layout { space, reduced, reordered, .. } = &self.layout;
        let walk = |walk: Option<usize>| walk.map_or(-1, |walk| walk as i64);
        let walks = self.phases.walks(outputs).into_iter().map(walk).collect();
        let in_order: Vec<usize> = (0..space.len()).collect();
        let order = |&output: &Value| {
            let stored = self.layout.reordered(output).and_then(|map| axes_of(map));
            let mut stored = stored.unwrap_or_else(|| in_order.clone());
            // Axes of size 1 may be in no dimension.
            stored.extend(in_order.iter().filter(|axis| !stored.contains(axis)).copied().collect::<Vec<_>>());
            stored
        };
        let orders = outputs.iter().flat_map(order).map(|axis| axis as i64).collect();
        [
            Some(Attr::Dims(space.clone())),
            Some(Attr::Ints(reduced.iter().map(|&axis| axis as i64).collect())),
            Some(Attr::Ints(walks)),
            (!reordered.is_empty()).then_some(Attr::Ints(orders)),
        ]
    }
}

/// Decides about the group in the region of `inst`, if it is a reduction, and writes that on the
/// op.
///
/// # Errors
/// The group is no reduction, which is an error of the pass that made it.
pub fn decide(function: &mut Function, inst: Inst, solver: &Solver) -> Result<(), Diagnostic> {
    if FusionKind::of(function, inst) != Some(FusionKind::Reduction) {
        return Ok(());
    }
    let group = extract(function, inst);
    let outputs = group.returned(group.body).to_vec();
    let plan = ReductionPlan::of(&group, solver, &outputs).map_err(|why| {
        Diagnostic::new(Code::E0211, format!("a reduction group has no plan: {why}")).in_op("fusion").at(function.inst(inst).span)
    })?;
    for (name, value) in ATTRIBUTES.into_iter().zip(plan.attributes(&outputs)) {
        let position = OpKind::Fusion.def().attr_position(name).expect("`fusion` has this attribute");
        function.inst_mut(inst).attrs[position] = value;
    }
    Ok(())
}

/// Decides about the reductions of a function that carry no decision: those of text that somebody
/// wrote.
///
/// # Errors
/// As for [`decide`].
pub fn decide_missing(function: &mut Function, solver: &Solver) -> Result<(), Diagnostic> {
    let groups = function.walk(function.body);
    let undecided = groups.into_iter().filter(|&inst| function.attr(inst, "walks").is_none()).collect::<Vec<_>>();
    undecided.into_iter().try_for_each(|inst| decide(function, inst, solver))
}

/// The region of a group as a function of its own.
pub fn extract(host: &Function, inst: Inst) -> Function {
    let mut function = Function::new("group", FunctionKind::Func);
    function.facts = host.facts.clone();
    let body = function.import_block(host, host.inst(inst).regions[0], &mut HashMap::new());
    function.body = body;
    function
}

/// The attributes in which a reduction carries its decision.
pub const ATTRIBUTES: [&str; 4] = ["space", "reduced", "walks", "orders"];

/// The decision that a reduction carries, for people: `walks [B]x768, reduces axes 1`; `None` if
/// the op carries none.
pub fn in_words(host: &Function, inst: Inst) -> Option<String> {
    let walks = host.attr(inst, "walks").map(|_| host.ints(inst, "walks"))?;
    let list = |values: &[i64]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut text = format!("walks {}, reduces axes {}", shown(host.dims(inst, "space")), list(host.ints(inst, "reduced")));
    if walks.iter().any(|&walk| walk >= 0) {
        text += &format!(", writes results in walks {}", list(walks));
    }
    if host.attr(inst, "orders").is_some() {
        text += &format!(", stores them in orders {}", list(host.ints(inst, "orders")));
    }
    Some(text)
}
