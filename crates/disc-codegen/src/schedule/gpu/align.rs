//! Finds the accesses of vectors whose addresses are multiples of their bytes: a GPU reads such a
//! vector at once, and another one lane by lane.
use disc_ir::{Attr, Block, Function, Inst, OpKind, Solver, Type, Value, graph::Source};
use std::collections::HashMap;

/// Marks the accesses of vectors at such addresses; the memory of each parameter starts at a
/// multiple of the bytes of its vectors, and so does shared memory.
pub(super) fn mark(kernel: &mut Function, solver: &Solver) {
    let mut marked = Vec::new();
    let mut found = Multiples::of(kernel, solver);
    for inst in kernel.walk(kernel.body) {
        let vector = match kernel.kind_of(inst) {
            OpKind::Load => kernel.result(inst),
            OpKind::Store => kernel.operands(inst)[2],
            _ => continue,
        };
        let &[buffer, index, ..] = kernel.operands(inst) else { continue };
        let Type::Vector { lanes, dtype } = *kernel.ty(vector) else { continue };
        let is_aligned = match kernel.source(buffer) {
            Source::Argument(block, _) => block == kernel.body,
            Source::Result(inst, _) => kernel.kind_of(inst) == OpKind::Shared,
        };
        if lanes > 1 && is_aligned && found.is_multiple(index, i64::from(lanes)) {
            marked.push((inst, i64::from(lanes) * dtype.size() as i64));
        }
    }
    for (inst, bytes) in marked {
        let position = kernel.def(inst).attr_position("align").expect("an access has an alignment");
        kernel.inst_mut(inst).attrs[position] = Some(Attr::Int(bytes));
    }
}

/// Returns true if the addresses of all asynchronous copies are multiples of what they copy.
pub(super) fn are_copies_aligned(kernel: &Function, solver: &Solver) -> bool {
    let mut found = Multiples::of(kernel, solver);
    let copies = kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == OpKind::CopyAsync);
    copies.into_iter().all(|inst| {
        let Some(&Attr::Int(elements)) = kernel.inst(inst).attrs.first().and_then(Option::as_ref) else { return false };
        let operands = kernel.operands(inst);
        [operands[1], operands[3]].into_iter().all(|index| found.is_multiple(index, elements))
    })
}

/// The values that are multiples of a number.
struct Multiples<'k> {
    kernel: &'k Function,
    solver: &'k Solver,
    known: HashMap<(Value, i64), bool>,
    /// The loops whose bodies are these blocks.
    loops: HashMap<Block, Inst>,
}

impl<'k> Multiples<'k> {
    fn of(kernel: &'k Function, solver: &'k Solver) -> Self {
        let all = kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == OpKind::For);
        let loops = all.map(|inst| (kernel.inst(inst).regions[0], inst)).collect();
        Self { kernel, solver, known: HashMap::new(), loops }
    }

    fn is_multiple(&mut self, value: Value, number: i64) -> bool {
        if number == 1 {
            return true;
        }
        if let Some(&known) = self.known.get(&(value, number)) {
            return known;
        }
        let found = match self.kernel.source(value) {
            Source::Result(inst, _) => self.of_op(inst, number),
            // The index of a loop: its start, and some steps.
            Source::Argument(block, 0) => self.loops.get(&block).copied().is_some_and(|inst| {
                let operands = self.kernel.operands(inst);
                self.is_multiple(operands[0], number) && self.is_multiple(operands[2], number)
            }),
            Source::Argument(..) => false,
        };
        self.known.insert((value, number), found);
        found
    }

    fn of_op(&mut self, inst: Inst, number: i64) -> bool {
        let operands = self.kernel.operands(inst).to_vec();
        let attr = self.kernel.inst(inst).attrs.first().and_then(Option::as_ref);
        match (self.kernel.kind_of(inst), attr) {
            (OpKind::Constant, Some(Attr::Literal(literal))) => literal.dtype.is_integer() && literal.i64_at(0) % number == 0,
            (OpKind::DimValue, Some(Attr::Dim(dim))) => self.solver.divisible(dim, number),
            (OpKind::Multiply, _) => self.of_product([operands[0], operands[1]], number),
            (OpKind::Add | OpKind::Subtract | OpKind::Minimum | OpKind::Maximum | OpKind::Remainder, _) => {
                operands.iter().all(|&operand| self.is_multiple(operand, number))
            }
            (OpKind::Select, _) => operands[1..].iter().all(|&operand| self.is_multiple(operand, number)),
            (OpKind::Convert, _) => self.is_multiple(operands[0], number),
            _ => false,
        }
    }

    /// Returns true if one factor is a multiple, or the factors have its prime factors together;
    /// the numbers are powers of two.
    fn of_product(&mut self, factors: [Value; 2], number: i64) -> bool {
        let mut part = 1;
        while part <= number {
            if self.is_multiple(factors[0], part) && self.is_multiple(factors[1], number / part) {
                return true;
            }
            part *= 2;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_multiple_if_its_parts_are() {
        let text = "kernel @k(%x: buffer<[B]x[N]xf32>) grid threads = 32, warp = 32 where N % 4 == 0 {
          %thread = place thread : i32
          %four = constant dense<4> : i32
          %one = constant dense<1> : i32
          %n = dim [N] : i32
          %start = multiply %thread, %n : i32
          %column = multiply %four, %thread : i32
          %at = add %start, %column : i32
          %next = add %at, %one : i32
          %a = load %x[%at] : (buffer<[B]x[N]xf32>, i32) -> vector<4xf32>
          %b = load %x[%next] : (buffer<[B]x[N]xf32>, i32) -> vector<4xf32>
          return
        }";
        let mut kernel = disc_ir::parse(text).unwrap_or_else(|errors| panic!("{}", errors[0])).functions.remove(0);
        let solver = Solver::new(&kernel.facts);
        mark(&mut kernel, &solver);
        let text = kernel.to_string();
        assert!(text.contains("load %x[%at], align = 16") && text.contains("load %x[%next] :"), "{text}");
    }
}
