//! Moves computation that is the same in every call into a function that runs once.
//!
//! `@prepare` has no parameters; its result number `i` is a weight of the module (`weight
//! @w.prepared = prepared i`), which the entries read. The runtime calls it when weights are loaded
//! or refreshed.
//!
//! Invariants:
//! - A moved value depends on a weight (others are folded), and takes not much more memory than the
//!   weights it is made from (rows of f32 that were halves up to three times).
//! - Values that cost nothing at their use stay: broadcasts, reshapes, constants, conversions
//!   before packed matmuls, slices of padded rows.
//! - Values of a region move too, although it may run never or often.
//! - Entries that need the same value share it.
use crate::{
    analysis::{
        call_invariant::{CallInvariant, uses},
        query::Query,
    },
    pass::{PassCx, PassDef},
    rules::dead_ops,
    tensor::cse,
};
use disc_ir::{
    Attr, Code, DType, Diagnostic, Function, FunctionKind, Inst, Module, OpKind, Type, Value,
    graph::{InstData, PREPARE, Weight},
    ops::Stage,
};
use smallvec::{SmallVec, smallvec};
use std::{
    collections::{HashMap, HashSet},
    fmt::Write,
    sync::Arc,
};

/// Results up to this size may be larger than the weights they are made from.
const SMALL: u128 = 1 << 20;
/// The most that rows of f32 with their padding may take, in multiples of those of halves.
const WIDENED: u128 = 3;

/// Moves values that depend on weights alone into `@prepare`.
pub static PASS: PassDef = PassDef {
    name: "prepare",
    doc: "Moves computation that depends on weights alone into the function `@prepare`, which runs once when weights are loaded and \
          whose results are weights.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// A value of an entry, and the value of `@prepare` that it becomes.
struct PreparedValue {
    function: usize,
    value: Value,
    /// The weight that it is made from, or the first of several.
    source: Arc<str>,
    prepared: Value,
}

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    if let Some(function) = module.function(PREPARE) {
        let message = format!("the name @{PREPARE} is taken by the function that prepares weights");
        return Err(Diagnostic::new(Code::E0104, message).at(function.span));
    }
    let mut prepare = Function::new(PREPARE, FunctionKind::Func);
    let mut moved = Vec::new();
    for (index, function) in module.functions.iter().enumerate().filter(|(_, f)| f.kind == FunctionKind::Func) {
        let mut map = HashMap::new();
        let fixed = CallInvariant::of(function);
        let sources = Sources::of(function, &fixed);
        let keeps_biases = cx.options.model.converts_biases();
        let values: Vec<Value> =
            frontier(function, &fixed, &sources, keeps_biases).into_iter().take_while(|_| cx.spend()).collect();
        copy(function, &values, &mut prepare, &mut map);
        let moves = values.into_iter();
        moved.extend(moves.map(|value| PreparedValue {
            function: index,
            value,
            source: sources.name(value),
            prepared: map[&value],
        }));
    }
    if moved.is_empty() {
        return Ok(0);
    }
    // Entries that share weights often prepare them in the same way.
    let same = cse::merge_equal(&mut prepare, &mut PassCx::default());
    for one in &mut moved {
        one.prepared = same.get(&one.prepared).copied().unwrap_or(one.prepared);
    }
    let names = finish(module, prepare, &moved, cx);
    for (index, function) in module.functions.iter_mut().enumerate() {
        let here = moved.iter().filter(|one| one.function == index).map(|one| (one.value, &names[&one.prepared]));
        read_weights(function, &here.collect::<Vec<_>>());
    }
    Ok(moved.len())
}

/// The values to prepare, in order: the last ones before ops that depend on a call.
fn frontier(function: &Function, fixed: &CallInvariant, sources: &Sources, keeps_biases: bool) -> Vec<Value> {
    let mut needed: HashSet<Value> = HashSet::new();
    let mut found = Vec::new();
    let (read, rows) = (read_in_panels(function), read_as_rows(function));
    for inst in function.walk(function.body).into_iter().rev() {
        let results = function.results_of(inst);
        let is_fixed = !results.is_empty() && results.iter().all(|&value| fixed.contains(value));
        let wanted: Vec<Value> = results.iter().copied().filter(|value| needed.contains(value)).collect();
        if is_fixed && wanted.is_empty() {
            continue;
        }
        if is_fixed
            && fixed.depends_on_weights(results[0])
            && is_worth(function, inst, sources, &rows)
            && !is_read(function, inst, &read)
            && !is_front_of_padded(function, inst)
            && !(keeps_biases && is_widened_bias(function, inst))
        {
            found.extend(wanted);
        } else {
            // Each op in its regions needs its own operands.
            needed.extend(function.operands(inst));
        }
    }
    found.reverse();
    found
}

/// The bytes of the weights that each value is made from, and the name of the first.
struct Sources(HashMap<Value, (u128, Arc<str>)>);

impl Sources {
    /// A weight that is used twice counts twice, since this only bounds the memory of a result.
    fn of(function: &Function, fixed: &CallInvariant) -> Self {
        let mut sources: HashMap<Value, (u128, Arc<str>)> = HashMap::new();
        for inst in function.walk(function.body) {
            let Some(&result) = function.results_of(inst).first().filter(|&&value| fixed.depends_on_weights(value)) else {
                continue;
            };
            let source = match function.attr(inst, "name") {
                Some(Attr::Symbol(name)) if function.kind_of(inst) == OpKind::Weight => {
                    (size(function, result), Arc::clone(name))
                }
                _ => {
                    let used = uses(function, inst);
                    let mut used = used.iter().filter_map(|value| sources.get(value));
                    let Some((bytes, name)) = used.next() else { continue };
                    (bytes + used.map(|(bytes, _)| bytes).sum::<u128>(), Arc::clone(name))
                }
            };
            function.results_of(inst).iter().for_each(|&value| drop(sources.insert(value, source.clone())));
        }
        Self(sources)
    }

    fn bytes(&self, value: Value) -> u128 {
        self.0.get(&value).map_or(0, |(bytes, _)| *bytes)
    }

    fn name(&self, value: Value) -> Arc<str> {
        self.0.get(&value).map_or_else(|| PREPARE.into(), |(_, name)| Arc::clone(name))
    }
}

fn size(function: &Function, value: Value) -> u128 {
    let Some(tensor) = function.ty(value).as_tensor() else { return u128::MAX };
    let count = tensor.dims.iter().map(|dim| dim.as_const().map_or(u128::MAX, |size| size.max(0) as u128));
    count.fold(tensor.dtype.size() as u128, u128::saturating_mul)
}

/// Returns true if a value is a kernel transformed for Winograd's method: four times larger, but
/// always prepared.
fn is_transformed_kernel(function: &Function, value: Value) -> bool {
    let reads = |&&inst: &&Inst| function.kind_of(inst) == OpKind::Winograd && function.operands(inst)[2] == value;
    function.insts(function.body).iter().any(|inst| reads(&inst))
}

/// Collects the values that matmuls read on the left, through views, paddings and slices, and that
/// are f32 made of a half type: `pack_weights::rows` converts these, and they are prepared although
/// they take twice the memory of the weight.
fn read_as_rows(function: &Function) -> HashSet<Value> {
    let mut found = HashSet::new();
    for inst in function.walk(function.body).into_iter().filter(|&inst| function.kind_of(inst) == OpKind::DotGeneral) {
        let (mut behind, mut next) = (Vec::new(), function.operands(inst).first().copied());
        while let Some(value) = next {
            behind.push(value);
            next =
                function.defining(value).filter(|&maker| is_rearranged(function, maker)).map(|maker| function.operands(maker)[0]);
        }
        let widens = behind.last().and_then(|&value| function.made_by(value, OpKind::Convert)).is_some_and(|convert| {
            let is_half = matches!(function.ty(function.operands(convert)[0]).dtype(), DType::BF16 | DType::F16);
            is_half && function.ty(function.result(convert)).dtype() == DType::F32
        });
        found.extend(behind.into_iter().filter(|_| widens));
    }
    found
}

fn is_rearranged(function: &Function, inst: Inst) -> bool {
    matches!(function.kind_of(inst), OpKind::BroadcastInDim | OpKind::Pad | OpKind::Reshape | OpKind::Slice)
}

/// Values that only packed matmuls read, which convert elements on reading.
fn read_in_panels(function: &Function) -> HashSet<Value> {
    let (mut read, mut others) = (HashSet::new(), HashSet::new());
    for inst in function.walk(function.body) {
        let is_panels = function.kind_of(inst) == OpKind::DotGeneral && function.attr(inst, "packed_columns").is_some();
        for (position, &operand) in function.operands(inst).iter().enumerate() {
            if is_panels && position == 1 {
                read.insert(operand)
            } else {
                others.insert(operand)
            };
        }
    }
    read.retain(|value| !others.contains(value));
    read
}

/// Returns true if an op widens a type or dequantises, only before matmuls.
fn is_read(function: &Function, inst: Inst, read: &HashSet<Value>) -> bool {
    let dtype = |value: Value| function.ty(value).dtype();
    let widens = |result: Value| dtype(result).holds(dtype(function.operands(inst)[0]));
    let unpacks = |value: Value| match function.kind_of(inst) {
        OpKind::UnpackInt4 => true,
        OpKind::Convert => widens(value),
        _ => false,
    };
    function.results_of(inst).iter().all(|&value| read.contains(&value) && unpacks(value))
}

/// Returns true if an op widens a stored vector that is only added to matmuls, as a bias.
fn is_widened_bias(function: &Function, inst: Inst) -> bool {
    let &[source] = function.operands(inst) else { return false };
    let widens = || function.ty(function.result(inst)).dtype().holds(function.ty(source).dtype());
    if function.kind_of(inst) != OpKind::Convert || function.made_by(source, OpKind::Weight).is_none() || !widens() {
        return false;
    }
    let all = function.walk(function.body);
    let users = |value: Value| {
        let reads = move |user: &&Inst| function.operands(**user).contains(&value);
        all.iter().filter(reads).copied().collect::<Vec<_>>()
    };
    let multiplies = |&value: &Value| {
        let inst = function.defining(value);
        inst.is_some_and(|inst| matches!(function.kind_of(inst), OpKind::DotGeneral | OpKind::Convolution))
    };
    let is_added = |inst: Inst| function.kind_of(inst) == OpKind::Add && function.operands(inst).iter().any(multiplies);
    let is_repeated =
        |inst: Inst| function.kind_of(inst) == OpKind::BroadcastInDim && users(function.result(inst)).into_iter().all(is_added);
    users(function.result(inst)).into_iter().all(is_repeated)
}

/// Returns true if an op reads rows that were padded apart; see `pack_weights::rows`.
fn is_front_of_padded(function: &Function, inst: Inst) -> bool {
    function.is_front(inst) && function.made_by(function.operands(inst)[0], OpKind::Pad).is_some()
}

fn is_worth(function: &Function, inst: Inst, sources: &Sources, rows: &HashSet<Value>) -> bool {
    let is_free = matches!(
        function.kind_of(inst),
        OpKind::Weight | OpKind::Constant | OpKind::Iota | OpKind::BroadcastInDim | OpKind::Reshape | OpKind::DimValue
    );
    let is_modest = |&value: &Value| {
        let bytes = size(function, value);
        let is_widened = rows.contains(&value) && bytes <= WIDENED * sources.bytes(value);
        bytes <= SMALL || bytes < 2 * sources.bytes(value) || is_widened || is_transformed_kernel(function, value)
    };
    !is_free && function.results_of(inst).iter().all(is_modest)
}

/// Copies the computation of `values` to the end of `prepare`.
fn copy(function: &Function, values: &[Value], prepare: &mut Function, map: &mut HashMap<Value, Value>) {
    let mut needed: HashSet<Value> = values.iter().copied().collect();
    let mut wanted: Vec<Inst> = Vec::new();
    for inst in function.walk(function.body).into_iter().rev() {
        if function.results_of(inst).iter().any(|value| needed.contains(value)) {
            wanted.push(inst);
            needed.extend(uses(function, inst));
        }
    }
    for &inst in wanted.iter().rev() {
        let made = prepare.import(function, inst, map);
        prepare.append(prepare.body, made);
    }
}

/// Finishes `@prepare`, and adds it and its weights to the module; returns their names. A value
/// that is ready already becomes a plain weight.
fn finish(module: &mut Module, mut prepare: Function, moved: &[PreparedValue], cx: &mut PassCx) -> HashMap<Value, Arc<str>> {
    let mut names = HashMap::new();
    let mut results: SmallVec<[Value; 3]> = SmallVec::new();
    let recipes: HashMap<Value, String> = moved.iter().map(|one| (one.prepared, recipe(&prepare, one.prepared))).collect();
    let tensor = |prepare: &Function, value: Value| prepare.ty(value).as_tensor().expect("a tensor function").clone();
    for one in moved {
        let Some(name) = cx.options.ready.get(&recipes[&one.prepared]) else { continue };
        if names.insert(one.prepared, Arc::clone(name)).is_none() {
            let ty = tensor(&prepare, one.prepared);
            module.weights.push(Weight { name: Arc::clone(name), ty, data: None, prepared: None });
        }
    }
    for one in moved {
        names.entry(one.prepared).or_insert_with(|| {
            let name = unused_name(module, &one.source);
            cx.recipes.insert(recipes[&one.prepared].clone(), Arc::clone(&name));
            let ty = tensor(&prepare, one.prepared);
            prepare.results.push(Type::Tensor(ty.clone()));
            let prepared = u32::try_from(results.len()).ok();
            module.weights.push(Weight { name: Arc::clone(&name), ty, data: None, prepared });
            results.push(one.prepared);
            name
        });
    }
    if results.is_empty() {
        return names;
    }
    let end = prepare.add_inst(InstData { operands: results, ..plain(OpKind::Return) }, []);
    prepare.append(prepare.body, end);
    dead_ops::remove_dead(&mut prepare);
    module.functions.push(prepare);
    names
}

/// The computation of a value from weights as text: ops with attributes and types in order, without
/// value names.
fn recipe(prepare: &Function, value: Value) -> String {
    let mut needed: HashSet<Value> = HashSet::from([value]);
    let mut wanted: Vec<Inst> = Vec::new();
    for &inst in prepare.insts(prepare.body).iter().rev() {
        if prepare.results_of(inst).iter().any(|result| needed.contains(result)) {
            wanted.push(inst);
            needed.extend(uses(prepare, inst));
        }
    }
    let (mut text, mut numbers) = (String::new(), HashMap::new());
    wanted.iter().rev().for_each(|&inst| write_recipe(prepare, inst, &mut numbers, &mut text));
    let _ = write!(text, "-> {}", numbers[&value]);
    text
}

fn write_recipe(prepare: &Function, inst: Inst, numbers: &mut HashMap<Value, usize>, text: &mut String) {
    let data = prepare.inst(inst);
    let _ = write!(text, "{}{:?}", data.kind.name(), data.attrs);
    write_values(prepare, data.operands.iter().chain(&data.results), numbers, text);
    for &region in &data.regions {
        text.push('{');
        write_values(prepare, prepare.arguments(region), numbers, text);
        prepare.insts(region).iter().for_each(|&inner| write_recipe(prepare, inner, numbers, text));
        text.push('}');
    }
    text.push(';');
}

fn write_values<'v>(
    prepare: &Function,
    values: impl IntoIterator<Item = &'v Value>,
    numbers: &mut HashMap<Value, usize>,
    text: &mut String,
) {
    for &value in values {
        let next = numbers.len();
        let _ = write!(text, ",{}:{}", numbers.entry(value).or_insert(next), prepare.ty(value));
    }
}

fn unused_name(module: &Module, source: &str) -> Arc<str> {
    let first = format!("{source}.prepared");
    let mut names = std::iter::once(first.clone()).chain((1..).map(|i| format!("{first}.{i}")));
    names.find(|name| module.weight(name).is_none()).expect("there are finitely many weights").into()
}

/// Replaces values by weights, each read where the value was computed.
fn read_weights(function: &mut Function, values: &[(Value, &Arc<str>)]) {
    let mut replaced = HashMap::new();
    let mut in_front: HashMap<Inst, Vec<Inst>> = HashMap::new();
    for &(value, name) in values {
        let Some(inst) = function.defining(value) else { continue };
        let attrs = smallvec![Some(Attr::Symbol(Arc::clone(name)))];
        let (span, origin) = (function.inst(inst).span, function.inst(inst).origin);
        let weight = function.add_inst(InstData { attrs, span, origin, ..plain(OpKind::Weight) }, [function.ty(value).clone()]);
        let result = function.result(weight);
        function.inherit_name(value, result);
        replaced.insert(value, result);
        in_front.entry(inst).or_default().push(weight);
    }
    let regions = function.walk(function.body).into_iter().flat_map(|inst| function.inst(inst).regions.to_vec());
    for block in regions.chain([function.body]).collect::<Vec<_>>() {
        let insts = function.insts(block).iter().flat_map(|inst| {
            let mut here = in_front.get(inst).cloned().unwrap_or_default();
            here.push(*inst);
            here
        });
        let insts = insts.collect();
        function.set_insts(block, insts);
    }
    function.replace_uses(&replaced);
    dead_ops::remove_dead(function);
}

/// An op of this kind without operands and attributes.
fn plain(kind: OpKind) -> InstData {
    InstData {
        kind,
        operands: smallvec![],
        results: smallvec![],
        attrs: smallvec![],
        regions: smallvec![],
        span: None,
        origin: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::{options::Options, pass::PassManager, tensor::prepare, testing::parse};
    use std::{collections::HashMap, sync::Arc};

    fn program(size: &str, more: &str) -> String {
        format!(
            "weight @w : tensor<8xf32>
            func @main(%x: tensor<{size}x8xf32>) -> tensor<{size}x8xf32> {{
              %w = weight @w : tensor<8xf32>
              %e = exponential %w : tensor<8xf32>
              %t = {more} %w : tensor<8xf32>
              %s = broadcast_in_dim %e, dims = [1] : (tensor<8xf32>) -> tensor<{size}x8xf32>
              %u = broadcast_in_dim %t, dims = [1] : (tensor<8xf32>) -> tensor<{size}x8xf32>
              %a = multiply %x, %s : tensor<{size}x8xf32>
              %y = add %a, %u : tensor<{size}x8xf32>
              return %y : tensor<{size}x8xf32>
            }}"
        )
    }

    fn prepared(text: &str, ready: HashMap<String, Arc<str>>) -> (disc_ir::Module, HashMap<String, Arc<str>>) {
        let mut module = parse(text);
        let mut manager = PassManager::new(Options { ready: Arc::new(ready), ..Options::default() });
        manager.run(&mut module, &prepare::PASS).unwrap_or_else(|error| panic!("{module}\n{error}"));
        (module, manager.cx.recipes)
    }

    #[test]
    fn what_is_ready_is_a_plain_weight_and_the_rest_is_prepared() {
        let (first, recipes) = prepared(&program("[B]", "tanh"), HashMap::new());
        assert_eq!((recipes.len(), first.weights.iter().filter(|w| w.prepared.is_some()).count()), (2, 2));

        let (same, own) = prepared(&program("3", "tanh"), recipes.clone());
        assert!(own.is_empty() && same.function("prepare").is_none(), "{same}");
        assert_eq!(same.weights.iter().filter(|w| w.prepared.is_none()).count(), 3, "{same}");

        let (other, own) = prepared(&program("3", "sine"), recipes.clone());
        assert_eq!(own.len(), 1, "{other}");
        let prepare = other.function("prepare").unwrap().to_string();
        assert!(prepare.contains("sine") && !prepare.contains("exponential"), "{prepare}");
        let plain: Vec<&str> = other.weights.iter().filter(|w| w.prepared.is_none()).map(|w| &*w.name).collect();
        let ready = recipes.iter().find(|(recipe, _)| recipe.contains("exponential")).unwrap().1;
        assert_eq!(plain, ["w", &**ready], "{other}");
    }
}
