//! Builds the metadata of a program for the runtime.
use crate::{compile::Origins, memory::temporary_bytes, tensors::dtype};
use disc_codegen::host::Program;
use disc_ir::{
    Attr, Function, FunctionKind, Inst, Lines, Module, OpKind, TensorType, Value,
    graph::{PREPARE, Weight},
};
use disc_ral::{BlobMeta, EntryMeta, InputMeta, ModuleMeta, OutputMeta, Site, WeightMeta};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Sorts the weights into the order of the runtime's table: plain ones, then prepared ones by the
/// result that makes them.
pub(crate) fn order_weights(module: &mut Module) {
    module.weights.sort_by_key(|weight| weight.prepared.map_or(0, |result| u64::from(result) + 1));
}

/// Removes the plain weights that no function reads.
pub(crate) fn drop_unread(module: &mut Module) {
    let used: HashSet<String> = module.functions.iter().flat_map(weights_of).map(str::to_owned).collect();
    module.weights.retain(|weight| weight.prepared.is_some() || used.contains(&*weight.name));
}

/// Builds the metadata of a program whose weights are in order.
pub(crate) fn describe(program: &Program) -> ModuleMeta {
    let module = &program.module;
    let hosts = || module.functions.iter().filter(|f| f.kind == FunctionKind::Host);
    let variants =
        |f: &Function| hosts().filter(|other| other.variant_of.as_ref().is_some_and(|of| **of == *f.name)).collect::<Vec<_>>();
    let used: HashSet<&str> = hosts().filter(|f| &*f.name != PREPARE).flat_map(weights_of).collect();
    let (plain, prepared): (Vec<&Weight>, Vec<&Weight>) = module.weights.iter().partition(|w| w.prepared.is_none());
    ModuleMeta {
        entries: hosts().filter(|f| &*f.name != PREPARE && f.variant_of.is_none()).map(|f| entry(f, &variants(f))).collect(),
        weights: plain.iter().map(|w| weight(w, !used.contains(&*w.name))).collect(),
        blobs: prepared.iter().map(|w| blob(w)).collect(),
        prepare: hosts().filter(|f| &*f.name == PREPARE).map(|f| disc_llvm::entry_symbol(&f.name)).collect(),
        grids: grids(module).map(|kernel| kernel.name.to_string()).collect(),
        sites: program.sites.iter().map(site).collect(),
        sources: sources(hosts().filter(|f| &*f.name != PREPARE)),
        lines: lines_of(&program.origins, &module.lines),
    }
}

/// Returns the GPU kernels, in the order of their numbers.
pub(crate) fn grids(module: &Module) -> impl Iterator<Item = &Function> {
    module.functions.iter().filter(|function| function.grid.is_some())
}

/// Returns the model's source lines of the kernels of each group.
pub(crate) fn lines_of(origins: &Origins, lines: &Lines) -> BTreeMap<String, Vec<String>> {
    let found = origins.iter().map(|(group, origins)| (group.clone(), lines.first_of(origins.iter().copied())));
    found.filter(|(_, lines)| !lines.is_empty()).collect()
}

/// Returns the modules of the model whose weights the kernels of each group read.
fn sources<'f>(hosts: impl Iterator<Item = &'f Function>) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for host in hosts {
        for inst in host.walk(host.body) {
            let Some(group) = launched(host, inst).and_then(|kernel| kernel.split('_').next()) else { continue };
            let read = host.operands(inst).iter().filter_map(|&operand| weight_behind(host, operand)).filter_map(module_of);
            found.entry(group.to_owned()).or_default().extend(read);
        }
    }
    found.retain(|_, modules| !modules.is_empty());
    found.into_iter().map(|(group, modules)| (group, of_a_kind(&modules))).collect()
}

/// Returns the kernel that an op launches.
fn launched(host: &Function, inst: Inst) -> Option<&str> {
    let position = OpKind::Launch.def().attr_position("kernel")?;
    match host.inst(inst).attrs.get(position)? {
        Some(Attr::Symbol(name)) if host.kind_of(inst) == OpKind::Launch => Some(name),
        _ => None,
    }
}

/// Returns the weight that a buffer is a part of.
fn weight_behind(host: &Function, mut buffer: Value) -> Option<&str> {
    loop {
        let inst = host.defining(buffer)?;
        match (host.kind_of(inst), &host.inst(inst).attrs[..]) {
            (OpKind::View, _) => buffer = *host.operands(inst).first()?,
            (OpKind::Weight, [Some(Attr::Symbol(name))]) => return Some(name),
            _ => return None,
        }
    }
}

/// Returns the module that a weight belongs to: `encoder.0` of `encoder.0.bias`, and of
/// `encoder.0.weight.prepared`.
fn module_of(weight: &str) -> Option<String> {
    let plain = weight.find(".prepared").map_or(weight, |end| &weight[..end]);
    plain.rsplit_once('.').map(|(module, _)| module.to_owned())
}

/// Joins the names that differ only in numbers: `encoder.*` for `encoder.0` and `encoder.1`.
fn of_a_kind(modules: &BTreeSet<String>) -> Vec<String> {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut kinds: BTreeMap<String, Vec<&String>> = BTreeMap::new();
    for module in modules {
        let parts: Vec<&str> = module.split('.').map(|part| if is_number(part) { "*" } else { part }).collect();
        kinds.entry(parts.join(".")).or_default().push(module);
    }
    kinds.into_iter().map(|(kind, members)| if let [one] = members[..] { one.clone() } else { kind }).collect()
}

/// Returns the weights that a function reads.
fn weights_of(function: &Function) -> Vec<&str> {
    let insts = function.walk(function.body);
    let names =
        insts.iter().filter(|&&i| function.kind_of(i) == OpKind::Weight).filter_map(|&i| match &function.inst(i).attrs[..] {
            [Some(Attr::Symbol(name))] => Some(&**name),
            _ => None,
        });
    names.collect()
}

fn entry(function: &Function, variants: &[&Function]) -> EntryMeta {
    let inputs = function.parameters().iter().enumerate().map(|(i, &parameter)| {
        let tensor = function.ty(parameter).shaped().expect("a parameter is a buffer");
        let name = function.name_of(parameter).map_or_else(|| format!("input{i}"), ToString::to_string);
        InputMeta { name, dtype: dtype(tensor.dtype), dims: dims(tensor), host: false, written: function.is_written(i) }
    });
    let outputs = function.results.iter().enumerate().map(|(i, ty)| {
        let tensor = ty.shaped().expect("a result is a tensor");
        OutputMeta {
            name: format!("output{i}"),
            dtype: dtype(tensor.dtype),
            dims: dims(tensor),
            host: false,
            alias: function.stored_into(i),
        }
    });
    EntryMeta {
        name: function.name.to_string(),
        symbol: disc_llvm::entry_symbol(&function.name),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        constraints: function.facts.iter().map(|fact| fact.to_string()).collect(),
        temporary_bytes: temporary_bytes(function, variants).map(|bytes| bytes.to_string()),
    }
}

fn weight(weight: &Weight, prepare_only: bool) -> WeightMeta {
    WeightMeta { name: weight.name.to_string(), dtype: dtype(weight.ty.dtype), sizes: sizes(weight), prepare_only }
}

fn blob(weight: &Weight) -> BlobMeta {
    let bytes = sizes(weight).iter().product::<i64>() as u64 * weight.ty.dtype.size() as u64;
    BlobMeta { name: weight.name.to_string(), bytes, prepare: 0 }
}

fn sizes(weight: &Weight) -> Vec<i64> {
    weight.ty.static_dims().expect("a weight's sizes are constant")
}

fn dims(tensor: &TensorType) -> Vec<String> {
    tensor.dims.iter().map(ToString::to_string).collect()
}

fn site(site: &disc_codegen::kernel::Site) -> Site {
    Site {
        code: site.code.to_string(),
        op: site.op.clone(),
        template: site.message.clone(),
        dims: Vec::new(),
        kernel_values: site.kernel_values,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_differ_in_numbers_are_one_kind() {
        let names = ["a.0.q", "a.1.q", "a.0.k", "head", "b.7"].map(str::to_owned);
        assert_eq!(of_a_kind(&names.into()), ["a.0.k", "a.*.q", "b.7", "head"]);
        assert_eq!(module_of("encoder.0.weight.prepared.2").as_deref(), Some("encoder.0"));
        assert_eq!(module_of("head.bias").as_deref(), Some("head"));
        assert_eq!(module_of("table"), None);
    }
}
