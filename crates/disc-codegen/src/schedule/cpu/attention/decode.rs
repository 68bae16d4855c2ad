//! Attention of a few rows over many columns: one new token over a long cache.
//!
//! Each unit takes `KEYS` columns at one position along the batch dimensions, for all rows: it
//! reads keys and values in place, once, and stores the maximum, the sum and the totals of its
//! columns. A second kernel combines the parts of a row. The cut of a row depends only on sizes,
//! and so does the result.
//!
//! Heads that share their keys are rows of one product here.
use super::{
    online_softmax::{over_columns, with_column},
    plan::{AttentionPlan, KEYS},
    softmax::Softmax,
    unit::{Place, Unit},
};
use crate::{
    element::Elements,
    kernel::{Index, KernelBuilder, Site},
    schedule::{
        Condition::Less,
        Group, Launch, Scheduled, Version, VersionKind, Workspace, aligned_bytes,
        common::{iteration_space::place_unit, kernel_frame::GroupMemory},
        cpu::matmul::{BlockProduct, MatmulPlan, RightForm, RowsOf},
    },
};
use disc_ir::{Dim, Function, FunctionKind, Solver, TensorType, Value};
use disc_kernel_macros::expr;

versions! {
    /// Attention of a few queries.
    Decode {
        kernels: "`kN_attention_decode_split`, `kN_attention_decode_combine`",
        sizes: "decode: at most 8 queries over more than 64 keys",
        unit: "512 keys; then a row",
    }
}

/// The most rows that are few.
const FEW: i64 = 8;
/// Up to this many columns the parts would not pay for a second kernel.
const SHORT: i64 = 64;

/// The results of the first kernel: for each unit, of each row, the maximum, the sum, and the
/// totals.
struct Left {
    tops: Value,
    sums: Value,
    totals: Value,
}

/// Gives the version of a group for a few rows, if it has one.
pub(super) fn version(group: &Group<'_>, softmax: &Softmax) -> Option<Version> {
    let plan = AttentionPlan::of_few_rows(group.function, &group.solver, group.target)?;
    let rows = &plan.scores.shape.m.size;
    let most = FEW.min(i64::from(plan.scores.tile.rows));
    let columns = &plan.scores.shape.n.size;
    let range = |dim: &Dim| group.solver.range(dim);
    if range(rows).lo.is_some_and(|least| least > most) || range(columns).hi.is_some_and(|longest| longest <= SHORT) {
        return None;
    }
    // Queries other than the first read the keys anew.
    let queries = plan.scores.shape.outer.iter().find(|outer| plan.shared.is_some_and(|[_, queries]| outer.run.axis == queries));
    let queries = queries.map(|outer| outer.run.size.clone());
    let few = [Some(rows.clone()), queries].into_iter().flatten().map(|size| Less(size, Dim::constant(most + 1)));
    let guard = few.chain([Less(Dim::constant(SHORT), columns.clone())]).collect();
    let workspaces = plan.workspaces(most);
    let code = parts(group, &plan, softmax, &workspaces);
    Some(Version { kind: VersionKind::Decode, guard, code, workspaces })
}

impl AttentionPlan {
    /// Plans for a few rows: keys are read along the sums, and heads that share them are rows.
    fn of_few_rows(group: &Function, solver: &Solver, target: &crate::target::Target) -> Option<Self> {
        let mut plan = Self::of(group, solver, target).ok()?;
        if !matches!(plan.scores.right.form, RightForm::Columns { .. }) {
            return None;
        }
        plan.scores.walk_along_sums();
        let shares = |plan: &MatmulPlan| plan.shape.outer.last().is_some_and(|outer| outer.right.is_const(0));
        let last = plan.scores.shape.outer.last().map(|outer| outer.run.size.clone());
        let grouped = last.is_some_and(|size| !solver.equal(&size, &Dim::constant(1)));
        if grouped && shares(&plan.scores) && shares(&plan.weighted) {
            let queries = plan.row_axis();
            plan.scores.exchange_rows();
            plan.weighted.exchange_rows();
            plan.shared = Some([plan.row_axis(), queries]);
        }
        Some(plan)
    }

    /// Parts of a row.
    fn parts(&self) -> Dim {
        self.scores.shape.n.size.ceil_div(&Dim::constant(KEYS))
    }

    fn batch(&self) -> Dim {
        Dim::product(self.scores.shape.outer.iter().map(|outer| outer.run.size.clone()))
    }

    /// Gives the memory for the results of units, if there are at most `most` rows.
    fn workspaces(&self, most: i64) -> Vec<Workspace> {
        let (units, dtype) = (self.batch() * self.parts(), self.scores.compute);
        let memory = |width: Dim| {
            let rows = Dim::min(&self.scores.shape.m.size, &Dim::constant(most));
            let count = |rows: &Dim| TensorType::new([&units * rows * &width], dtype);
            Workspace { tensor: count(&self.scores.shape.m.size), bytes: aligned_bytes(&count(&rows)), most: None }
        };
        let one = || Dim::constant(1);
        vec![memory(one()), memory(one()), memory(self.weighted.total_columns())]
    }
}

/// Emits both kernels.
fn parts(group: &Group<'_>, plan: &AttentionPlan, softmax: &Softmax, workspaces: &[Workspace]) -> Scheduled {
    let named = Group { name: format!("{}_decode", group.name).into(), ..group.clone() };
    let parts = [0, 1, 2].map(|i| plan.part(if i == 2 { group } else { &named }, i, group.first_site));
    let groups = [&parts[0], &parts[1], &parts[2]];
    let (keys, mut sites) = BlockProduct::keys_routine(groups[0], &plan.scores);
    let first_site = group.first_site + sites.len() as i64;
    let kernels = Kernels { group: &named, plan, softmax, groups, workspaces };
    let units = plan.batch() * plan.parts();
    let (first, launch, more) = kernels.parts(first_site, units.clone(), plan.cost(groups[1]));
    sites.extend(more);
    let first_site = group.first_site + sites.len() as i64;
    let cost = (units * plan.weighted.total_columns()).ceil_div(&Dim::constant(8));
    let (second, combine, more) = kernels.sums(first_site, plan.batch(), cost);
    sites.extend(more);
    Scheduled { kernels: vec![first, second, keys], launches: vec![launch, combine], sites }
}

/// The inputs of both kernels.
struct Kernels<'a> {
    group: &'a Group<'a>,
    plan: &'a AttentionPlan,
    softmax: &'a Softmax,
    groups: [&'a Group<'a>; 3],
    workspaces: &'a [Workspace],
}

impl<'a> Kernels<'a> {
    /// Emits the kernel that stores the results of parts of rows.
    fn parts(&self, first_site: i64, units: Dim, cost: Dim) -> (Function, Launch, Vec<Site>) {
        self.kernel("split", first_site, [units, cost], |_| (), |unit, kb, number, left, ()| unit.part(kb, number, left))
    }

    /// Emits the kernel that combines the parts.
    fn sums(&self, first_site: i64, units: Dim, cost: Dim) -> (Function, Launch, Vec<Site>) {
        let factors = |kb: &mut KernelBuilder| kb.scratch(TensorType::new([self.plan.parts()], self.plan.scores.compute));
        self.kernel("combine", first_site, [units, cost], factors, |unit, kb, batch, left, &factors| {
            unit.combine(kb, batch, left, factors)
        })
    }

    /// Emits a kernel of `body` for each unit, with the task memory that `scratch` asks for.
    fn kernel<T>(
        &self,
        name: &str,
        first_site: i64,
        [units, cost]: [Dim; 2],
        scratch: impl FnOnce(&mut KernelBuilder) -> T,
        body: impl FnOnce(&mut Unit<'a>, &mut KernelBuilder, Value, &Left, &T),
    ) -> (Function, Launch, Vec<Site>) {
        let Self { group, plan, softmax, groups, .. } = *self;
        let mut kb = group.builder(&format!("{}_{name}", group.name), FunctionKind::Kernel);
        let mut memory = GroupMemory::of(&mut kb, group);
        let [tops, sums, totals] = [(0, "tops"), (1, "sums"), (2, "totals")]
            .map(|(i, name)| memory.add_workspace(&mut kb, name, i, self.workspaces[i].tensor.clone()));
        let left = Left { tops, sums, totals };
        let [begin, end] = kb.units();
        let held = scratch(&mut kb);
        let mut unit = Unit::new(&mut kb, group, plan, softmax, groups, &memory, first_site);
        let one = kb.int(1);
        kb.for_each([begin, end, one], |kb, number| {
            body(&mut unit, kb, number, &left, &held);
        });
        let kernel = kb.finish();
        let launch = Launch::new(&kernel, memory.arguments, units, cost);
        (kernel, launch, unit.sites)
    }
}

impl<'a> Unit<'a> {
    /// Computes a part of the columns for all rows.
    fn part(&mut self, kb: &mut KernelBuilder, number: Value, left: &Left) {
        let plan = self.plan;
        let parts = kb.dim(&plan.parts());
        let (part, batch) = (expr!(kb, number % parts), expr!(kb, number / parts));
        let (zero, rows) = (kb.int(0), kb.dim(&plan.scores.shape.m.size));
        let place = self.place_at(kb, batch, [zero, rows]);
        self.clear(kb, &place);
        let (columns, step) = (kb.dim(&plan.scores.shape.n.size), kb.int(KEYS));
        let low = expr!(kb, part * step);
        let high = expr!(kb, min(low + step, columns));
        let block = RowsOf { left: place.queries, first: zero, height: rows };
        self.scores.run_along_sums(kb, &place.at, place.keys, block, [low, high], low);
        self.exponentials(kb, &place, [zero, rows], low, [low, high]);
        self.weigh(kb, &place, [zero, rows], low, [low, high]);
        self.leave(kb, number, rows, left);
    }

    fn leave(&self, kb: &mut KernelBuilder, number: Value, rows: Value, left: &Left) {
        let (zero, one) = (kb.int(0), kb.int(1));
        let (lanes, width) = (self.plan.scores.tile.lanes, kb.dim(&self.plan.weighted.total_columns()));
        let start = expr!(kb, number * rows);
        kb.for_each([zero, rows, one], |kb, row| {
            let there = expr!(kb, start + row);
            for (from, to) in [(self.state.tops, left.tops), (self.state.sums, left.sums)] {
                let value = kb.load(from, row, 1, None);
                kb.store(to, there, value, None);
            }
        });
        let (count, start) = (expr!(kb, rows * width), expr!(kb, start * width));
        let step = kb.int(i64::from(lanes));
        kb.for_each([zero, count, step], |kb, here| {
            let there = expr!(kb, start + here);
            let value = kb.load(self.state.totals, here, lanes, None);
            kb.store(left.totals, there, value, None);
        });
    }

    /// Combines the parts of rows, and writes the outputs of the group.
    fn combine(&mut self, kb: &mut KernelBuilder, batch: Value, left: &Left, factors: Value) {
        let plan = self.plan;
        let (zero, one, rows) = (kb.int(0), kb.int(1), kb.dim(&plan.scores.shape.m.size));
        let mut at = vec![Index::uniform(zero); plan.rows.domain.len()];
        place_unit(kb, batch, &plan.scores.shape.outer_runs(), &mut at);
        let parts = kb.dim(&plan.parts());
        let place = Place { at, rows: [zero, rows], queries: zero, keys: zero, values: zero, finite: None };
        let first = expr!(kb, batch * parts * rows);
        let mut softmax = self.row_elements(kb, zero, zero);
        let mut weighted = self.weighted.elements();
        weighted.first_site = self.next_site();
        kb.for_each([zero, rows, one], |kb, row| {
            let at = self.position(&place, row);
            let start = expr!(kb, first + row);
            let scale = softmax.scoped(|softmax| {
                let [top, sum] = self.total(kb, softmax, &at, start, left, factors);
                self.scale(kb, softmax, &at, [top, sum])
            });
            let scale = kb.widen(scale, weighted.lanes);
            let (columns, width) = (kb.dim(&plan.weighted.shape.n.size), kb.dim(&plan.weighted.total_columns()));
            over_columns(kb, &mut weighted, [zero, columns], zero, &mut |kb, elements, column, nothing| {
                let Index::Affine { base, .. } = column else { panic!("a loop counts in steps of one") };
                let none = kb.zero(plan.scores.compute, elements.lanes);
                let total = kb.for_([zero, parts, one], &[none], |kb, part, carried| {
                    let from = expr!(kb, (part * rows + start) * width + base);
                    let there = kb.load(left.totals, from, elements.lanes, None);
                    let factor = kb.load(factors, part, 1, None);
                    vec![kb.fma(there, factor, carried[0])]
                });
                let value = expr!(kb, total[0] * scale);
                self.weighted.store(kb, elements, &with_column(&at, column), value);
                nothing
            });
        });
        self.sites.extend(weighted.sites);
    }

    /// Gives the maximum and the sum of a row, from those of its parts, and stores the factor of
    /// each part.
    fn total(
        &self,
        kb: &mut KernelBuilder,
        elements: &mut Elements<'a>,
        at: &[Index],
        start: Value,
        left: &Left,
        factors: Value,
    ) -> [Value; 2] {
        let plan = self.plan;
        let (zero, one) = (kb.int(0), kb.int(1));
        let (parts, rows) = (kb.dim(&plan.parts()), kb.dim(&plan.scores.shape.m.size));
        let of = |kb: &mut KernelBuilder, part: Value, buffer: Value| {
            let number = expr!(kb, part * rows + start);
            kb.load(buffer, number, 1, None)
        };
        let lowest = kb.float(plan.scores.compute, f64::NEG_INFINITY, 1);
        let top = kb.for_([zero, parts, one], &[lowest], |kb, part, carried| {
            let there = of(kb, part, left.tops);
            vec![kb.max(carried[0], there)]
        })[0];
        let shift = self.shift(kb, elements, at, top);
        let nothing = kb.zero(plan.scores.compute, 1);
        let sum = kb.for_([zero, parts, one], &[nothing], |kb, part, carried| {
            let there = of(kb, part, left.tops);
            let factor = elements.scoped(|elements| self.factor(kb, elements, at, [there, shift]));
            kb.store(factors, part, factor, None);
            let sum = of(kb, part, left.sums);
            vec![kb.fma(sum, factor, carried[0])]
        })[0];
        [top, sum]
    }
}
