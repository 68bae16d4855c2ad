//! Each level of the CPU compiles, several of them in one module, and large frames are probed.
use super::target;
use crate::{Codegen, Passes, function::mark, machine::Machine, machine::in_context, text};
use inkwell::{context::Context, module::Module};

/// `y = fma(x, x, x)` of 16 floats in each function.
fn ir(names: &[&str]) -> String {
    let mut text = "declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)\n".to_owned();
    for name in names {
        text += &format!(
            "define void @{name}(ptr %p) {{
            %x = load <16 x float>, ptr %p, align 4
            %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
            store <16 x float> %y, ptr %p, align 4
            ret void }}\n"
        );
    }
    text
}

fn assembly(target_text: &str, ir: &str) -> String {
    text::assembly(ir, &target(target_text), Passes::None, Codegen::Less).unwrap()
}

#[test]
fn each_level_uses_its_registers() {
    let v3 = assembly("x86-64-v3", &ir(&["f"]));
    assert!(v3.contains("ymm") && !v3.contains("zmm") && v3.contains("vfmadd"), "{v3}");
    let v4 = assembly("x86-64-v4+avx512bf16+avx512fp16+avx512vbmi+avx512vnni", &ir(&["f"]));
    assert!(v4.contains("zmm") && v4.contains("vfmadd"), "{v4}");
    let add = "define <8 x float> @f(<8 x float> %x) { %y = fadd <8 x float> %x, %x ret <8 x float> %y }";
    let v2 = assembly("x86-64-v2", add);
    assert!(v2.contains("addps\t%xmm") && !v2.contains("ymm"), "{v2}");
    let neon = assembly("aarch64-v8", &ir(&["f"]));
    assert!(neon.contains("fmla\tv"), "{neon}");
}

#[test]
fn every_extension_is_known_to_llvm() {
    let dot = "declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <64 x i8>, <64 x i8>)
        define <16 x i32> @f(<16 x i32> %s, <64 x i8> %a, <64 x i8> %b) {
        %y = call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> %s, <64 x i8> %a, <64 x i8> %b) ret <16 x i32> %y }";
    assert!(assembly("x86-64-v4+avx512vnni", dot).contains("vpdpbusd"));
    assert!(text::assembly(dot, &target("x86-64-v4"), Passes::None, Codegen::Less).is_err());
}

#[test]
fn one_module_holds_several_levels() {
    let text = in_context(|context: &Context| {
        let machine = Machine::new(&target("x86-64-v2"), Codegen::Less)?;
        let module: Module<'_> = machine.parse(context, &ir(&["f3", "f4"]))?;
        for (name, level) in [("f3", "x86-64-v3"), ("f4", "x86-64-v4")] {
            mark(context, module.get_function(name).unwrap(), &target(level));
        }
        machine.assembly(module)
    })
    .unwrap();
    let (v3, v4) = text.split_once("f4:").unwrap();
    assert!(v3.contains("ymm") && !v3.contains("zmm"), "{v3}");
    assert!(v4.contains("zmm"), "{v4}");
}

#[test]
fn large_frames_are_probed() {
    let frame = |marked: bool| {
        in_context(|context| {
            let machine = Machine::new(&target("x86-64-v3"), Codegen::Less)?;
            let ir = "declare void @g(ptr) define void @f() { %a = alloca [65536 x i8] call void @g(ptr %a) ret void }";
            let module = machine.parse(context, ir)?;
            if marked {
                mark(context, module.get_function("f").unwrap(), machine.target());
            }
            machine.assembly(module)
        })
        .unwrap()
    };
    assert!(!frame(false).contains("$0, (%rsp)"));
    assert!(frame(true).contains("$0, (%rsp)"));
}

#[test]
fn gpus_compile() {
    let ptx = assembly(
        "nvptx:sm_90",
        "define ptx_kernel void @k(ptr addrspace(1) %p) { store float 1.0, ptr addrspace(1) %p ret void }",
    );
    assert!(ptx.contains(".target sm_90") && ptx.contains(".entry k"), "{ptx}");
    let kernel = "define amdgpu_kernel void @k(ptr addrspace(1) %p) { store float 1.0, ptr addrspace(1) %p ret void }";
    let code = super::object("amdgpu:gfx90a", kernel, Passes::O2).unwrap();
    let linked = crate::link(&target("amdgpu:gfx90a"), &[code]).unwrap();
    assert!(linked.starts_with(b"\x7fELF"));
    assert!(crate::link(&target("nvptx:sm_90"), &[]).unwrap_err().to_string().contains("not linked"));
}
