//! Reads the programs of this folder, and makes numbers for their inputs. Tests of disc-llvm and of
//! disc use it too.
use disc_ir::{DType, interp::Tensor};

/// A small, reproducible generator of numbers.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub(crate) fn tensor(&mut self, dtype: DType, dims: &[i64]) -> Tensor {
        let count = dims.iter().product::<i64>() as usize;
        if dtype.is_float() {
            let values: Vec<f64> = (0..count).map(|_| (self.next() % 4001) as f64 / 1000.0 - 2.0).collect();
            return Tensor::from_f64s(dtype, dims, &values).expect("as many values as elements");
        }
        let (range, least) = match dtype {
            DType::I1 => (2, 0),
            DType::I8 => (9, -4),
            _ => (4, 0),
        };
        let values: Vec<i64> = (0..count).map(|_| (self.next() % range) as i64 + least).collect();
        Tensor::from_i64s(dtype, dims, &values).expect("as many values as elements")
    }
}

/// Splits a text into programs, each of which starts with a line `// name`.
pub(crate) fn programs(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("// "), found.last_mut()) {
            (Some(name), _) => found.push((name.into(), String::new())),
            (None, Some((_, program))) => {
                program.push_str(line);
                program.push('\n');
            }
            (None, None) => {}
        }
    }
    found
}
