//! Checks what rows keep from one walk along them to the next.
use super::{compile, kernel_ops};
use disc_codegen::host::Program;
use disc_ir::OpKind;

/// A norm without its scale of `%a`, which is `activation` of `%x`.
fn norm_of(activation: &str) -> Program {
    let (whole, rows) = ("tensor<[B]x64xf32>", "tensor<[B]xf32>");
    let mean = |name: &str, of: &str| {
        format!(
            "%{name}s = reduce %{of}, %z, dims = [1] : ({whole}, tensor<f32>) -> {rows} applies add
             %{name}c = constant dense<0.015625> : {rows}
             %{name}m = multiply %{name}s, %{name}c : {rows}
             %{name} = broadcast_in_dim %{name}m, dims = [0] : ({rows}) -> {whole}"
        )
    };
    compile(&format!(
        "func @main(%x: {whole}) -> {whole} {{
           %z = constant dense<0.0> : tensor<f32>
           {activation}
           {}
           %d = subtract %a, %m : {whole}
           %q = multiply %d, %d : {whole}
           {}
           %r = rsqrt %v : {whole}
           %o = multiply %d, %r : {whole}
           return %o : {whole}
         }}",
        mean("m", "a"),
        mean("v", "q"),
    ))
}

#[test]
fn rows_keep_the_end_of_what_is_costly() {
    let long = norm_of(
        "%h = constant dense<0.5> : tensor<[B]x64xf32>
         %s = multiply %x, %h : tensor<[B]x64xf32>
         %t = tanh %s : tensor<[B]x64xf32>
         %a = multiply %t, %x : tensor<[B]x64xf32>",
    );
    let kernel = long.module.functions.iter().find(|f| &*f.name == "k0_reduction").expect("rows");
    let count = |kind: OpKind| kernel.walk(kernel.body).into_iter().filter(|&inst| kernel.kind_of(inst) == kind).count();
    assert_eq!(count(OpKind::Scratch), 1, "the product alone, neither the function in it nor the difference:\n{kernel}");
    let cheap = norm_of("%a = multiply %x, %x : tensor<[B]x64xf32>");
    assert!(!kernel_ops(&cheap.module).contains(&OpKind::Scratch), "{}", cheap.module);
}
