//! Every failure of LLVM is an error, and the next compilation works.
use super::{SEVEN, object, target};
use crate::{Codegen, Error, Passes, machine, target::LlvmTarget, text};

fn error(target_text: &str, ir: &str) -> Error {
    let target = target(target_text);
    let failed = match target_text.starts_with("nvptx") {
        true => text::assembly(ir, &target, Passes::None, Codegen::Default).map(|_| ()),
        false => text::object(ir, &target, Passes::None, Codegen::Default).map(|_| ()),
    };
    let error = failed.expect_err(ir);
    object("x86-64-v3", SEVEN, Passes::O2).expect("the next module compiles");
    error
}

#[test]
fn text_that_is_no_ir() {
    let error = error("x86-64-v3", "define i32 @f( {");
    assert!(matches!(&error, Error::Verify(m) if m.contains("expected type")), "{error}");
}

#[test]
fn a_module_that_breaks_the_rules() {
    let ir = "define i32 @f(i1 %c) { br i1 %c, label %a, label %b a: %x = add i32 1, 2 br label %b b: ret i32 %x }";
    let error = error("x86-64-v3", ir);
    assert!(matches!(&error, Error::Verify(m) if m.contains("dominate")), "{error}");
}

#[test]
fn a_diagnostic() {
    let error = error("x86-64-v3", "define void @f() { call void asm \"bogus\", \"\"() ret void }");
    assert!(matches!(&error, Error::Codegen(m) if m.contains("invalid instruction mnemonic")), "{error}");
}

#[test]
fn more_shared_memory_than_there_is() {
    let ir = "@s = internal addrspace(3) global [1000000 x i8] poison
              define amdgpu_kernel void @k() { store volatile i8 1, ptr addrspace(3) @s ret void }";
    let error = error("amdgpu:gfx90a", ir);
    assert!(error.to_string().contains("local memory"), "{error}");
}

#[test]
fn fatal_errors() {
    let ptx_on_x86 = "declare float @llvm.nvvm.ex2.approx.ftz.f32(float)
        define float @f(float %x) { %y = call float @llvm.nvvm.ex2.approx.ftz.f32(float %x) ret float %y }";
    let newer_than_sm_70 = "declare void @llvm.nvvm.barrier.cluster.arrive() define void @f() { call void @llvm.nvvm.barrier.cluster.arrive() ret void }";
    for _ in 0..3 {
        for (target, ir) in [("x86-64-v3", ptx_on_x86), ("nvptx:sm_70", newer_than_sm_70)] {
            let error = error(target, ir);
            assert!(
                matches!(&error, Error::Fatal { target: of, message } if of == target && message.contains("Cannot select")),
                "{error}"
            );
        }
    }
}

#[test]
fn a_fatal_error_while_the_machine_is_made() {
    let older_than_the_chip =
        LlvmTarget { triple: "nvptx64-nvidia-cuda", cpu: "sm_120".to_owned(), features: "+ptx80".to_owned() };
    for _ in 0..2 {
        let made = machine::create(&older_than_the_chip, Codegen::Default).map(|_| ());
        assert!(matches!(&made, Err(Error::Fatal { message, .. }) if message.contains("PTX version")), "{made:?}");
        object("x86-64-v3", SEVEN, Passes::O2).expect("the next module compiles");
    }
}

#[test]
fn fatal_errors_of_several_threads_at_once() {
    let ir = "declare float @llvm.nvvm.ex2.approx.ftz.f32(float)
        define float @f(float %x) { %y = call float @llvm.nvvm.ex2.approx.ftz.f32(float %x) ret float %y }";
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..5).for_each(|_| assert!(matches!(error("x86-64-v3", ir), Error::Fatal { .. }))));
        }
    });
}

#[test]
fn a_misspelt_intrinsic_in_ptx() {
    let ir = "declare float @llvm_nvvm_oops(float) define float @f(float %x) { %y = call float @llvm_nvvm_oops(float %x) ret float %y }";
    let error = error("nvptx:sm_90", ir);
    assert!(error.to_string().contains("PTX calls what does not exist"), "{error}");
}
