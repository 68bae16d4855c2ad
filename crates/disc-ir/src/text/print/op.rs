//! Prints one op.
use super::{
    super::parse::{combines_two, is_indexed, is_leading, pair, takes_short_form},
    Printer, attrs,
};
use crate::{
    attr::{Attr, AttrKind},
    build::region_type,
    dim::{Facts, Solver},
    graph::Inst,
    infer::{InferCx, infer_op},
    ops::{Arity, OpDef, OpKind},
    types::Type,
};

/// One type, or a list in parentheses.
pub(super) fn types(types: &[Type]) -> String {
    match types {
        [ty] => ty.to_string(),
        _ => list(types),
    }
}

fn list(types: &[Type]) -> String {
    format!("({})", types.iter().map(Type::to_string).collect::<Vec<_>>().join(", "))
}

impl Printer<'_> {
    pub(super) fn op(&mut self, inst: Inst) {
        let function = self.function;
        let data = function.inst(inst);
        let def = data.kind.def();
        let operands: Vec<String> = data.operands.iter().map(|&v| self.name(v)).collect();
        self.new_line();
        let results = data.results.iter().map(|&v| format!("%{}", self.scope.define(v, function.name_of(v).map(|n| &**n))));
        let results: Vec<String> = results.collect();
        if !results.is_empty() {
            self.write(format_args!("{} = ", results.join(", ")));
        }
        self.out.push_str(def.name);
        let items = self.items(inst, def, operands);
        if !items.is_empty() {
            self.write(format_args!(" {}", items.join(", ")));
        }
        self.signature(inst);
        self.regions(inst, def);
        if let Some(line) = self.lines.zip(data.origin).and_then(|(lines, origin)| lines.get(origin)) {
            self.out.push_str(&super::super::location::text(line));
        } else if let Some(span) = data.span.filter(|_| self.options.locs) {
            self.write(format_args!(" loc({}:{})", span.start, span.end));
        }
        let end = self.out.len();
        if let Some(ended) = &mut self.ended {
            ended(inst, end);
        }
        self.out.push('\n');
    }

    /// Returns the parts between the op's name and its signature, which commas separate.
    fn items(&self, inst: Inst, def: &OpDef, operands: Vec<String>) -> Vec<String> {
        let data = self.function.inst(inst);
        let result = data.results.first().map(|&v| self.function.ty(v));
        let leading = def.attrs.first().filter(|attr| attr.required && is_leading(attr.kind, def)).and(data.attrs.first());
        let leading = leading.and_then(Option::as_ref);
        let mut items = Vec::new();
        let mut written = Written::default();
        if let Some(attr) = leading {
            written.leading = true;
            items.push(attrs::value(attr, result));
        }
        match (leading, &operands[..]) {
            (Some(Attr::Symbol(_)), _) if !def.operands.is_empty() => items[0].push_str(&format!("({})", operands.join(", "))),
            (_, [buffer, index, rest @ ..]) if is_indexed(def) => {
                items.push(format!("{buffer}[{index}]"));
                items.extend(rest.iter().cloned());
            }
            (_, [operand]) if data.kind == OpKind::Slice => match bounds(&data.attrs) {
                Some(bounds) => {
                    written.bounds = true;
                    items.push(format!("{operand} {bounds}"));
                }
                None => items.push(operand.clone()),
            },
            _ => items.extend(operands),
        }
        if !written.bounds {
            items.extend(named(def, &data.attrs, usize::from(written.leading), result));
        }
        items
    }

    fn signature(&mut self, inst: Inst) {
        let data = self.function.inst(inst);
        let ty = |&value| self.function.ty(value).clone();
        let operands: Vec<Type> = data.operands.iter().map(ty).collect();
        let results: Vec<Type> = data.results.iter().map(ty).collect();
        // An op that might have results states that it has none.
        let has_none = results.is_empty() && data.kind.def().results.is_empty();
        // One type alone stands for the results that the op must have, or that are named.
        let is_counted = !results.is_empty() || data.kind.def().results.iter().all(|result| result.arity != Arity::One);
        let mut all = operands.iter().chain(&results);
        let text = match all.next() {
            None if has_none => return,
            Some(first) if is_counted && all.all(|ty| ty == first) => first.to_string(),
            _ if has_none => list(&operands),
            _ if operands.is_empty() && !results.is_empty() => format!("-> {}", types(&results)),
            _ => format!("{} -> {}", list(&operands), types(&results)),
        };
        self.write(format_args!(" : {text}"));
    }

    fn regions(&mut self, inst: Inst, def: &OpDef) {
        let function = self.function;
        let regions = &function.inst(inst).regions;
        if let Some(applied) = self.applied(inst, def) {
            return self.write(format_args!(" applies {applied}"));
        }
        for (&region, name) in regions.iter().zip(def.regions) {
            self.scope.open();
            let arguments = self.arguments(region);
            if arguments.is_empty() {
                self.write(format_args!(" {name} "));
            } else {
                self.write(format_args!(" {name}({arguments}) "));
            }
            self.block(region);
            self.scope.close();
        }
    }

    /// Returns the op that a region combines two scalars with, if the short form expresses all of
    /// the region.
    fn applied(&self, inst: Inst, def: &OpDef) -> Option<String> {
        let function = self.function;
        let data = function.inst(inst);
        let (true, [region]) = (takes_short_form(def), &data.regions[..]) else { return None };
        let [applied, end] = *function.insts(*region) else { return None };
        let inner = function.inst(applied);
        let dtype = function.ty(*data.operands.first()?).dtype();
        let scalar = Type::tensor([], dtype);
        let arguments = function.arguments(*region);
        let is_plain = function.kind_of(end) == OpKind::Return
            && function.operands(end) == &inner.results[..]
            && arguments == &inner.operands[..]
            && combines_two(inner.kind.def())
            && arguments.iter().all(|&argument| *function.ty(argument) == scalar);
        if !is_plain || self.inferred(applied)? != region_type(function, *region).results {
            return None;
        }
        short_name(inner.kind.def(), &inner.attrs)
    }

    fn inferred(&self, inst: Inst) -> Option<Vec<Type>> {
        let data = self.function.inst(inst);
        let operands: Vec<Type> = data.operands.iter().map(|&v| self.function.ty(v).clone()).collect();
        let solver = Solver::new(&Facts::default());
        let cx = InferCx {
            def: data.kind.def(),
            operands: &operands,
            attrs: &data.attrs,
            regions: &[],
            declared: None,
            solver: &solver,
        };
        infer_op(&cx).ok()
    }
}

/// `name = value` of the attributes from `first` on; not of an element type that the result has.
fn named(def: &OpDef, slots: &[Option<Attr>], first: usize, result: Option<&Type>) -> Vec<String> {
    let mut items = Vec::new();
    let mut paired = Vec::new();
    for (i, (attr, slot)) in def.attrs.iter().zip(slots).enumerate().skip(first) {
        let Some(value) = slot else { continue };
        let follows = attr.kind == AttrKind::DType && attr.required && result.is_some_and(|ty| *value == Attr::DType(ty.dtype()));
        if follows || paired.contains(&i) {
            continue;
        }
        let text = attrs::value(value, result);
        match pair(def, i).and_then(|(plain, rhs)| Some((plain, rhs, slots.get(rhs)?.as_ref()?))) {
            Some((plain, rhs, other)) => {
                paired.push(rhs);
                items.push(format!("{plain} = {text} x {}", attrs::value(other, result)));
            }
            None => items.push(format!("{} = {text}", attr.name)),
        }
    }
    items
}

/// The attributes that are already written.
#[derive(Default)]
struct Written {
    leading: bool,
    bounds: bool,
}

fn bounds(slots: &[Option<Attr>]) -> Option<String> {
    let [Some(Attr::Dims(start)), Some(Attr::Dims(limit)), strides] = slots else { return None };
    let strides = match strides {
        Some(Attr::Ints(strides)) => Some(&strides[..]),
        _ => None,
    };
    // Without a dimension, the list could not show that there are strides.
    let fits = start.len() == limit.len() && strides.is_none_or(|s| s.len() == start.len() && !s.is_empty());
    fits.then(|| attrs::bounds(start, limit, strides))
}

/// Returns the op's name, and its one attribute if that is written without a name.
fn short_name(def: &OpDef, slots: &[Option<Attr>]) -> Option<String> {
    let mut given =
        slots.iter().zip(def.attrs).enumerate().filter_map(|(i, (slot, attr))| slot.as_ref().map(|value| (i, attr, value)));
    match (given.next(), given.next()) {
        (None, _) => Some(def.name.to_owned()),
        (Some((0, attr, value)), None) if attr.required && is_leading(attr.kind, def) => {
            Some(format!("{} {}", def.name, attrs::value(value, None)))
        }
        _ => None,
    }
}
