//! Predicts the kernels and routines that a call with known sizes runs, so that they are compiled
//! first.
//!
//! It evaluates the scalars of host programs and kernels, and follows their branches, loops and
//! calls; memory is not read. Where a condition is not known both sides are followed, and of a long
//! loop only the first and the last turns. So it may name too many or too few: a caller needs a
//! remedy for what it left out.
use disc_ir::{
    Attr, Block, DType, Function, FunctionKind, Inst, Module, OpKind, Symbol, Type, Value, binding::bindings, graph::PREPARE,
};
use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

/// Turns that are followed at each end of a loop.
const TURNS: i64 = 256;
/// Turns that are followed in one launch.
const TURNS_OF_LAUNCH: u32 = 4096;

/// Returns the names of the kernels and routines that a call of `entry` with inputs of these sizes
/// runs, and those that prepare weights; `None` if the sizes are not those of the entry.
pub fn reached(module: &Module, entry: &str, inputs: &[Vec<i64>]) -> Option<BTreeSet<Arc<str>>> {
    let host = module.function(entry).filter(|function| function.kind == FunctionKind::Host)?;
    let mut sizes = HashMap::new();
    for binding in bindings(host) {
        let size = *inputs.get(binding.parameter)?.get(binding.axis)?;
        let rest = binding.rest.eval(&|symbol| sizes.get(symbol).copied()).ok()?;
        sizes.insert(binding.symbol.clone(), binding.solve(size, rest));
    }
    let mut walk = Walk {
        module,
        sizes,
        reached: BTreeSet::new(),
        launched: HashSet::new(),
        calling: HashMap::new(),
        turns: TURNS_OF_LAUNCH,
    };
    walk.host(host);
    if let Some(prepare) = module.function(PREPARE).filter(|_| module.is_prepare(PREPARE)) {
        walk.host(prepare);
    }
    Some(walk.reached)
}

/// A scalar: a number, or true as 1 and false as 0; `None` if it is not known.
type Known = Option<i64>;

struct Walk<'m> {
    module: &'m Module,
    sizes: HashMap<Symbol, i64>,
    reached: BTreeSet<Arc<str>>,
    /// Launches that were followed, by kernel and units.
    launched: HashSet<(Arc<str>, Known)>,
    /// Functions by name with the blocks that contain a call.
    calling: HashMap<Arc<str>, Arc<HashSet<Block>>>,
    /// Turns that the launch may still take.
    turns: u32,
}

/// A function that is followed, with the scalars that are known.
struct Frame<'m> {
    function: &'m Function,
    calling: Arc<HashSet<Block>>,
    values: Vec<Known>,
}

impl Frame<'_> {
    fn get(&self, value: Value) -> Known {
        self.values[value.index()]
    }

    fn bind(&mut self, values: &[Value], known: &[Known]) {
        for (i, value) in values.iter().enumerate() {
            self.values[value.index()] = known.get(i).copied().flatten();
        }
    }

    fn attr(&self, inst: Inst, name: &str) -> Option<&Attr> {
        self.function.inst(inst).attrs[self.function.def(inst).attr_position(name)?].as_ref()
    }
}

impl<'m> Walk<'m> {
    /// Follows the variants of a host program that may run, and the program itself unless one
    /// surely does.
    fn host(&mut self, host: &'m Function) {
        for variant in self.module.variants_of(host) {
            let guard = variant.guard(host);
            let holds: Vec<Option<bool>> =
                guard.iter().map(|fact| fact.holds(&|symbol| self.sizes.get(symbol).copied())).collect();
            if holds.contains(&Some(false)) {
                continue;
            }
            self.function(variant, &[]);
            if holds.iter().all(|holds| *holds == Some(true)) {
                return;
            }
        }
        self.function(host, &[]);
    }

    fn function(&mut self, function: &'m Function, arguments: &[Known]) {
        let calling = self.calling.entry(function.name.clone()).or_insert_with(|| Arc::new(calling_blocks(function))).clone();
        if !calling.contains(&function.body) {
            return;
        }
        let mut frame = Frame { function, calling, values: vec![None; function.value_count()] };
        self.block(&mut frame, function.body, arguments);
    }

    fn block(&mut self, frame: &mut Frame<'m>, block: Block, arguments: &[Known]) -> Vec<Known> {
        let function = frame.function;
        frame.bind(function.arguments(block), arguments);
        for &inst in function.insts(block) {
            let results = self.inst(frame, inst);
            frame.bind(function.results_of(inst), &results);
        }
        function.returned(block).iter().map(|&value| frame.get(value)).collect()
    }

    fn inst(&mut self, frame: &mut Frame<'m>, inst: Inst) -> Vec<Known> {
        let function = frame.function;
        let regions = &function.inst(inst).regions;
        match function.kind_of(inst) {
            OpKind::If => self.if_(frame, inst),
            OpKind::For if frame.calling.contains(&regions[0]) => self.for_(frame, inst),
            OpKind::While => {
                for &region in regions {
                    if frame.calling.contains(&region) {
                        self.block(frame, region, &[]);
                    }
                }
                Vec::new()
            }
            OpKind::Launch => {
                self.launch(frame, inst);
                Vec::new()
            }
            OpKind::Call => {
                let arguments: Vec<Known> = function.operands(inst).iter().map(|&value| frame.get(value)).collect();
                if let Some(Attr::Symbol(name)) = frame.attr(inst, "callee") {
                    let name = name.clone();
                    self.reach(&name, &arguments);
                }
                Vec::new()
            }
            _ => vec![self.scalar(frame, inst)],
        }
    }

    /// Notes a kernel or routine, and follows what it calls.
    fn reach(&mut self, name: &Arc<str>, arguments: &[Known]) {
        self.reached.insert(name.clone());
        if let Some(callee) = self.module.function(name) {
            self.function(callee, arguments);
        }
    }

    fn if_(&mut self, frame: &mut Frame<'m>, inst: Inst) -> Vec<Known> {
        let regions = &frame.function.inst(inst).regions;
        match frame.get(frame.function.operands(inst)[0]) {
            Some(truth) => self.block(frame, regions[usize::from(truth == 0)], &[]),
            None => {
                let [then, otherwise] = [0, 1].map(|i| self.block(frame, regions[i], &[]));
                then.iter().zip(&otherwise).map(|(a, b)| a.filter(|_| a == b)).collect()
            }
        }
    }

    fn for_(&mut self, frame: &mut Frame<'m>, inst: Inst) -> Vec<Known> {
        let region = frame.function.inst(inst).regions[0];
        let operands: Vec<Known> = frame.function.operands(inst).iter().map(|&value| frame.get(value)).collect();
        let [lower, upper, step, ref inits @ ..] = operands[..] else { return Vec::new() };
        let (Some(lower), Some(upper), Some(step)) = (lower, upper, step.filter(|&step| step > 0)) else {
            self.block(frame, region, &[]);
            return Vec::new();
        };
        let count = if lower < upper { ((i128::from(upper) - i128::from(lower) - 1) / i128::from(step) + 1) as i64 } else { 0 };
        let mut carried = inits.to_vec();
        let mut turn = 0;
        while turn < count {
            if turn == TURNS && count > 2 * TURNS {
                // Nothing is known of the values after the turns between.
                turn = count - TURNS;
                carried.fill(None);
            }
            match self.turns.checked_sub(1) {
                Some(left) => self.turns = left,
                None => return Vec::new(),
            }
            let arguments: Vec<Known> = [Some(lower + turn * step)].into_iter().chain(carried).collect();
            carried = self.block(frame, region, &arguments);
            turn += 1;
        }
        carried
    }

    fn launch(&mut self, frame: &Frame<'m>, inst: Inst) {
        let units = match frame.attr(inst, "units") {
            Some(Attr::Dim(units)) => units.eval(&|symbol| self.sizes.get(symbol).copied()).ok(),
            _ => None,
        };
        for name in ["kernel", "rest"] {
            let Some(Attr::Symbol(kernel)) = frame.attr(inst, name) else { continue };
            if units == Some(0) || !self.launched.insert((kernel.clone(), units)) {
                continue;
            }
            self.turns = TURNS_OF_LAUNCH;
            let buffers = self.module.function(kernel).map_or(0, |kernel| kernel.parameters().len().saturating_sub(2));
            let arguments: Vec<Known> = vec![None; buffers].into_iter().chain([Some(0), units]).collect();
            self.reach(kernel, &arguments);
        }
    }

    /// Evaluates an op that has one scalar as its result.
    fn scalar(&self, frame: &Frame<'m>, inst: Inst) -> Known {
        let function = frame.function;
        let [result] = function.results_of(inst) else { return None };
        if !matches!(function.ty(*result), Type::Vector { lanes: 1, dtype } if dtype.is_integer() || *dtype == DType::I1) {
            return None;
        }
        let operands = function.operands(inst);
        let operand = |i: usize| frame.get(*operands.get(i)?);
        match function.kind_of(inst) {
            OpKind::Constant => match frame.attr(inst, "value")? {
                Attr::Literal(literal) => Some(literal.i64_at(0)),
                _ => None,
            },
            OpKind::DimValue => match frame.attr(inst, "value")? {
                Attr::Dim(dim) => dim.eval(&|symbol| self.sizes.get(symbol).copied()).ok(),
                _ => None,
            },
            OpKind::Nontemporal => match frame.attr(inst, "bytes")? {
                Attr::Dim(dim) => {
                    let bytes = dim.eval(&|symbol| self.sizes.get(symbol).copied()).ok()?;
                    (bytes < disc_abi::LEAST_NONTEMPORAL_BYTES).then_some(0)
                }
                _ => None,
            },
            // Frameworks align their memory.
            OpKind::Aligned => Some(1),
            OpKind::Select => operand(if operand(0)? != 0 { 1 } else { 2 }),
            OpKind::Convert => operand(0),
            // A known side may decide.
            OpKind::And if operand(0) == Some(0) || operand(1) == Some(0) => Some(0),
            OpKind::Compare => {
                let (a, b) = (operand(0)?, operand(1)?);
                Some(i64::from(match function.attr_word(inst, "direction") {
                    "LT" => a < b,
                    "LE" => a <= b,
                    "GT" => a > b,
                    "GE" => a >= b,
                    "EQ" => a == b,
                    "NE" => a != b,
                    _ => return None,
                }))
            }
            kind => binary(kind, operand(0)?, operand(1)?),
        }
    }
}

fn binary(kind: OpKind, a: i64, b: i64) -> Known {
    match kind {
        OpKind::Add => a.checked_add(b),
        OpKind::Subtract => a.checked_sub(b),
        OpKind::Multiply => a.checked_mul(b),
        OpKind::Divide => a.checked_div(b),
        OpKind::Remainder => a.checked_rem(b),
        OpKind::Minimum => Some(a.min(b)),
        OpKind::Maximum => Some(a.max(b)),
        OpKind::And => Some(a & b),
        OpKind::Or => Some(a | b),
        OpKind::Xor => Some(a ^ b),
        _ => None,
    }
}

/// Returns the blocks that contain a call or a launch, themselves or in a region of theirs.
fn calling_blocks(function: &Function) -> HashSet<Block> {
    fn visit(function: &Function, block: Block, found: &mut HashSet<Block>) -> bool {
        let mut calls = false;
        for &inst in function.insts(block) {
            calls |= matches!(function.kind_of(inst), OpKind::Call | OpKind::Launch);
            for &region in &function.inst(inst).regions {
                calls |= visit(function, region, found);
            }
        }
        if calls {
            found.insert(block);
        }
        calls
    }
    let mut found = HashSet::new();
    visit(function, function.body, &mut found);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A host program with two versions, and a kernel that calls a routine by the rows of a block.
    const TEXT: &str = "host @main(%x: buffer<[N]xf32>) -> tensor<[N]xf32> {
      %y = alloc_output index = 0 : buffer<[N]xf32>
      %n = dim [N] : i64
      %ten = constant dense<10> : i64
      %few = compare LT, %n, %ten : (i64, i64) -> i1
      if %few : i1 then {
        launch @few(%x, %y), units = [N], cost = [N], scratch = [0] : (buffer<[N]xf32>, buffer<[N]xf32>)
        return
      } else {
        launch @many(%x, %y), units = [(N+11)/12], cost = [N], scratch = [0] : (buffer<[N]xf32>, buffer<[N]xf32>)
        return
      }
      return
    }
    kernel @few(%x: buffer<[N]xf32>, %y: buffer<[N]xf32>, %begin: i64, %end: i64) {
      return
    }
    kernel @many(%x: buffer<[N]xf32>, %y: buffer<[N]xf32>, %begin: i64, %end: i64) {
      %one = constant dense<1> : i64
      %rows = constant dense<12> : i64
      %n = dim [N] : i64
      for %begin, %end, %one : i64 do(%i: i64) {
        %first = multiply %i, %rows : i64
        %left = subtract %n, %first : i64
        %whole = compare LE, %rows, %left : (i64, i64) -> i1
        if %whole : i1 then {
          call @rows12(%y, %first) : (buffer<[N]xf32>, i64) -> ()
          return
        } else {
          call @rest(%y, %first) : (buffer<[N]xf32>, i64) -> ()
          return
        }
        return
      }
      return
    }
    routine @rows12(%y: buffer<[N]xf32>, %first: i64) {
      return
    }
    routine @rest(%y: buffer<[N]xf32>, %first: i64) {
      return
    }";

    fn of(n: i64) -> Vec<String> {
        let module = disc_ir::text::parse(TEXT).expect("the program is well-formed");
        let names = reached(&module, "main", &[vec![n]]).expect("the sizes are those of the entry");
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_version_and_the_routines_for_the_sizes_are_reached() {
        assert_eq!(of(9), ["few"]);
        assert_eq!(of(11), ["many", "rest"]);
        assert_eq!(of(24), ["many", "rows12"]);
        assert_eq!(of(30), ["many", "rest", "rows12"]);
    }

    #[test]
    fn of_a_long_loop_both_ends_are_followed() {
        assert_eq!(of(12 * 1_000_000 + 5), ["many", "rest", "rows12"]);
        assert_eq!(of(i64::MAX), ["many", "rest", "rows12"]);
    }

    #[test]
    fn sizes_of_another_program_reach_nothing() {
        let module = disc_ir::text::parse(TEXT).expect("the program is well-formed");
        assert_eq!(reached(&module, "main", &[]), None);
        assert_eq!(reached(&module, "few", &[vec![3]]), None);
    }
}
