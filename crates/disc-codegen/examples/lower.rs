//! Lowers a module of tensors from standard input to kernels, and prints every stage.
use disc_codegen::{
    host::lower,
    target::{Compilation, Target},
};
use disc_passes::{buffers::plan_buffers, fusion::fuse, pass::PassCx};

fn main() {
    let text = std::io::read_to_string(std::io::stdin()).expect("standard input");
    let mut module = disc_ir::text::parse(&text).unwrap_or_else(|e| panic!("{e:?}"));
    let mut cx = PassCx::default();
    (fuse::PASS.run)(&mut module, &mut cx).expect("fusion");
    println!("// fused\n{module}");
    (plan_buffers::PASS.run)(&mut module, &mut cx).expect("buffers");
    println!("// buffer\n{module}");
    let program = lower(module, &Compilation::of(Target::host().expect("a target")).expect("a CPU")).expect("kernels");
    println!("// kernel\n{}", program.module);
    println!("// {:?} {:?}", program.launches, program.notes);
}
