//! Verifies the ops of GPU kernels.
//!
//! Invariants:
//! - Ops of threads (`place`, `barrier`, ...) are only in GPU kernels: not in routines, which may
//!   be called by some of the threads.
//! - A GPU kernel, and a routine that it calls, has no op that only vector registers do: masks and
//!   indices that are vectors, `lane_mask` of several lanes, `dot_lanes` and `dot_pairs`,
//!   non-temporal stores. It accesses memory, and moves elements between lanes, by 16 bytes at
//!   most; a part of a tile is accessed as a whole.
//! - Segments of lanes, tiles and matrices are as large as the grid's warps admit.
//! - What the threads of a warp or a block do together is where all of them arrive: the conditions
//!   around it are equal for all of them ([`super::uniformity`]).
use super::{
    Check,
    stage::describe,
    structure::name,
    uniformity::{Uniform, Uniformity, conditions},
};
use crate::{
    attr::Attr,
    diag::{Code, Diagnostic},
    fragment::Tile,
    graph::{Block, Function, FunctionKind, Grid, Inst, Module, Value},
    ops::{OpKind, is_of_threads},
    types::Type,
};
use std::{collections::HashSet, sync::Arc};

/// The most bytes that a thread reads or writes at once.
const ACCESS_BYTES: usize = 16;
/// Threads that read a matrix together.
const MATRIX_WARP: u32 = 32;

/// Returns the names of the routines that GPU kernels call, also through others.
pub(super) fn routines(module: &Module) -> HashSet<Arc<str>> {
    let mut found = HashSet::new();
    let mut open: Vec<&Function> = module.functions.iter().filter(|function| function.grid.is_some()).collect();
    while let Some(function) = open.pop() {
        for inst in function.walk(function.body) {
            let callee = match (function.kind_of(inst), function.inst(inst).attrs.first()) {
                (OpKind::Call, Some(Some(Attr::Symbol(name)))) => module.function(name),
                _ => None,
            };
            let routine = callee.filter(|callee| callee.kind == FunctionKind::Routine);
            open.extend(routine.filter(|routine| found.insert(Arc::clone(&routine.name))));
        }
    }
    found
}

pub(super) fn check(cx: &mut Check<'_>) {
    let function = cx.function;
    let is_threads = function.grid.is_some() || cx.routines.contains(&function.name);
    for inst in function.walk(function.body) {
        // The type of shared memory says where it belongs.
        let is_of_one = tile(function, inst).is_some_and(|tile| tile.warp() == 1);
        if function.grid.is_none()
            && is_of_threads(function.kind_of(inst))
            && function.kind_of(inst) != OpKind::Shared
            && !is_of_one
        {
            let is_rule = matches!(function.kind_of(inst), OpKind::CommitCopies | OpKind::WaitGrid | OpKind::ReleaseGrid);
            let constraint = if is_rule { "(C1) " } else { "" };
            let message = format!("{constraint}a {} has no threads: a grid kernel has", describe(function.kind));
            cx.op_error(Code::E0208, inst, message);
        }
        if is_threads && let Some(form) = of_vector_registers(function, inst) {
            let message = format!("{form}: no thread of a grid kernel can do that");
            cx.op_error(Code::E0208, inst, message);
        }
        let fits = function.grid.map_or(Ok(()), |grid| check_warp(function, inst, grid));
        cx.op_result(inst, fits);
    }
    if let Some(grid) = function.grid {
        let uniformity = Uniformity::of(function, grid);
        check_together(cx, &uniformity, function.body, Around { level: Uniform::Block, cause: None });
    }
}

/// Returns the form of an op that a thread of a grid does not have.
fn of_vector_registers(function: &Function, inst: Inst) -> Option<String> {
    let ty = |value: &Value| function.ty(*value);
    let lanes = |value: Option<&Value>| match value.map(ty) {
        Some(Type::Vector { lanes, .. }) => *lanes,
        _ => 1,
    };
    let operands = function.operands(inst);
    let kind = function.kind_of(inst);
    match kind {
        OpKind::LaneMask if lanes(function.results_of(inst).first()) == 1 => None,
        OpKind::LaneMask | OpKind::DotLanes | OpKind::DotPairs | OpKind::LoadTile | OpKind::StoreTile => {
            Some("an op of vector registers".into())
        }
        OpKind::Load | OpKind::Store => {
            let (accessed, mask) = if kind == OpKind::Load { (function.result(inst), 2) } else { (operands[2], 3) };
            match () {
                () if lanes(operands.get(1)) > 1 => Some(format!("an index of type {}", ty(&operands[1]))),
                () if lanes(operands.get(mask)) > 1 => Some(format!("a mask of type {}", ty(&operands[mask]))),
                () if has(function, inst, "nontemporal") => Some("a non-temporal store".into()),
                () if bytes(ty(&accessed)) > ACCESS_BYTES && !is_fragment(ty(&accessed)) => {
                    Some(format!("an access of {} bytes, more than {ACCESS_BYTES}", bytes(ty(&accessed))))
                }
                () => None,
            }
        }
        OpKind::TransposeLanes | OpKind::ZipLanes | OpKind::UnzipLanes | OpKind::PickLanes | OpKind::RecastLanes => {
            let moved = operands.first().map_or(0, |operand| bytes(ty(operand)));
            (moved > ACCESS_BYTES && lanes(operands.first()) > 1)
                .then(|| format!("lanes of {moved} bytes that change places, more than {ACCESS_BYTES}"))
        }
        _ => None,
    }
}

/// Returns the tile of an op that multiplies tiles.
fn tile(function: &Function, inst: Inst) -> Option<Tile> {
    let multiplies = function.kind_of(inst) == OpKind::MultiplyTiles;
    multiplies.then(|| Tile::from_name(function.attr_word(inst, "tile"))).flatten()
}

/// Returns true if a thread holds values of this type as its part of a tile.
fn is_fragment(ty: &Type) -> bool {
    let Type::Vector { lanes, dtype } = ty else { return false };
    let parts = Tile::ALL.into_iter().filter(|tile| tile.warp() > 1).flat_map(|tile| [tile.a(), tile.b(), tile.c()]);
    parts.into_iter().any(|part| part.lanes == *lanes && part.dtypes.contains(dtype))
}

fn bytes(ty: &Type) -> usize {
    match ty {
        Type::Vector { lanes, dtype } => *lanes as usize * dtype.size(),
        _ => 0,
    }
}

fn attr<'f>(function: &'f Function, inst: Inst, name: &str) -> Option<&'f Attr> {
    let position = function.def(inst).attr_position(name)?;
    function.inst(inst).attrs.get(position)?.as_ref()
}

fn has(function: &Function, inst: Inst, name: &str) -> bool {
    attr(function, inst, name).is_some()
}

/// Checks an op against the number of threads of a warp.
fn check_warp(function: &Function, inst: Inst, grid: Grid) -> Result<(), Diagnostic> {
    let message = match function.kind_of(inst) {
        OpKind::Shuffle | OpKind::ReduceGroup => match attr(function, inst, "width") {
            Some(&Attr::Int(width)) if width > grid.warp.into() => {
                format!("(C1) `width` is {width}, and a warp has {} threads", grid.warp)
            }
            _ => return Ok(()),
        },
        OpKind::MultiplyTiles => match tile(function, inst) {
            Some(tile) if tile.warp() != grid.warp => {
                format!("(C2) {} threads hold a tile `{}`, and a warp has {}", tile.warp(), tile.name(), grid.warp)
            }
            _ => return Ok(()),
        },
        OpKind::LoadMatrix if grid.warp != MATRIX_WARP => {
            format!("(C3) {MATRIX_WARP} threads read matrices, and a warp has {}", grid.warp)
        }
        _ => return Ok(()),
    };
    Err(Diagnostic::new(Code::E0209, message))
}

/// The threads that run a block of ops: those for which the conditions around it hold.
#[derive(Clone, Copy)]
struct Around {
    /// The largest groups that run it as a whole, or not at all.
    level: Uniform,
    /// The op around it, and its condition, that splits larger groups.
    cause: Option<(Inst, Value)>,
}

/// Checks that what threads do together is where all of them arrive.
fn check_together(cx: &mut Check<'_>, uniformity: &Uniformity, block: Block, around: Around) {
    let function = cx.function;
    for &inst in function.insts(block) {
        if let (Some((needed, constraint)), Some((op, condition))) = (together(function, inst), around.cause)
            && around.level < needed
        {
            let group = if needed == Uniform::Block { "block" } else { "warp" };
            let role = if function.kind_of(op) == OpKind::For { "a bound" } else { "the condition" };
            let (value, op) = (name(cx, condition), function.def(op).name);
            let message = format!(
                "(C{constraint}) the threads of a {group} do this together, and {value}, {role} of the `{op}` around it, differs among them"
            );
            cx.op_error(Code::E0214, inst, message);
        }
        let mut inside = around;
        for &condition in conditions(function, inst) {
            if uniformity.level(condition) < inside.level {
                inside = Around { level: uniformity.level(condition), cause: Some((inst, condition)) };
            }
        }
        for &region in &function.inst(inst).regions {
            check_together(cx, uniformity, region, inside);
        }
    }
}

/// Returns the threads that do an op together, and the number of the constraint that says so.
fn together(function: &Function, inst: Inst) -> Option<(Uniform, u32)> {
    match function.kind_of(inst) {
        OpKind::Barrier if function.attr_word(inst, "scope") == "block" => Some((Uniform::Block, 1)),
        OpKind::Barrier => Some((Uniform::Warp, 1)),
        OpKind::ReduceGroup | OpKind::Vote => Some((Uniform::Warp, 2)),
        OpKind::Shuffle | OpKind::MultiplyTiles => Some((Uniform::Warp, 3)),
        OpKind::LoadMatrix => Some((Uniform::Warp, 4)),
        _ => None,
    }
}
