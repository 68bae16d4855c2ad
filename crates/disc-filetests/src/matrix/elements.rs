//! Chooses the elements of inputs: the ones at which code goes wrong, and ordinary ones.
use disc_ir::{
    DType,
    generate::{Random, cases::Draw},
    interp::Tensor,
};

/// Elements of a float type at which functions, conversions and comparisons go wrong.
fn special_floats(dtype: DType) -> Vec<f64> {
    let (largest, smallest_normal, smallest) = match dtype {
        DType::F16 => (65504.0, 2f64.powi(-14), 2f64.powi(-24)),
        DType::BF16 => (f64::from(f32::from_bits(0x7F7F_0000)), 2f64.powi(-126), 2f64.powi(-133)),
        DType::F32 => (f64::from(f32::MAX), 2f64.powi(-126), 2f64.powi(-149)),
        _ => (f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1)),
    };
    let mut found = vec![f64::NAN, 0.0, 1.0, f64::INFINITY, 0.5, 2.5, 3.0, 0.3, 7.0];
    found.extend([largest, smallest_normal, smallest, smallest_normal - smallest]);
    let negative: Vec<f64> = found[1..].iter().map(|x| -x).collect();
    found.extend(negative);
    // The ends of the integer types, and beyond.
    found.extend([127.5, 128.0, 255.5, -128.5, 32767.0, 2147483648.0, 4294967295.0, 9.3e18, -9.3e18, 100.25, -40.5, 12.0]);
    found
}

fn special_integers(dtype: DType) -> Vec<i64> {
    let width = dtype.bits();
    let (least, greatest) = match dtype {
        DType::I1 => return vec![0, 1],
        _ if dtype.is_signed_integer() => (i64::MIN >> (64 - width), i64::MAX >> (64 - width)),
        // The bits: wrapped when they are stored.
        _ => (0, -1),
    };
    let near = [least, greatest, least.wrapping_add(1), greatest.wrapping_sub(1)];
    let half = 1_i64 << (width - 1);
    [&[0, 1, -1, 2, 3, -2, 7, -7, 5, 10, 31, 100][..], &near, &[half, i64::from(width), i64::from(width) - 1]].concat()
}

/// Makes a tensor for parameter number `parameter` in row number `row`; `None` if a size is
/// negative.
pub(super) fn tensor(dtype: DType, sizes: &[i64], draw: Draw, parameter: usize, row: usize) -> Option<Tensor> {
    let count = sizes.iter().try_fold(1_usize, |product, &size| Some(product * usize::try_from(size).ok()?))?;
    let mut random = Random::new((parameter as u64) << 32 ^ (row as u64) << 8 ^ dtype as u64);
    if dtype.is_float() {
        let special = special_floats(dtype);
        let elements: Vec<f64> = (0..count).map(|i| float(draw, &special, parameter, i, &mut random)).collect();
        return Tensor::from_f64s(dtype, sizes, &elements).ok();
    }
    let special = special_integers(dtype);
    let elements: Vec<i64> = (0..count).map(|i| integer(draw, &special, parameter, i, &mut random)).collect();
    Tensor::from_i64s(dtype, sizes, &elements).ok()
}

/// The special element at place `i`: over enough places, two parameters meet in all pairs.
fn special<T: Copy>(all: &[T], parameter: usize, i: usize, random: &mut Random) -> T {
    match parameter {
        0 => all[i % all.len()],
        1 => all[(i / all.len() + i) % all.len()],
        _ => *random.choose(all),
    }
}

fn float(draw: Draw, all: &[f64], parameter: usize, i: usize, random: &mut Random) -> f64 {
    let ordinary = (random.unit() - 0.5) * 4.0;
    match draw {
        Draw::Any if random.chance(15) => ordinary * *random.choose(&[1.0, 10.0, 1e-3]),
        Draw::Any => special(all, parameter, i, random),
        Draw::Summands if random.chance(1) => *random.choose(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0]),
        Draw::Summands => ordinary,
        Draw::Factors => 1.0 + ordinary / 16.0,
        Draw::Orders => random.below(6) as f64,
        Draw::AboveOne => 1.1 + random.unit() * 12.0,
        Draw::Indices => random.between(0, 9) as f64 - 2.0,
        Draw::Truth => random.below(2) as f64,
    }
}

fn integer(draw: Draw, all: &[i64], parameter: usize, i: usize, random: &mut Random) -> i64 {
    match draw {
        Draw::Any | Draw::Summands | Draw::Factors => match random.chance(15) {
            true => random.bits() as i64,
            false => special(all, parameter, i, random),
        },
        Draw::Orders => random.below(6) as i64,
        Draw::AboveOne => random.between(2, 14) as i64,
        // Mostly inside: so that a check lets some calls through.
        Draw::Indices => match random.chance(80) {
            true => random.below(2) as i64,
            false => random.between(0, 12) as i64 - 4,
        },
        Draw::Truth => random.below(2) as i64,
    }
}
