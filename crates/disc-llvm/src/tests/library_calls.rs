//! Lists the IR that becomes a call of a library: the lowering is written against this table.
use super::library::Library;
use super::{object, target};
use crate::{Passes, link};

/// Returns the undefined symbols of a link, without the block operations, which are ours.
fn undefined(ir: &str, passes: Passes) -> String {
    let object = object("x86-64-v3", ir, passes).unwrap();
    match link(&target("x86-64-v3"), &[object]) {
        Ok(_) => String::new(),
        Err(error) => {
            let text = error.to_string();
            let names = text.lines().filter_map(|l| l.split("undefined symbol: ").nth(1));
            names.collect::<Vec<_>>().join(" ")
        }
    }
}

fn unary(name: &str) -> String {
    format!(
        "declare <8 x float> @llvm.{name}.v8f32(<8 x float>)
         define <8 x float> @f(<8 x float> %x) \"no-builtins\" {{
         %y = call <8 x float> @llvm.{name}.v8f32(<8 x float> %x) ret <8 x float> %y }}"
    )
}

#[test]
fn native_math() {
    for name in ["sqrt", "fabs", "floor", "ceil", "trunc", "rint", "nearbyint", "roundeven", "round"] {
        assert_eq!(undefined(&unary(name), Passes::None), "", "{name}");
    }
}

#[test]
fn math_that_must_be_our_own() {
    for (name, call) in [("exp", "expf"), ("exp2", "exp2f"), ("log", "logf"), ("sin", "sinf"), ("tanh", "tanhf"), ("tan", "tanf")]
    {
        assert_eq!(undefined(&unary(name), Passes::None), call, "{name}: an attribute does not help");
    }
}

#[test]
fn single_instructions() {
    for (body, call) in [
        ("call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 128, i1 false)", ""),
        ("call void @llvm.memcpy.inline.p0.p0.i64(ptr %p, ptr %q, i64 1024, i1 false)", ""),
        ("%r = frem float %x, 2.5 store float %r, ptr %p", "fmodf"),
        ("%r = fptrunc float %x to half store half %r, ptr %p", ""),
        ("%r = fptrunc float %x to bfloat store bfloat %r, ptr %p", "__truncsfbf2"),
        ("%r = fpext bfloat %b to float store float %r, ptr %p", ""),
        ("%r = sdiv i128 %w, 3 store i128 %r, ptr %p", "__divti3"),
        ("%s = sext i64 %n to i128 %r = sdiv i128 %w, %s store i128 %r, ptr %p", "__divti3"),
        ("%r = mul i128 %w, %w store i128 %r, ptr %p", ""),
        ("%r = atomicrmw fadd ptr %p, float %x monotonic", ""),
        ("%r = call float @llvm.powi.f32.i32(float %x, i32 3) store float %r, ptr %p", ""),
    ] {
        let ir =
            format!("define void @f(ptr %p, ptr %q, i64 %n, float %x, bfloat %b, i128 %w) \"no-builtins\" {{ {body} ret void }}");
        assert_eq!(undefined(&ir, Passes::None), call, "{body}");
    }
}

/// No pass may turn a loop that clears memory into a call: the support object would make it slow,
/// not wrong.
#[test]
fn loops_stay_loops() {
    let clear = |attributes: &str| {
        format!(
            "define void @f(ptr %p, i64 %n) {attributes} {{
            entry: br label %l
            l: %i = phi i64 [ 0, %entry ], [ %j, %l ]
               %q = getelementptr float, ptr %p, i64 %i
               store float 0.0, ptr %q, align 4
               %j = add nuw nsw i64 %i, 1
               %m = icmp slt i64 %j, %n
               br i1 %m, label %l, label %d
            d: ret void }}"
        )
    };
    let calls = |ir: String, passes| {
        let object = object("x86-64-v3", &ir, passes).unwrap();
        object.bytes().windows(7).any(|w| w == b"memset\0")
    };
    assert!(calls(clear(""), Passes::O2), "loop idiom");
    assert!(!calls(clear("\"no-builtins\""), Passes::O2));
    assert!(!calls(clear(""), Passes::Short), "no loop-idiom pass");
}

type CopyFn = extern "C" fn(*mut u8, *const u8, i64);

#[test]
fn block_operations_are_our_own() {
    let ir = "define void @copy(ptr %p, ptr %q, i64 %n) { call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false) ret void }
              define void @move(ptr %p, ptr %q, i64 %n) { call void @llvm.memmove.p0.p0.i64(ptr %p, ptr %q, i64 %n, i1 false) ret void }
              define void @clear(ptr %p, i8 %v, i64 %n) { call void @llvm.memset.p0.i64(ptr %p, i8 %v, i64 %n, i1 false) ret void }";
    let object = object("x86-64-v3", ir, Passes::None).unwrap();
    let library = Library::load(&link(&target("x86-64-v3"), &[object]).unwrap());
    // SAFETY: the functions have these signatures.
    let (copy, shift, clear): (CopyFn, CopyFn, extern "C" fn(*mut u8, u8, i64)) =
        unsafe { (library.function("copy"), library.function("move"), library.function("clear")) };
    let from: Vec<u8> = (0..60).collect();
    for n in 0..40 {
        let mut to = [255; 60];
        copy(to.as_mut_ptr(), from[3..].as_ptr(), n as i64);
        assert!(to[..n] == from[3..3 + n] && to[n..].iter().all(|b| *b == 255), "copy of {n}");
        clear(to[1..].as_mut_ptr(), 9, n as i64);
        assert!(to[1..1 + n].iter().all(|b| *b == 9) && to[1 + n..].iter().all(|b| *b != 9), "clear of {n}");
        for (a, b) in [(0, 5), (5, 0), (0, 0), (0, 1), (1, 0), (20, 0)] {
            let (mut ours, mut theirs) = (from.clone(), from.clone());
            // SAFETY: both ranges are inside `ours`.
            shift(unsafe { ours.as_mut_ptr().add(a) }, unsafe { ours.as_ptr().add(b) }, n as i64);
            theirs.copy_within(b..b + n, a);
            assert_eq!(ours, theirs, "move of {n} from {b} to {a}");
        }
    }
}
