//! Compiles a program through all stages and runs it.
use crate::{Compiled, Options, compile, entry_symbol, tests::alone};
use disc_codegen::{
    host::{Program, lower},
    target::{CpuModel, Target},
};
use disc_ir::{DType, Function, FunctionKind, Module, TensorType, interp::Tensor};
use disc_passes::{
    buffers::plan_buffers,
    fusion::{fuse, fuse_attention},
    pass::PassCx,
    tensor::{lower_convolutions, pack_weights},
};
use disc_ral::{
    BlobMeta, Code, Cpu, EntryMeta, Error, Executable, ExecutableOptions, HostOutputs, HostTensor, InputMeta, Library,
    ModuleMeta, OutputMeta, Site, Weight, WeightMeta,
};
use std::{collections::BTreeMap, sync::Arc};

pub(super) fn parse(text: &str) -> Module {
    disc_ir::text::parse(text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]))
}

pub(super) fn lowered(module: Module, target: &Target) -> Program {
    lowered_by(module, target, PassCx::default())
}

/// Lowers a program whose weights are packed as the target reads them.
pub(super) fn packed(mut module: Module, target: &Target) -> Program {
    let model = CpuModel::of(target).expect("a CPU");
    let mut cx = PassCx::new(disc_passes::options::Options::of(model));
    for pass in [&lower_convolutions::PASS, &pack_weights::PASS] {
        (pass.run)(&mut module, &mut cx).unwrap();
    }
    lowered_by(module, target, cx)
}

fn lowered_by(mut module: Module, target: &Target, mut cx: PassCx) -> Program {
    (fuse::PASS.run)(&mut module, &mut cx).unwrap();
    (fuse_attention::PASS.run)(&mut module, &mut cx).unwrap();
    (plan_buffers::PASS.run)(&mut module, &mut cx).unwrap();
    lower(module, &alone(target)).unwrap()
}

pub(super) fn compiled(program: &Program, target: &Target) -> Compiled {
    compile(program, &alone(target), &Options::default()).unwrap_or_else(|e| panic!("{target}: {e}\n{}", program.module))
}

/// Loads the program into the runtime.
pub(super) fn executable(program: &Program, target: &Target, weights: &BTreeMap<String, Tensor>) -> Executable {
    let bytes = compiled(program, target).bytes;
    let meta = describe(program);
    // SAFETY: the library and its metadata are of one program.
    let library = Arc::new(unsafe { Library::load(&bytes) }.unwrap());
    let code = Code::from_library(library, &meta).unwrap();
    let weights = meta.weights.iter().map(|weight| Weight::from(host_tensor(&weights[&weight.name]))).collect();
    Executable::new(Cpu::device(), code, Arc::new(meta), weights, ExecutableOptions::default()).unwrap()
}

/// Runs `@main`.
pub(super) fn run(executable: &Executable, inputs: &[Tensor]) -> Result<Vec<Tensor>, Error> {
    let entry = executable.meta().entry("main").unwrap();
    let tensors: Vec<HostTensor> = inputs.iter().map(host_tensor).collect();
    let inputs: Vec<_> = tensors.iter().map(HostTensor::as_input).collect();
    let mut outputs = HostOutputs::new();
    executable.with_session(|session| executable.run(entry, session, &inputs, &mut outputs))?;
    let output = |i| {
        let tensor = outputs.tensor(i).unwrap();
        Tensor::new(ir_dtype(tensor.dtype()), tensor.sizes().to_vec(), tensor.bytes().to_vec()).unwrap()
    };
    Ok((0..executable.meta().entries[entry].outputs.len()).map(output).collect())
}

pub(super) fn host_tensor(tensor: &Tensor) -> HostTensor {
    let mut host = HostTensor::zeros(dtype(tensor.dtype()), tensor.dims()).unwrap();
    host.bytes_mut().copy_from_slice(tensor.bytes());
    host
}

/// Describes a program whose weights are in order.
fn describe(program: &Program) -> ModuleMeta {
    let module = &program.module;
    let hosts = || module.functions.iter().filter(|f| f.kind == FunctionKind::Host);
    let weights = module.weights.iter();
    let plain = weights.clone().filter(|w| w.prepared.is_none()).map(|w| {
        let sizes = w.ty.static_dims().unwrap();
        WeightMeta { name: w.name.to_string(), dtype: dtype(w.ty.dtype), sizes, prepare_only: false }
    });
    let blobs = weights.filter(|w| w.prepared.is_some()).map(|w| {
        let elements = w.ty.static_dims().unwrap().iter().product::<i64>() as u64;
        BlobMeta { name: w.name.to_string(), bytes: elements * w.ty.dtype.size() as u64, prepare: 0 }
    });
    let site = |site: &disc_codegen::kernel::Site| Site {
        code: site.code.to_string(),
        op: site.op.clone(),
        template: site.message.clone(),
        dims: Vec::new(),
        kernel_values: site.kernel_values,
    };
    ModuleMeta {
        entries: hosts().filter(|f| &*f.name != "prepare").map(entry).collect(),
        weights: plain.collect(),
        blobs: blobs.collect(),
        prepare: hosts().filter(|f| &*f.name == "prepare").map(|f| entry_symbol(&f.name)).collect(),
        sites: program.sites.iter().map(site).collect(),
        ..ModuleMeta::default()
    }
}

fn entry(function: &Function) -> EntryMeta {
    let dims = |tensor: &TensorType| tensor.dims.iter().map(ToString::to_string).collect::<Vec<_>>();
    let inputs = function.parameters().iter().enumerate().map(|(i, &parameter)| {
        let tensor = function.ty(parameter).shaped().unwrap();
        let name = function.name_of(parameter).unwrap().to_string();
        InputMeta { name, dtype: dtype(tensor.dtype), dims: dims(tensor), host: false, written: function.is_written(i) }
    });
    let outputs = function.results.iter().enumerate().map(|(i, ty)| {
        let tensor = ty.shaped().unwrap();
        OutputMeta {
            name: format!("o{i}"),
            dtype: dtype(tensor.dtype),
            dims: dims(tensor),
            host: false,
            alias: function.stored_into(i),
        }
    });
    EntryMeta {
        name: function.name.to_string(),
        symbol: entry_symbol(&function.name),
        inputs: inputs.collect(),
        outputs: outputs.collect(),
        constraints: Vec::new(),
        temporary_bytes: None,
    }
}

/// Both sides name the types alike.
fn dtype(dtype: DType) -> disc_ral::DType {
    disc_ral::DType::ALL.into_iter().find(|d| d.name() == dtype.to_string()).unwrap()
}

fn ir_dtype(dtype: disc_ral::DType) -> DType {
    DType::ALL.iter().copied().find(|d| d.to_string() == dtype.name()).unwrap()
}
