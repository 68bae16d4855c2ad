//! Inputs of a run: random, or from files of NumPy.
use super::arguments::{Input, Value};
use disc_ir::{
    DType, Diagnostic, Function, FunctionKind, Module,
    attr::Attr,
    diag::Code,
    interp::{Tensor, sample::Random},
    ops::OpKind,
};
use npyz::{DType as NpyDType, NpyFile, Order};
use std::collections::HashSet;

/// The one function that a user would call: not a kernel, and called by no other.
pub(super) fn entry(module: &Module) -> Result<&Function, Diagnostic> {
    let callees = |f: &Function| -> Vec<String> {
        let calls = f.walk(f.body).into_iter().filter(|&inst| f.kind_of(inst) == OpKind::Call);
        let names = calls.filter_map(|inst| match f.inst(inst).attrs.first() {
            Some(Some(Attr::Symbol(name))) => Some(name.to_string()),
            _ => None,
        });
        names.collect()
    };
    let called: HashSet<String> = module.functions.iter().flat_map(callees).collect();
    let is_entry = |f: &&Function| matches!(f.kind, FunctionKind::Func | FunctionKind::Host) && !called.contains(&*f.name);
    let entries: Vec<&Function> = module.functions.iter().filter(is_entry).collect();
    match entries[..] {
        [entry] => Ok(entry),
        [] => Err(Diagnostic::new(Code::E0103, "there is no entry to run")),
        _ => {
            let names: Vec<String> = entries.iter().map(|f| format!("@{}", f.name)).collect();
            let message = format!("there are {} entries: {}", entries.len(), names.join(", "));
            Err(Diagnostic::new(Code::E0103, message).help("name one with --entry"))
        }
    }
}

/// The inputs of `entry`, in the order of its parameters.
pub(super) fn tensors(entry: &Function, given: &[Input]) -> Result<Vec<Tensor>, Diagnostic> {
    let name_of = |i: usize| entry.name_of(entry.parameters()[i]).map_or_else(|| i.to_string(), ToString::to_string);
    let names: Vec<String> = (0..entry.parameters().len()).map(name_of).collect();
    if let Some(unknown) = given.iter().find(|input| !names.contains(&input.name)) {
        let message = format!("@{} has no parameter %{}; it has: {}", entry.name, unknown.name, names.join(", "));
        return Err(Diagnostic::new(Code::E0601, message));
    }
    let missing: Vec<&str> = names.iter().filter(|name| !given.iter().any(|input| input.name == **name)).map(|n| &**n).collect();
    if !missing.is_empty() {
        let message = format!("@{} needs values for: {}", entry.name, missing.join(", "));
        return Err(Diagnostic::new(Code::E0601, message).help(format!("--input {}=rand:SIZES", missing[0])));
    }
    let mut random = Random::new(0);
    let parameters = entry.parameters().iter().zip(&names);
    parameters
        .map(|(&parameter, name)| {
            let input = given.iter().rfind(|input| input.name == *name).expect("no name is missing");
            match &input.value {
                Value::Random(sizes) => random.tensor(entry.ty(parameter).dtype(), sizes.clone()),
                Value::File(path) => read(path),
            }
        })
        .collect()
}

fn read(path: &str) -> Result<Tensor, Diagnostic> {
    let wrong = |why: String| Diagnostic::new(Code::E0601, format!("{path}: {why}"));
    let bytes = std::fs::read(path).map_err(|e| wrong(e.to_string()))?;
    let file = NpyFile::new(&bytes[..]).map_err(|e| wrong(e.to_string()))?;
    let header = file.header();
    let dtype = element_type(&header.dtype()).ok_or_else(|| wrong(format!("elements of type {}", header.dtype().descr())))?;
    if header.order() != Order::C && header.shape().len() > 1 {
        return Err(wrong("the array is in Fortran order; save np.ascontiguousarray(array)".into()));
    }
    let sizes: Vec<i64> = header.shape().iter().map(|&size| i64::try_from(size).unwrap_or(i64::MAX)).collect();
    let count = sizes.iter().try_fold(dtype.size(), |n, &size| n.checked_mul(usize::try_from(size).ok()?));
    let data = count.and_then(|count| bytes.len().checked_sub(count)).map(|start| bytes[start..].to_vec());
    Tensor::new(dtype, sizes, data.ok_or_else(|| wrong("the file is too short".into()))?).map_err(|e| wrong(e.message))
}

/// Little-endian NumPy types: `<f4`, `|b1`, ...
fn element_type(dtype: &NpyDType) -> Option<DType> {
    let NpyDType::Plain(plain) = dtype else { return None };
    let text = plain.to_string();
    let name = match text.trim_start_matches(['<', '|', '=']) {
        "f2" => "f16",
        "f4" => "f32",
        "f8" => "f64",
        "b1" => "i1",
        "i1" => "i8",
        "i2" => "i16",
        "i4" => "i32",
        "i8" => "i64",
        "u1" => "u8",
        "u2" => "u16",
        "u4" => "u32",
        "u8" => "u64",
        _ => return None,
    };
    DType::from_name(name)
}
