//! Outlines constants with several elements as weights, so that code holds no data.
//!
//! Invariant: equal constants become one weight, empty ones too. A splat stays in the code.
use crate::{
    analysis::query::Query,
    pass::{PassCx, PassDef},
};
use disc_ir::{
    Attr, Diagnostic, FunctionKind, Literal, Module, OpKind, TensorType,
    graph::{InstData, Weight},
    ops::Stage,
};
use smallvec::smallvec;
use std::{collections::HashMap, sync::Arc};

/// Makes a weight with data of each constant that is not a splat.
pub static PASS: PassDef = PassDef {
    name: "outline-constants",
    doc: "Outlines constants that are no splats as weights with data; equal ones become one.",
    stages: (Stage::Tensor, Stage::Tensor),
    run,
};

/// The weights that hold constants, by content.
struct Tables {
    names: HashMap<(TensorType, Arc<[u8]>), Arc<str>>,
    added: Vec<Weight>,
    next: usize,
}

fn run(module: &mut Module, cx: &mut PassCx) -> Result<usize, Diagnostic> {
    let known = module.weights.iter().filter_map(|weight| {
        let data = weight.data.as_ref().filter(|data| !data.splat)?;
        Some(((weight.ty.clone(), Arc::clone(&data.bytes)), Arc::clone(&weight.name)))
    });
    let mut tables = Tables { names: known.collect(), added: Vec::new(), next: 0 };
    let mut changes = 0;
    for f in 0..module.functions.len() {
        let function = &module.functions[f];
        if function.kind != FunctionKind::Func {
            continue;
        }
        for inst in function.walk(function.body) {
            let function = &module.functions[f];
            let Some((ty, literal)) = table(function, inst) else { continue };
            if !cx.spend() {
                break;
            }
            let name = tables.name(module, ty, literal);
            let old = module.functions[f].inst_mut(inst);
            let data = InstData { kind: OpKind::Weight, attrs: smallvec![Some(Attr::Symbol(name))], ..old.clone() };
            *old = data;
            changes += 1;
        }
    }
    module.weights.append(&mut tables.added);
    Ok(changes)
}

fn table(function: &disc_ir::Function, inst: disc_ir::Inst) -> Option<(TensorType, Literal)> {
    if function.kind_of(inst) != OpKind::Constant {
        return None;
    }
    match function.attr(inst, "value") {
        // An empty constant is no splat either: it has no element that code could hold.
        Some(Attr::Literal(literal)) if literal.stored_len() != 1 => {
            Some((function.ty(function.result(inst)).as_tensor()?.clone(), literal.clone()))
        }
        _ => None,
    }
}

impl Tables {
    fn name(&mut self, module: &Module, ty: TensorType, literal: Literal) -> Arc<str> {
        let key = (ty.clone(), Arc::clone(&literal.bytes));
        if let Some(name) = self.names.get(&key) {
            return Arc::clone(name);
        }
        let name: Arc<str> = loop {
            let name = format!("constant${}", self.next);
            self.next += 1;
            if module.weight(&name).is_none() {
                break name.into();
            }
        };
        self.added.push(Weight { name: Arc::clone(&name), ty, data: Some(literal), prepared: None });
        self.names.insert(key, Arc::clone(&name));
        name
    }
}
