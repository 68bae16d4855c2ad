//! Schedules groups so that memory is freed early.
//!
//! Groups start in program order. If some that are ready free more memory than they take, the one
//! that frees most runs next; otherwise the earliest in program order. Sizes are compared with
//! every dim at a nominal value, so the order is the same for every call.
//!
//! Invariant: values and dims are defined before their uses, and ops other than groups, views and
//! weights keep their order.
use crate::{
    analysis::call_invariant::uses,
    fusion::binders::Binders,
    pass::{PassCx, PassDef},
};
use disc_ir::{Block, Diagnostic, Function, FunctionKind, Inst, Module, OpKind, Value, ops::Stage};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The value of a dim when sizes are compared.
const NOMINAL: i64 = 64;

/// Runs groups that free memory early.
pub static PASS: PassDef = PassDef {
    name: "schedule-groups",
    doc: "Orders groups to keep less memory live: of the groups that are ready, the one that frees most runs next.",
    stages: (Stage::Fused, Stage::Fused),
    run,
};

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let functions = module.functions.iter_mut().filter(|f| f.kind == FunctionKind::Func);
    Ok(functions.map(|function| order_block(function, function.body, cx)).sum())
}

fn order_block(function: &mut Function, block: Block, cx: &mut PassCx) -> usize {
    let mut changes = 0;
    for inst in function.insts(block).to_vec() {
        if matches!(function.kind_of(inst), OpKind::If | OpKind::While) {
            for region in function.inst(inst).regions.clone() {
                changes += order_block(function, region, cx);
            }
        }
    }
    let order = Scheduler::new(function, block).order();
    if order != function.insts(block) && cx.spend() {
        function.set_insts(block, order);
        changes += 1;
    }
    changes
}

/// The dependence graph of a block; nodes are positions.
struct Scheduler<'f> {
    function: &'f Function,
    insts: Vec<Inst>,
    /// For each op, the number of ops that it waits for, and the ops that wait for it.
    waits: Vec<usize>,
    waiting: Vec<Vec<usize>>,
    /// The memory that each op reads: values of the block, under views.
    reads: Vec<BTreeSet<Value>>,
    /// The number of ops that still read a result of the block.
    readers: HashMap<Value, usize>,
    /// The bytes of each value at nominal sizes.
    bytes: HashMap<Value, i64>,
}

impl<'f> Scheduler<'f> {
    fn new(function: &'f Function, block: Block) -> Self {
        let insts = function.insts(block).to_vec();
        let position: HashMap<Inst, usize> = insts.iter().enumerate().map(|(i, &inst)| (inst, i)).collect();
        let binders = Binders::of_block(function, block);
        let count = insts.len();
        let mut scheduler = Self {
            function,
            waits: vec![0; count],
            waiting: vec![Vec::new(); count],
            reads: Vec::with_capacity(count),
            readers: HashMap::new(),
            bytes: HashMap::new(),
            insts,
        };
        let mut last_fixed = None;
        for i in 0..count {
            let inst = scheduler.insts[i];
            let used = uses(function, inst);
            let made = used.iter().filter_map(|&value| function.defining(value)).chain(binders.of(function, inst));
            let mut sources: HashSet<usize> = made.filter_map(|source| position.get(&source).copied()).collect();
            if !matches!(function.kind_of(inst), OpKind::Fusion | OpKind::Reshape | OpKind::Weight) {
                sources.extend(last_fixed.replace(i));
            }
            if function.kind_of(inst) == OpKind::Return {
                sources.extend(0..i);
            }
            scheduler.waits[i] = sources.len();
            sources.into_iter().for_each(|source| scheduler.waiting[source].push(i));
            let is_view = function.kind_of(inst) == OpKind::Reshape;
            let read: BTreeSet<Value> = match is_view {
                true => BTreeSet::new(),
                false => used.into_iter().filter_map(|value| scheduler.memory(&position, value)).collect(),
            };
            read.iter().for_each(|&value| *scheduler.readers.entry(value).or_default() += 1);
            scheduler.reads.push(read);
            scheduler.bytes.extend(function.results_of(inst).iter().map(|&value| (value, bytes(function, value))));
        }
        scheduler
    }

    /// The value whose memory holds a value, if it is temporary memory of this block.
    fn memory(&self, position: &HashMap<Inst, usize>, mut value: Value) -> Option<Value> {
        loop {
            let inst = self.function.defining(value).filter(|inst| position.contains_key(inst))?;
            match self.function.kind_of(inst) {
                OpKind::Reshape => value = self.function.operands(inst)[0],
                OpKind::Weight => return None,
                _ => return Some(value),
            }
        }
    }

    /// The change of memory in use that an op makes.
    fn growth(&self, i: usize) -> i64 {
        let made = self.function.results_of(self.insts[i]).iter().map(|value| self.bytes[value]);
        let freed = self.reads[i].iter().filter(|value| self.readers[value] == 1).map(|value| self.bytes[value]);
        made.fold(0, i64::saturating_add).saturating_sub(freed.fold(0, i64::saturating_add))
    }

    fn order(mut self) -> Vec<Inst> {
        let mut ready: BTreeSet<usize> = (0..self.insts.len()).filter(|&i| self.waits[i] == 0).collect();
        let mut order = Vec::with_capacity(self.insts.len());
        while let Some(&earliest) = ready.first() {
            let groups = ready.iter().copied().filter(|&i| self.function.kind_of(self.insts[i]) == OpKind::Fusion);
            let frees = groups.map(|i| (self.growth(i), i)).filter(|&(growth, _)| growth < 0).min();
            let next = frees.map_or(earliest, |(_, i)| i);
            ready.remove(&next);
            order.push(self.insts[next]);
            for value in std::mem::take(&mut self.reads[next]) {
                self.readers.entry(value).and_modify(|left| *left -= 1);
            }
            for waiting in std::mem::take(&mut self.waiting[next]) {
                self.waits[waiting] -= 1;
                if self.waits[waiting] == 0 {
                    ready.insert(waiting);
                }
            }
        }
        order
    }
}

fn bytes(function: &Function, value: Value) -> i64 {
    let Some(tensor) = function.ty(value).shaped() else { return 0 };
    let count = tensor.element_count().eval(&|_| Some(NOMINAL)).unwrap_or(i64::MAX);
    count.saturating_mul(tensor.dtype.size() as i64)
}

#[cfg(test)]
mod tests {
    use crate::{buffers::schedule_groups, fusion::fuse, options::Options, testing::after_all};

    #[test]
    fn what_frees_more_than_it_takes_goes_first() {
        let text = after_all(
            &[&fuse::PASS, &schedule_groups::PASS],
            "func @f(%x: tensor<[B]x8xf32>, %y: tensor<8x[B]xf32>) -> (tensor<[B]x[B]xf32>, tensor<[B]xf32>, tensor<[B]x[B]xf32>) {
              %zero = constant dense<0.0> : tensor<f32>
              %a = dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<[B]x8xf32>, tensor<8x[B]xf32>) -> tensor<[B]x[B]xf32>
              %b = dot_general %a, %a, contracting_dims = [1] x [0] : (tensor<[B]x[B]xf32>, tensor<[B]x[B]xf32>) -> tensor<[B]x[B]xf32>
              %c = dot_general %b, %b, contracting_dims = [1] x [0] : (tensor<[B]x[B]xf32>, tensor<[B]x[B]xf32>) -> tensor<[B]x[B]xf32>
              %s = reduce %a, %zero, dims = [0] : (tensor<[B]x[B]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
              return %b, %s, %c : (tensor<[B]x[B]xf32>, tensor<[B]xf32>, tensor<[B]x[B]xf32>)
            }",
            Options::default(),
        );
        // Once `b` is made, `s` is the last to read `a`; `c` frees nothing.
        let place = |name: &str| text.find(&format!("%{name} = fusion")).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(place("b") < place("s") && place("s") < place("c"), "{text}");
    }
}
