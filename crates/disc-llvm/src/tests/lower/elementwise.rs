//! Arithmetic against Rust's, in every type, as scalars and as vectors.
use super::{Program, address, address_mut, targets};
use std::fmt::Debug;

/// An element type of Rust with its name in the IR.
trait Element: Copy + PartialEq + Debug + 'static {
    const NAME: &'static str;
    /// Values where arithmetic goes wrong.
    fn corners() -> Vec<Self>;
    /// Equal, or both NaN.
    fn same(self, other: Self) -> bool;
}

macro_rules! int_element {
    ($($ty:ident $name:literal),*) => { $(impl Element for $ty {
        const NAME: &'static str = $name;
        fn corners() -> Vec<Self> {
            vec![0, 1, 2, 3, 7, 8, 31, 32, 63, 64, 100, $ty::MAX, $ty::MIN, $ty::MAX - 1, $ty::MIN + 1, (0 as $ty).wrapping_sub(1)]
        }
        fn same(self, other: Self) -> bool { self == other }
    })* };
}
int_element!(i8 "i8", i16 "i16", i32 "i32", i64 "i64", u8 "u8", u16 "u16", u32 "u32", u64 "u64");

macro_rules! float_element {
    ($($ty:ident $name:literal),*) => { $(impl Element for $ty {
        const NAME: &'static str = $name;
        fn corners() -> Vec<Self> {
            let tiny = $ty::from_bits(1);
            vec![0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 0.49999997, tiny, -tiny, $ty::MAX, $ty::MIN, $ty::INFINITY, $ty::NEG_INFINITY, $ty::NAN]
        }
        fn same(self, other: Self) -> bool { self == other || (self.is_nan() && other.is_nan()) }
    })* };
}
float_element!(f32 "f32", f64 "f64");

/// A kernel that applies `op` to two arrays, vectors of 16 and then scalars, and writes both
/// results.
fn binary_kernel(name: &str, op: &str, ty: &str, to: &str) -> String {
    let sign = |t: &str, r: &str| if t == r { t.to_owned() } else { format!("({t}, {t}) -> {r}") };
    let (v, w) = (format!("vector<16x{ty}>"), format!("vector<16x{to}>"));
    format!(
        "kernel @{name}(%a: buffer<256x{ty}>, %b: buffer<256x{ty}>, %v: buffer<256x{to}>, %s: buffer<256x{to}>, %begin: i64, %end: i64) {{
          %low = constant dense<0> : i64
          %high = constant dense<256> : i64
          %lanes = constant dense<16> : i64
          %one = constant dense<1> : i64
          for %low, %high, %lanes : (i64, i64, i64) -> () do(%i: i64) {{
            %x = load %a[%i] : (buffer<256x{ty}>, i64) -> {v}
            %y = load %b[%i] : (buffer<256x{ty}>, i64) -> {v}
            %z = {op} : {vv}
            store %v[%i], %z : (buffer<256x{to}>, i64, {w})
            return
          }}
          for %low, %high, %one : (i64, i64, i64) -> () do(%i: i64) {{
            %x = load %a[%i] : (buffer<256x{ty}>, i64) -> {ty}
            %y = load %b[%i] : (buffer<256x{ty}>, i64) -> {ty}
            %z = {op} : {ss}
            store %s[%i], %z : (buffer<256x{to}>, i64, {to})
            return
          }}
          return
        }}\n",
        vv = sign(&v, &w),
        ss = sign(ty, to),
    )
}

/// All pairs of corners.
fn pairs<T: Element>() -> (Vec<T>, Vec<T>) {
    let corners = T::corners();
    assert_eq!(corners.len(), 16);
    corners.iter().flat_map(|&a| T::corners().into_iter().map(move |b| (a, b))).unzip()
}

type Case<T, R> = (&'static str, fn(T, T) -> R);

/// Compares ops on all pairs of corners, on every level.
fn check<T: Element, R: Element>(to: &str, zero: R, cases: &[Case<T, R>]) {
    let source: String = cases.iter().enumerate().map(|(i, (op, _))| binary_kernel(&format!("k{i}"), op, T::NAME, to)).collect();
    let (a, b) = pairs::<T>();
    for target in targets() {
        let program = Program::new(&source, &target);
        for (i, (op, expected)) in cases.iter().enumerate() {
            let (mut v, mut s) = (vec![zero; 256], vec![zero; 256]);
            program.run(&format!("k{i}"), &[address(&a), address(&b), address_mut(&mut v), address_mut(&mut s)]);
            for j in 0..256 {
                let wanted = expected(a[j], b[j]);
                let context = || format!("{target}: {op} of {:?}, {:?} in {}", a[j], b[j], T::NAME);
                assert!(v[j].same(wanted), "{}: {:?}, expected {wanted:?}, as vectors", context(), v[j]);
                assert!(s[j].same(wanted), "{}: {:?}, expected {wanted:?}, as scalars", context(), s[j]);
            }
        }
    }
}

macro_rules! int_cases {
    ($ty:ident) => {
        &[
            ("add %x, %y", |a: $ty, b: $ty| a.wrapping_add(b)),
            ("subtract %x, %y", |a, b| a.wrapping_sub(b)),
            ("multiply %x, %y", |a, b| a.wrapping_mul(b)),
            ("divide %x, %y", |a, b| if b == 0 { 0 } else { a.wrapping_div(b) }),
            ("remainder %x, %y", |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
            ("maximum %x, %y", |a, b| a.max(b)),
            ("minimum %x, %y", |a, b| a.min(b)),
            ("and %x, %y", |a, b| a & b),
            ("or %x, %y", |a, b| a | b),
            ("xor %x, %y", |a, b| a ^ b),
            ("not %x", |a, _| !a),
            ("negate %x", |a, _| a.wrapping_neg()),
            ("popcnt %x", |a, _| a.count_ones() as $ty),
            ("count_leading_zeros %x", |a, _| a.leading_zeros() as $ty),
            ("fma %x, %y, %x", |a, b| a.wrapping_mul(b).wrapping_add(a)),
            ("clamp %y, %x, %y", |_, b| b),
            ("shift_left %x, %y", |a, b| u32::try_from(b).ok().and_then(|n| a.checked_shl(n)).unwrap_or(0)),
            ("shift_right_arithmetic %x, %y", |a, b| {
                let bits = $ty::BITS;
                let signed = (i128::from(a) << (128 - bits)) >> (128 - bits);
                let amount = u32::try_from(b).map_or(bits, |n| n.min(bits));
                (signed >> amount) as $ty
            }),
            ("shift_right_logical %x, %y", |a, b| {
                let bits = $ty::BITS;
                let unsigned = (i128::from(a) as u128) << (128 - bits) >> (128 - bits);
                let amount = u32::try_from(b).map_or(bits, |n| n.min(bits));
                (unsigned >> amount) as $ty
            }),
            ("power %x, %y", |a, b| match i128::from(b) {
                ..0 if i128::from(a).abs() != 1 => 0,
                exponent => (0..$ty::BITS).rev().fold(1, |power: $ty, bit| {
                    let square = power.wrapping_mul(power);
                    if exponent >> bit & 1 == 1 { square.wrapping_mul(a) } else { square }
                }),
            }),
        ]
    };
}

#[test]
fn integers_wrap_and_never_trap() {
    check::<i8, i8>("i8", 0, int_cases!(i8));
    check::<i16, i16>("i16", 0, int_cases!(i16));
    check::<i32, i32>("i32", 0, int_cases!(i32));
    check::<i64, i64>("i64", 0, int_cases!(i64));
    check::<u8, u8>("u8", 0, int_cases!(u8));
    check::<u16, u16>("u16", 0, int_cases!(u16));
    check::<u32, u32>("u32", 0, int_cases!(u32));
    check::<u64, u64>("u64", 0, int_cases!(u64));
}

#[test]
fn signed_integers_have_a_sign() {
    check::<i8, i8>("i8", 0, &[("abs %x", |a, _| a.wrapping_abs()), ("sign %x", |a, _| a.signum())]);
    check::<i64, i64>("i64", 0, &[("abs %x", |a, _| a.wrapping_abs()), ("sign %x", |a, _| a.signum())]);
}

macro_rules! float_cases {
    ($ty:ident) => {
        &[
            ("add %x, %y", |a: $ty, b: $ty| a + b),
            ("subtract %x, %y", |a, b| a - b),
            ("multiply %x, %y", |a, b| a * b),
            ("divide %x, %y", |a, b| a / b),
            ("maximum %x, %y", |a, b| if a.is_nan() || b.is_nan() { $ty::NAN } else { a.max(b) }),
            ("minimum %x, %y", |a, b| if a.is_nan() || b.is_nan() { $ty::NAN } else { a.min(b) }),
            ("clamp %y, %x, %y", |a, b| if a.is_nan() { a } else { b }),
            ("abs %x", |a, _| a.abs()),
            ("negate %x", |a, _| -a),
            ("floor %x", |a, _| a.floor()),
            ("ceil %x", |a, _| a.ceil()),
            ("round_nearest_even %x", |a, _| a.round_ties_even()),
            ("round_nearest_afz %x", |a, _| a.round()),
            ("sqrt %x", |a, _| a.sqrt()),
            ("rsqrt %x", |a, _| 1.0 / a.sqrt()),
            ("sign %x", |a, _| if a == 0.0 || a.is_nan() { a } else { a.signum() }),
        ]
    };
}

#[test]
fn floats_follow_ieee() {
    check::<f32, f32>("f32", 0.0, float_cases!(f32));
    check::<f64, f64>("f64", 0.0, float_cases!(f64));
}

#[test]
fn comparisons_with_nan_are_false() {
    macro_rules! cases {
        ($ty:ident) => {
            &[
                ("compare %x, %y, direction = EQ", |a: $ty, b: $ty| u8::from(a == b)),
                ("compare %x, %y, direction = NE", |a, b| u8::from(a != b)),
                ("compare %x, %y, direction = LT", |a, b| u8::from(a < b)),
                ("compare %x, %y, direction = LE", |a, b| u8::from(a <= b)),
                ("compare %x, %y, direction = GT", |a, b| u8::from(a > b)),
                ("compare %x, %y, direction = GE", |a, b| u8::from(a >= b)),
            ]
        };
    }
    check::<f32, u8>("i1", 9, cases!(f32));
    check::<f64, u8>("i1", 9, cases!(f64));
    check::<i8, u8>("i1", 9, cases!(i8));
    check::<u8, u8>("i1", 9, cases!(u8));
    check::<i64, u8>("i1", 9, cases!(i64));
    check::<u64, u8>("i1", 9, cases!(u64));
}
