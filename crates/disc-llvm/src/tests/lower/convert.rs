//! Conversion between every pair of element types, against the conversions of Rust and of the crate
//! `half`.
use super::{Program, address, address_mut, targets};
use disc_ir::DType;
use half::{bf16, f16};

/// A number as exactly as any type holds it.
#[derive(Clone, Copy, Debug)]
enum Number {
    Int(i128),
    Float(f64),
}

/// Element `i` of memory.
fn read(dtype: DType, bytes: &[u8], i: usize) -> Number {
    let size = dtype.size();
    let mut raw = [0; 8];
    raw[..size].copy_from_slice(&bytes[i * size..(i + 1) * size]);
    let bits = u64::from_le_bytes(raw);
    let float = |value: f64| Number::Float(value);
    let signed = || i128::from((bits << (64 - 8 * size)) as i64 >> (64 - 8 * size));
    match dtype {
        DType::F16 => float(f16::from_bits(bits as u16).to_f64()),
        DType::BF16 => float(bf16::from_bits(bits as u16).to_f64()),
        DType::F32 => float(f32::from_bits(bits as u32).into()),
        DType::F64 => float(f64::from_bits(bits)),
        DType::I1 | DType::U8 | DType::U16 | DType::U32 | DType::U64 => Number::Int(bits.into()),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => Number::Int(signed()),
    }
}

/// The bits of `number` as `dtype`, by the rules of the op table.
fn expected(number: Number, dtype: DType) -> u64 {
    let as_f64 = match number {
        Number::Int(value) => value as f64,
        Number::Float(value) => value,
    };
    match (dtype, number) {
        (DType::F16, _) => nearest(as_f64, f16::from_f64(as_f64).to_bits(), |bits| f16::from_bits(bits).to_f64(), 65536.0),
        (DType::BF16, _) => {
            nearest(as_f64, bf16::from_f64(as_f64).to_bits(), |bits| bf16::from_bits(bits).to_f64(), 2_f64.powi(128))
        }
        (DType::F32, Number::Int(value)) => (value as f32).to_bits().into(),
        (DType::F32, Number::Float(value)) => (value as f32).to_bits().into(),
        (DType::F64, _) => as_f64.to_bits(),
        (DType::I1, _) => u64::from(as_f64 != 0.0),
        (_, Number::Int(value)) => value as u64 & (u64::MAX >> (64 - dtype.bits())),
        (DType::I8, Number::Float(value)) => u64::from(value as i8 as u8),
        (DType::I16, Number::Float(value)) => u64::from(value as i16 as u16),
        (DType::I32, Number::Float(value)) => u64::from(value as i32 as u32),
        (DType::I64, Number::Float(value)) => value as i64 as u64,
        (DType::U8, Number::Float(value)) => u64::from(value as u8),
        (DType::U16, Number::Float(value)) => u64::from(value as u16),
        (DType::U32, Number::Float(value)) => u64::from(value as u32),
        (DType::U64, Number::Float(value)) => value as u64,
    }
}

/// Returns the half float nearest to `value`, ties to even, among a guess and its neighbours: the
/// crate `half` rounds from f64 in two steps. `beyond` is the value of infinity.
fn nearest(value: f64, guess: u16, number: impl Fn(u16) -> f64, beyond: f64) -> u64 {
    if value.is_nan() || value.is_infinite() {
        return guess.into();
    }
    let finite = |bits: u16| if number(bits).is_infinite() { beyond.copysign(number(bits)) } else { number(bits) };
    let size = guess & 0x7fff;
    let candidates = (size.saturating_sub(1)..=size + 1).map(|size| size | guess & 0x8000).filter(|&bits| !number(bits).is_nan());
    let distance = |bits: u16| (finite(bits) - value).abs();
    let better = |a: &u16, b: &u16| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1)));
    candidates.min_by(better).expect("the guess is no NaN").into()
}

fn is_nan(dtype: DType, bits: u64) -> bool {
    match dtype {
        DType::F16 => f16::from_bits(bits as u16).is_nan(),
        DType::BF16 => bf16::from_bits(bits as u16).is_nan(),
        DType::F32 => f32::from_bits(bits as u32).is_nan(),
        DType::F64 => f64::from_bits(bits).is_nan(),
        _ => false,
    }
}

/// Returns 4096 elements: every bit pattern of small types; of large ones the neighbourhoods of the
/// values of other types, and of their ties.
fn inputs(dtype: DType) -> Vec<u8> {
    let mut bits: Vec<u64> = Vec::new();
    match dtype {
        DType::I1 => bits.extend((0..4096).map(|i| i % 2)),
        DType::I8 | DType::U8 => bits.extend(0..4096),
        DType::F16 | DType::BF16 | DType::I16 | DType::U16 => bits.extend((0..4096).map(|i| i * 16 + i % 16)),
        DType::I32 | DType::U32 | DType::I64 | DType::U64 => {
            let power = |i: u64| (1_u64 << (i / 64)).wrapping_add((i % 64).wrapping_sub(32) << (i / 64).saturating_sub(9));
            bits.extend((0..4096).map(|i| power(i).wrapping_add(i % 3).wrapping_sub(1)));
        }
        DType::F32 => {
            bits.extend((0..4096_u64).map(|i| (i << 20).wrapping_add(near(i) << 11).wrapping_add(i % 3).wrapping_sub(1)))
        }
        DType::F64 => {
            // Exponents of f32 and f16 get most of them.
            let pattern = |i: u64| {
                ((i % 256 + 896) << 52).wrapping_add(near(i / 4) << 40).wrapping_add(i % 3).wrapping_sub(1) | (i / 2048) << 63
            };
            bits.extend((0..4080).map(pattern));
            let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 5e-324, f64::MAX, f64::MIN];
            bits.extend(special.iter().chain(&special).map(|value: &f64| value.to_bits()));
        }
    }
    bits.iter().flat_map(|value| value.to_le_bytes()[..dtype.size()].to_vec()).collect()
}

/// Half-way points and their neighbours, as the upper bits of a mantissa.
fn near(i: u64) -> u64 {
    [0, 1, 2, 3, 4, 8, 0x10, 0x18, 0x80, 0x7f, 0x1ff, 0xff][(i % 12) as usize]
}

fn kernel(from: DType, to: DType) -> String {
    format!(
        "kernel @{from}_{to}(%a: buffer<4096x{from}>, %v: buffer<4096x{to}>, %s: buffer<4096x{to}>, %begin: i64, %end: i64) {{
          %low = constant dense<0> : i64
          %high = constant dense<4096> : i64
          %lanes = constant dense<8> : i64
          %one = constant dense<1> : i64
          for %low, %high, %lanes : (i64, i64, i64) -> () do(%i: i64) {{
            %x = load %a[%i] : (buffer<4096x{from}>, i64) -> vector<8x{from}>
            %y = convert %x, dtype = {to} : (vector<8x{from}>) -> vector<8x{to}>
            store %v[%i], %y : (buffer<4096x{to}>, i64, vector<8x{to}>)
            return
          }}
          for %low, %high, %one : (i64, i64, i64) -> () do(%i: i64) {{
            %x = load %a[%i] : (buffer<4096x{from}>, i64) -> {from}
            %y = convert %x, dtype = {to} : ({from}) -> {to}
            store %s[%i], %y : (buffer<4096x{to}>, i64, {to})
            return
          }}
          return
        }}\n"
    )
}

#[test]
fn every_pair_of_types() {
    let pairs: Vec<(DType, DType)> = DType::ALL.iter().flat_map(|&a| DType::ALL.into_iter().map(move |b| (a, b))).collect();
    let source: String = pairs.iter().filter(|(a, b)| a != b).map(|&(a, b)| kernel(a, b)).collect();
    for target in targets() {
        let program = Program::new(&source, &target);
        for &(from, to) in pairs.iter().filter(|(a, b)| a != b) {
            let input = inputs(from);
            let (mut v, mut s) = (vec![0xA5_u8; 4096 * to.size()], vec![0xA5_u8; 4096 * to.size()]);
            program.run(&format!("{from}_{to}"), &[address(&input), address_mut(&mut v), address_mut(&mut s)]);
            for i in 0..4096 {
                let number = read(from, &input, i);
                let wanted = expected(number, to);
                for (form, output) in [("vectors", &v), ("scalars", &s)] {
                    let mut raw = [0; 8];
                    raw[..to.size()].copy_from_slice(&output[i * to.size()..(i + 1) * to.size()]);
                    let got = u64::from_le_bytes(raw);
                    let same = got == wanted || (is_nan(to, got) && is_nan(to, wanted));
                    assert!(same, "{target}: {number:?} from {from} to {to} as {form}: {got:#x}, expected {wanted:#x}");
                }
            }
        }
    }
}
