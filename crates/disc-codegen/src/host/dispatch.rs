//! Writes the choice among the versions of a group in a host program, the launches of each, and the
//! memory that they share.
//!
//! All conditions of a guard are evaluated; its version runs if all hold. The versions are nested
//! `if`s, and the last branch has no guard. Memory shared by launches is at the end of the arena,
//! after all values; the next group uses it again.
use crate::schedule::{self, Argument, Condition, Launch, Version, Work};
use disc_ir::{Attr, Block, Builder, Code, DType, Diagnostic, Dim, Function, OpKind, Solver, Space, TensorType, Type, Value};
use std::sync::Arc;

/// Writes the conditions of a version; returns a value of the host program that is true if all
/// hold.
pub(super) fn guard(
    host: &mut Function,
    block: Block,
    version: &Version,
    memory: (&[Value], &[Value]),
    solver: &Arc<Solver>,
) -> Result<Value, Diagnostic> {
    let mut builder = Builder::at(host, block, solver.clone());
    let mut all: Option<Value> = None;
    let conditions: Vec<Value> =
        version.guard.iter().map(|wanted| condition(&mut builder, wanted, memory)).collect::<Result<_, _>>()?;
    for holds in conditions {
        all = Some(match all {
            Some(all) => builder.op(OpKind::And).operands(&[all, holds]).value()?,
            None => holds,
        });
    }
    Ok(all.expect("a guard has a condition"))
}

/// Writes a condition; returns a value that is true if it holds.
fn condition(
    builder: &mut Builder<'_>,
    condition: &Condition,
    (inputs, outputs): (&[Value], &[Value]),
) -> Result<Value, Diagnostic> {
    match condition {
        Condition::Less(smaller, larger) => less(builder, smaller, larger),
        // A remainder is not negative: it is 0 where it is less than 1.
        Condition::Divides(divisor, dim) => less(builder, &dim.modulo(&Dim::constant(*divisor)), &Dim::constant(1)),
        Condition::Aligned(arguments, bytes) => {
            let place = |argument: &Argument| match *argument {
                Argument::Input(position) => inputs[position],
                Argument::Output(position) => outputs[position],
                Argument::Workspace(_) | Argument::Product => unreachable!("memory of the runtime is aligned"),
            };
            let buffers: Vec<Value> = arguments.iter().map(place).collect();
            builder.op(OpKind::Aligned).operands(&buffers).attr("bytes", *bytes).value()
        }
        Condition::Nontemporal { outputs: positions, bytes } => {
            let buffers: Vec<Value> = positions.iter().map(|&position| outputs[position]).collect();
            builder.op(OpKind::Nontemporal).operands(&buffers).attr("bytes", bytes.clone()).value()
        }
    }
}

fn less(builder: &mut Builder<'_>, smaller: &Dim, larger: &Dim) -> Result<Value, Diagnostic> {
    let operands = [size(builder, smaller)?, size(builder, larger)?];
    builder.op(OpKind::Compare).operands(&operands).attr("direction", "LT").value()
}

/// Writes the value of a dim.
fn size(builder: &mut Builder<'_>, dim: &Dim) -> Result<Value, Diagnostic> {
    match dim.as_const() {
        Some(value) => {
            let literal = disc_ir::Literal::splat_i64(DType::I64, value);
            builder.op(OpKind::Constant).attr("value", literal).result(Type::scalar(DType::I64)).value()
        }
        None => builder.op(OpKind::DimValue).attr("value", dim.clone()).result(Type::scalar(DType::I64)).value(),
    }
}

/// Returns true if a version would write past the caches to memory of an input: it would read these
/// lines all the same.
pub(super) fn writes_over(host: &Function, version: &Version, memory: &[Value], inputs: usize) -> bool {
    let read: Vec<(Value, Dim)> = memory[..inputs].iter().map(|&input| place(host, input)).collect();
    version.guard.iter().any(|condition| match condition {
        Condition::Nontemporal { outputs, .. } => {
            outputs.iter().any(|&output| read.contains(&place(host, memory[inputs + output])))
        }
        Condition::Less(..) | Condition::Divides(..) | Condition::Aligned(..) => false,
    })
}

/// The memory that a buffer is a part of, and where it begins there.
pub(super) fn place(host: &Function, mut buffer: Value) -> (Value, Dim) {
    let mut offset = Dim::constant(0);
    while let Some(inst) = host.defining(buffer) {
        match (host.kind_of(inst), &host.inst(inst).attrs[..]) {
            (OpKind::View, _) => {}
            (OpKind::Alloc, [Some(Attr::Dim(at)), ..]) => offset += at,
            _ => break,
        }
        buffer = host.operands(inst)[0];
    }
    (buffer, offset)
}

/// Launches kernels on a group's memory: its inputs, then its outputs.
pub(super) fn launch(
    host: &mut Function,
    block: Block,
    launches: &[Launch],
    memory: &[Value],
    inputs: usize,
    workspaces: &[Value],
    solver: &Arc<Solver>,
) -> Result<(), Diagnostic> {
    for launch in launches {
        let argument = |argument: &Argument| match *argument {
            Argument::Input(position) => memory[position],
            Argument::Output(position) => memory[inputs + position],
            Argument::Workspace(position) => workspaces[position],
            Argument::Product => unreachable!("only the rest of a product reads its result, and that is no launch of its own"),
        };
        if !launch.copies.is_empty()
            && launch.copies.iter().all(|(from, to)| place(host, argument(from)) == place(host, argument(to)))
        {
            continue;
        }
        let mut arguments: Vec<Value> = launch.arguments.iter().map(argument).collect();
        let mut builder = Builder::at(host, block, solver.clone());
        for dim in &launch.sizes {
            arguments.push(size(&mut builder, dim)?);
        }
        if let Work::Grid { blocks, shared, scratch, persistent } = &launch.work {
            let op = builder.op(OpKind::LaunchGrid).operands(&arguments).attr("kernel", Attr::Symbol(launch.kernel.clone()));
            let op = op.attr("blocks", blocks.clone()).attr("shared", shared.clone()).attr("scratch", scratch.clone());
            if *persistent { op.attr("persistent", true) } else { op }.build()?;
            continue;
        }
        let [units, cost, scratch] = on_threads(launch)?;
        let mut op = builder
            .op(OpKind::Launch)
            .operands(&arguments)
            .attr("kernel", Attr::Symbol(launch.kernel.clone()))
            .attr("units", units)
            .attr("cost", cost)
            .attr("scratch", scratch);
        if let Some(offer) = &launch.product {
            let role = |of: &Argument| launch.arguments.iter().position(|known| known == of).map_or(-1, |i| i as i64);
            let result = offer.result.as_ref().map_or(-1, role);
            op = op.attr("product", offer.dims.to_vec()).attr("roles", vec![role(&offer.left), role(&offer.right), result]);
            if let Some(rest) = &offer.rest {
                let work = on_threads(rest)?.to_vec();
                let roles: Vec<i64> = rest.arguments.iter().map(role).collect();
                op = op.attr("rest", Attr::Symbol(rest.kernel.clone())).attr("rest_roles", roles).attr("rest_work", work);
            }
        }
        op.build()?;
    }
    Ok(())
}

/// Returns the units, the cost and the task memory of a launch on the threads of a CPU.
fn on_threads(launch: &Launch) -> Result<[Dim; 3], Diagnostic> {
    match &launch.work {
        Work::Units { units, cost, scratch } => Ok([units.clone(), cost.clone(), scratch.clone()]),
        Work::Grid { .. } => {
            let message = format!("kernel `{}` runs on a grid, and is the rest of a library's product on a CPU", launch.kernel);
            Err(Diagnostic::new(Code::E0501, message))
        }
    }
}

/// The end of a host program's arena, for what launches share.
pub(super) struct Workspace {
    arena: Value,
    /// Its first byte.
    start: Dim,
    needs: Vec<Dim>,
}

impl Workspace {
    /// The workspace of a host program; it has one `arena`.
    pub(super) fn of(host: &Function) -> Option<Self> {
        let inst = host.walk(host.body).into_iter().find(|&inst| host.kind_of(inst) == OpKind::Arena)?;
        match &host.inst(inst).attrs[0] {
            Some(Attr::Dim(start)) => Some(Self { arena: host.result(inst), start: start.clone(), needs: Vec::new() }),
            _ => None,
        }
    }

    /// Returns true if the memory of a version has a size, or a bound, that is known when a call
    /// begins.
    pub(super) fn has_room(host: &Function, workspaces: &[schedule::Workspace]) -> bool {
        workspaces.iter().all(|workspace| Self::bytes(host, workspace).is_some())
    }

    /// The bytes to set aside, or a bound if they depend on sizes that data binds later.
    fn bytes(host: &Function, workspace: &schedule::Workspace) -> Option<Dim> {
        let later = host.data_dims();
        let is_known = |bytes: &&Dim| !bytes.symbols().iter().any(|symbol| later.contains(symbol));
        [Some(&workspace.bytes), workspace.most.as_ref()].into_iter().flatten().find(is_known).cloned()
    }

    /// Memory for the launches of one version.
    pub(super) fn take(
        &mut self,
        host: &mut Function,
        block: Block,
        workspaces: &[schedule::Workspace],
        solver: &Arc<Solver>,
    ) -> Result<Vec<Value>, Diagnostic> {
        let (mut offset, mut found) = (self.start.clone(), Vec::new());
        for workspace in workspaces {
            let bytes = Self::bytes(host, workspace).expect("a version is taken where its memory is bounded");
            let ty = Type::Buffer { tensor: workspace.tensor.clone(), space: Space::Global };
            let mut builder = Builder::at(host, block, solver.clone());
            let op = builder.op(OpKind::Alloc).operands(&[self.arena]).result(ty);
            found.push(op.attr("offset", offset.clone()).attr("bytes", bytes.clone()).value()?);
            offset += &bytes;
        }
        let need = offset - &self.start;
        if !self.needs.contains(&need) {
            self.needs.push(need);
        }
        Ok(found)
    }

    /// Makes room for the largest need.
    pub(super) fn make_room(self, host: &mut Function) {
        let Some(need) = Dim::max_of(self.needs) else { return };
        let bytes = self.start + &need;
        let inst = host.defining(self.arena).expect("the arena is the result of an op");
        let tensor = TensorType::new([bytes.clone()], DType::U8);
        host.set_type(self.arena, Type::Buffer { tensor, space: Space::Global });
        host.inst_mut(inst).attrs[0] = Some(Attr::Dim(bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Scheduled, VersionKind};

    /// The lines of a host program that check a guard.
    fn checks(conditions: Vec<Condition>) -> Vec<String> {
        let text = "host @main(%x: buffer<[S]xf32>) { return }";
        let mut host = disc_ir::parse(text).expect("a host program").functions.remove(0);
        let solver = Arc::new(Solver::new(&host.facts));
        let outputs = host.parameters().to_vec();
        let block = host.body;
        host.set_insts(block, Vec::new());
        let version =
            Version { kind: VersionKind::Nontemporal, guard: conditions, code: Scheduled::default(), workspaces: Vec::new() };
        guard(&mut host, block, &version, (&outputs, &outputs), &solver).expect("a guard");
        let text = host.to_string();
        text.lines().filter_map(|line| line.trim().split_once(" = ")).map(|(_, op)| op.to_owned()).collect()
    }

    #[test]
    fn a_grid_has_a_launch_of_its_own() {
        let mut host = disc_ir::parse("host @main() { return }").expect("a host program").functions.remove(0);
        let [shared, scratch] = [0, 64].map(Dim::constant);
        let work = Work::Grid { blocks: size(), shared, scratch, persistent: true };
        let grid = Launch {
            kernel: "k0_grid".into(),
            arguments: Vec::new(),
            sizes: Vec::new(),
            work,
            copies: Vec::new(),
            product: None,
        };
        let (block, solver) = (host.body, Arc::new(Solver::new(&host.facts)));
        launch(&mut host, block, &[grid], &[], 0, &[], &solver).expect("a launch");
        let text = host.to_string();
        assert!(text.contains("launch_grid @k0_grid(), blocks = [S], shared = [0], scratch = [64], persistent = true"), "{text}");
    }

    fn size() -> Dim {
        Dim::symbol("S")
    }

    #[test]
    fn a_condition_compares_sizes() {
        let less = checks(vec![Condition::Less(Dim::constant(8), size())]);
        assert_eq!(less, ["constant dense<8> : i64", "dim [S] : i64", "compare LT, %0, %1 : (i64, i64) -> i1"]);
        let divides = checks(vec![Condition::Divides(4, size())]);
        assert_eq!(divides, ["dim [S%4] : i64", "constant dense<1> : i64", "compare LT, %0, %1 : (i64, i64) -> i1"]);
    }

    #[test]
    fn all_conditions_have_to_hold() {
        let memory = Condition::Nontemporal { outputs: vec![0], bytes: size() * 4 };
        let lines = checks(vec![Condition::Divides(4, size()), memory]);
        assert_eq!(lines[3..], ["nontemporal %x, bytes = [4*S] : (buffer<[S]xf32>) -> i1", "and %2, %3 : i1"]);
    }
}
