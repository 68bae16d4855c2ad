//! Makes a failing capture minimal: fewer ops, smaller sizes, fewer facts.
//!
//! The search is for a part of the program that fails on its own: a value that compiled code gets
//! wrong, with as few ops before it as possible, whose other operands become inputs with the values
//! that the interpreter gives them. Then sizes shrink, as in delta debugging (Zeller and
//! Hildebrandt, 2002): each step is kept if the rest still fails.

use super::{CallFacts, Capture};
use crate::Error;
use disc_ir::{
    Attr, Function, FunctionKind, Inst, Module, OpKind, Type, Value,
    interp::{Limits, Tensor, run_with},
};
use std::collections::{BTreeSet, HashMap};

/// A capture that fails, and nothing of which can go.
#[derive(Debug)]
pub struct Reduced {
    pub capture: Capture,
    /// Ops of its entry, without constants and the return.
    pub ops: usize,
    /// Runs that the search took.
    pub runs: usize,
}

/// Most ops before a value that are tried with it.
const MOST_OPS: usize = 64;

/// Makes a capture minimal of which `fails` is true; `None` if it is false of the capture itself.
///
/// # Errors
/// The capture cannot be run by the interpreter.
pub fn reduce(capture: &Capture, fails: &mut dyn FnMut(&Capture) -> bool) -> Result<Option<Reduced>, Error> {
    let mut search = Search { fails, runs: 0 };
    if !search.fails(capture) {
        return Ok(None);
    }
    let mut found = capture.clone();
    if let Some(smaller) = search.fewer_ops(capture)? {
        found = smaller;
    }
    found = search.fewer_facts(found);
    found = search.smaller_sizes(found);
    found.facts = CallFacts { outputs: Vec::new(), error: None, ..found.facts };
    let ops = found.module.function(&found.entry).map_or(0, |function| counted(function).len());
    Ok(Some(Reduced { capture: found, ops, runs: search.runs }))
}

struct Search<'a> {
    fails: &'a mut dyn FnMut(&Capture) -> bool,
    runs: usize,
}

impl Search<'_> {
    fn fails(&mut self, capture: &Capture) -> bool {
        self.runs += 1;
        disc_ir::verify::verify(&capture.module, disc_ir::ops::Stage::Tensor).is_ok() && (self.fails)(capture)
    }

    /// Finds the first op that fails with few others before it, and drops each of these that it
    /// can.
    fn fewer_ops(&mut self, capture: &Capture) -> Result<Option<Capture>, Error> {
        let parts = Parts::new(capture)?;
        for depth in [1, 2, 4, 8, 16, MOST_OPS] {
            for &inst in &parts.order {
                let chosen = parts.before(inst, depth);
                if depth > 1 && chosen.len() <= depth / 2 {
                    // All that is before it was tried already.
                    continue;
                }
                if let Some(part) = parts.extract(inst, &chosen).filter(|part| self.fails(part)) {
                    return Ok(Some(self.without_each(&parts, inst, chosen, part)));
                }
            }
        }
        Ok(None)
    }

    fn without_each(&mut self, parts: &Parts<'_>, inst: Inst, chosen: BTreeSet<usize>, found: Capture) -> Capture {
        let (mut chosen, mut found) = (chosen, found);
        for place in chosen.clone() {
            if parts.order[place] == inst {
                continue;
            }
            let mut fewer = chosen.clone();
            fewer.remove(&place);
            if let Some(part) = parts.extract(inst, &fewer).filter(|part| self.fails(part)) {
                (chosen, found) = (fewer, part);
            }
        }
        found
    }

    fn fewer_facts(&mut self, mut found: Capture) -> Capture {
        let mut without = found.clone();
        if let Some(function) = without.module.functions.iter_mut().find(|function| *function.name == *found.entry) {
            function.facts = Default::default();
        }
        if self.fails(&without) {
            found = without;
        }
        found
    }

    /// Tries smaller sizes of each dim that has a name of its own.
    fn smaller_sizes(&mut self, mut found: Capture) -> Capture {
        let Some(function) = found.module.function(&found.entry) else { return found };
        for symbol in function.bound_symbols() {
            let mut size = size_of(&found, symbol.name());
            while size > 1 {
                let tried = [1, size / 2, size - 1].into_iter().find_map(|smaller| {
                    let part = with_size(&found, symbol.name(), smaller).filter(|_| smaller < size)?;
                    self.fails(&part).then_some((smaller, part))
                });
                let Some((smaller, part)) = tried else { break };
                (size, found) = (smaller, part);
            }
        }
        found
    }
}

/// Returns the size that a dim has in a call; 0 if no parameter has it as a size.
fn size_of(capture: &Capture, name: &str) -> i64 {
    places_of(capture, name).first().map_or(0, |&(input, axis)| capture.inputs[input].dims()[axis])
}

/// Returns the parameters and axes whose size is this dim.
fn places_of(capture: &Capture, name: &str) -> Vec<(usize, usize)> {
    let Some(function) = capture.module.function(&capture.entry) else { return Vec::new() };
    let axes = |(i, &parameter): (usize, &Value)| {
        let dims = function.ty(parameter).shaped().map(|tensor| tensor.dims.clone()).unwrap_or_default();
        let same = dims.into_iter().enumerate().filter(|(_, dim)| dim.to_string() == name).map(move |(axis, _)| (i, axis));
        same.collect::<Vec<_>>()
    };
    function.parameters().iter().enumerate().flat_map(axes).collect()
}

/// Returns the capture with the leading part of each tensor along a dim.
fn with_size(capture: &Capture, name: &str, size: i64) -> Option<Capture> {
    let mut smaller = capture.clone();
    for (input, axis) in places_of(capture, name) {
        smaller.inputs[input] = leading(&smaller.inputs[input], axis, size)?;
    }
    Some(smaller)
}

fn leading(tensor: &Tensor, axis: usize, size: i64) -> Option<Tensor> {
    let dims = tensor.dims();
    let inner = dims[axis + 1..].iter().product::<i64>() as usize * tensor.dtype().size();
    let (old, new) = (dims[axis] as usize * inner, size as usize * inner);
    let bytes = if old == 0 { Vec::new() } else { tensor.bytes().chunks(old).flat_map(|row| &row[..new]).copied().collect() };
    let mut sizes = dims.to_vec();
    sizes[axis] = size;
    Tensor::new(tensor.dtype(), sizes, bytes).ok()
}

/// The ops of a function that are neither constants nor the return.
fn counted(function: &Function) -> Vec<Inst> {
    let is_work = |inst: &Inst| !matches!(function.kind_of(*inst), OpKind::Return | OpKind::Constant | OpKind::Weight);
    function.insts(function.body).iter().copied().filter(is_work).collect()
}

/// A program, and the values of one call of it.
struct Parts<'c> {
    capture: &'c Capture,
    function: &'c Function,
    /// The ops in the order of the program.
    order: Vec<Inst>,
    places: HashMap<Inst, usize>,
    values: HashMap<Value, Tensor>,
}

impl<'c> Parts<'c> {
    fn new(capture: &'c Capture) -> Result<Self, Error> {
        let missing = || Error::argument(format!("the program has no entry `{}`", capture.entry));
        let function = capture.module.function(&capture.entry).ok_or_else(missing)?;
        let order = counted(function);
        let places = order.iter().enumerate().map(|(i, &inst)| (inst, i)).collect();
        let values = Self::values(capture, function)?;
        Ok(Self { capture, function, order, places, values })
    }

    /// Runs the program by the interpreter with every tensor of its body as a result.
    fn values(capture: &Capture, function: &Function) -> Result<HashMap<Value, Tensor>, Error> {
        let mut module = capture.module.clone();
        let shown: Vec<Value> = function
            .insts(function.body)
            .iter()
            .filter(|&&inst| function.kind_of(inst) != OpKind::Return)
            .flat_map(|&inst| function.results_of(inst).to_vec())
            .filter(|&value| function.ty(value).shaped().is_some())
            .collect();
        let changed = module.functions.iter_mut().find(|f| f.name == function.name);
        if let Some(changed) = changed {
            returning(changed, &shown);
        }
        let weight = |name: &str| capture.weights.iter().find(|(known, _)| known == name).map(|(_, tensor)| tensor.clone());
        let made = run_with(&module, &capture.entry, &capture.inputs, &weight, Limits::default())?;
        let parameters = function.parameters().iter().copied().zip(capture.inputs.iter().cloned());
        Ok(shown.into_iter().zip(made).chain(parameters).collect())
    }

    /// Returns the places of an op and of those before it, nearest first, at most `most`.
    fn before(&self, inst: Inst, most: usize) -> BTreeSet<usize> {
        let mut chosen = BTreeSet::new();
        let mut next = std::collections::VecDeque::from([inst]);
        while let Some(inst) = next.pop_front() {
            let Some(&place) = self.places.get(&inst) else { continue };
            if chosen.len() == most || !chosen.insert(place) {
                continue;
            }
            next.extend(self.reads(inst).into_iter().filter_map(|value| self.function.defining(value)));
        }
        chosen
    }

    /// Returns the values that an op reads, in its regions too.
    fn reads(&self, inst: Inst) -> Vec<Value> {
        let function = self.function;
        let inside = function.inst(inst).regions.iter().flat_map(|&region| function.walk(region));
        inside.flat_map(|inner| function.operands(inner).to_vec()).chain(function.operands(inst).to_vec()).collect()
    }

    /// Returns a program of the chosen ops that returns the results of `inst`; other values that
    /// they read are its inputs. `None` if one of them is no tensor that has a value.
    fn extract(&self, inst: Inst, chosen: &BTreeSet<usize>) -> Option<Capture> {
        let mut function = Function::new(self.capture.entry.as_str(), FunctionKind::Func);
        function.facts = self.function.facts.clone();
        let mut map: HashMap<Value, Value> = HashMap::new();
        let (mut inputs, mut weights) = (Vec::new(), BTreeSet::new());
        for &place in chosen {
            for value in self.reads(self.order[place]) {
                if map.contains_key(&value) || self.is_inside(value) {
                    continue;
                }
                let made = self.function.defining(value);
                if made.is_some_and(|made| self.places.get(&made).is_some_and(|place| chosen.contains(place))) {
                    continue;
                }
                let is_free = made.filter(|&made| matches!(self.function.kind_of(made), OpKind::Constant | OpKind::Weight));
                if let Some(made) = is_free {
                    if let Some(Some(Attr::Symbol(name))) = self.function.inst(made).attrs.first() {
                        weights.insert(name.to_string());
                    }
                    let body = function.body;
                    let inst = function.import(self.function, made, &mut map);
                    function.append(body, inst);
                    continue;
                }
                let ty: Type = self.function.ty(value).clone();
                inputs.push(self.values.get(&value)?.clone());
                let body = function.body;
                map.insert(value, function.add_argument(body, ty));
            }
            let body = function.body;
            let copy = function.import(self.function, self.order[place], &mut map);
            function.append(body, copy);
        }
        let results: Vec<Value> =
            self.function.results_of(inst).iter().map(|value| map.get(value).copied()).collect::<Option<_>>()?;
        returning(&mut function, &results);
        let names = |name: &str| weights.contains(name);
        let module = Module {
            functions: [function]
                .into_iter()
                .chain(self.capture.module.functions.iter().filter(|f| *f.name != *self.capture.entry).cloned())
                .collect(),
            weights: self.capture.module.weights.iter().filter(|weight| names(&weight.name)).cloned().collect(),
            lines: self.capture.module.lines.clone(),
        };
        let weights = self.capture.weights.iter().filter(|(name, _)| names(name)).cloned().collect();
        let facts = CallFacts { outputs: Vec::new(), error: None, ..self.capture.facts.clone() };
        Some(Capture { module, entry: self.capture.entry.clone(), inputs, weights, facts })
    }

    /// Returns true for arguments and results within a region of an op.
    fn is_inside(&self, value: Value) -> bool {
        match self.function.defining(value) {
            Some(made) => !self.function.insts(self.function.body).contains(&made),
            None => !self.function.parameters().contains(&value),
        }
    }
}

/// Makes a function return these values, and nothing else.
fn returning(function: &mut Function, values: &[Value]) {
    let body = function.body;
    if let Some(end) = function.terminator(body) {
        let kept = function.insts(body).iter().copied().filter(|&inst| inst != end).collect();
        function.set_insts(body, kept);
    }
    let end = disc_ir::graph::InstData {
        kind: OpKind::Return,
        operands: values.iter().copied().collect(),
        results: Default::default(),
        attrs: Default::default(),
        regions: Default::default(),
        span: None,
        origin: None,
    };
    let end = function.add_inst(end, []);
    function.append(body, end);
    function.results = values.iter().map(|&value| function.ty(value).clone()).collect();
    function.stores.clear();
}
