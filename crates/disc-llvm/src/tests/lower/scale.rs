//! Products with powers of two: one instruction where the target has it, and right for every number
//! of lanes.
use super::{Program, address, address_mut, targets};
use crate::{
    assembly,
    tests::{alone, target},
};
use disc_codegen::target::Target;

/// `x * 2^n` for 64 numbers, `lanes` at a time.
fn kernel(ty: &str, lanes: u32) -> String {
    let v = if lanes == 1 { ty.to_owned() } else { format!("vector<{lanes}x{ty}>") };
    format!(
        "kernel @by{lanes}(%a: buffer<64x{ty}>, %b: buffer<64x{ty}>, %r: buffer<64x{ty}>, %begin: i64, %end: i64) {{
          %low = constant dense<0> : i64
          %high = constant dense<64> : i64
          %step = constant dense<{lanes}> : i64
          for %low, %high, %step : (i64, i64, i64) -> () do(%i: i64) {{
            %x = load %a[%i] : (buffer<64x{ty}>, i64) -> {v}
            %n = load %b[%i] : (buffer<64x{ty}>, i64) -> {v}
            %y = scale_by_power %x, %n : {v}
            store %r[%i], %y : (buffer<64x{ty}>, i64, {v})
            return
          }}
          return
        }}\n"
    )
}

const LANES: [u32; 5] = [1, 2, 4, 16, 32];

macro_rules! scales {
    ($name:ident, $ty:ident, $bias:literal, $exact:expr) => {
        #[test]
        fn $name() {
            let ty = stringify!($ty);
            let source: String = LANES.iter().map(|&lanes| kernel(ty, lanes)).collect();
            let x: [$ty; 8] = [1.0, -1.5, 0.0, -0.0, $ty::NAN, 1.999_999_9, 3.0, 0.707_106_77];
            let n: [$ty; 8] = [0.0, 1.0, -1.0, $bias, -$bias, 1.0 - $bias, -$bias - 20.0, 2.0 * $bias];
            let a: Vec<$ty> = (0..64).map(|i| x[i / 8]).collect();
            let b: Vec<$ty> = (0..64).map(|i| n[i % 8]).collect();
            if !targets().iter().any(Target::scales_by_power) {
                println!("skipped: no level of this CPU scales by powers");
            }
            for target in targets().into_iter().filter(Target::scales_by_power) {
                let program = Program::new(&source, &target);
                for lanes in LANES {
                    let mut r: Vec<$ty> = vec![7.0; 64];
                    program.run(&format!("by{lanes}"), &[address(&a), address(&b), address_mut(&mut r)]);
                    for i in 0..64 {
                        let wanted: $ty = $exact(a[i], b[i]);
                        let same = r[i].to_bits() == wanted.to_bits() || r[i].is_nan() && wanted.is_nan();
                        assert!(same, "{target}: {} * 2^{} is {}, expected {wanted}, {lanes} lanes", a[i], b[i], r[i]);
                    }
                }
            }
        }
    };
}

scales!(f32_is_rounded_once, f32, 127.0, |x: f32, n: f32| (f64::from(x) * f64::from(n).exp2()) as f32);
// Both halves of the power are normal numbers, and the first product is exact.
scales!(f64_is_rounded_once, f64, 1023.0, |x: f64, n: f64| x * (n / 2.0).trunc().exp2() * (n - (n / 2.0).trunc()).exp2());

#[test]
fn it_is_one_instruction() {
    let text = assembly(&super::program(&kernel("f32", 16)), &alone(&target("x86-64-v4"))).unwrap();
    assert_eq!(text.matches("vscalefps").count(), 1, "{text}");
    assert!(assembly(&super::program(&kernel("f32", 16)), &alone(&target("x86-64-v3"))).is_err());
}
