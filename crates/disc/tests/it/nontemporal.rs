//! Tests that memory of a caller that is not aligned to a line gets no non-temporal stores, however
//! large it is. versions.rs tests the other conditions.
use disc::{
    Options, compile, parse,
    ral::{DType, HostOutputs, HostTensor, OutputAllocator, OutputError, TensorRef},
};

const NEGATED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %y = negate %x : tensor<[B]x[S]xf32>
  return %y : tensor<[B]x[S]xf32>
}";

/// Memory for one output, which starts one element after a line.
struct BesideALine(Vec<f32>);

impl OutputAllocator for BesideALine {
    fn alloc(&mut self, _: usize, _: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        self.0 = vec![0.0; sizes.iter().product::<i64>() as usize + 32];
        let start = self.0.as_mut_ptr();
        Ok(start.wrapping_add(start.align_offset(64) + 1).cast())
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), OutputError> {
        unreachable!("the output is no input")
    }
}

#[test]
fn memory_that_starts_at_no_line_is_written_as_ever() {
    let options = Options { threads: Some(1), ..Options::default() };
    let executable = compile(parse(NEGATED).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap();
    let sizes = [64, 1024];
    let values: Vec<f32> = (0..sizes[0] * sizes[1]).map(|i| i as f32).collect();
    let input = HostTensor::new(&sizes, &values).unwrap();
    let kernel = |memory: &mut dyn OutputAllocator| {
        let launches = executable.with_session(|session| {
            session.nontemporal_from(1);
            session.start_profile();
            executable.run(0, session, &[input.as_input()], memory).unwrap();
            session.take_profile()
        });
        launches[0].name.as_deref().expect("code has names").to_owned()
    };
    assert_eq!(kernel(&mut HostOutputs::new()), "k0_pointwise_nontemporal", "memory of the runtime starts at a line");
    let mut memory = BesideALine(Vec::new());
    assert_eq!(kernel(&mut memory), "k0_pointwise");
    let first = memory.0.as_ptr().align_offset(64) + 1;
    assert!(memory.0[first..].iter().zip(&values).all(|(y, x)| *y == -x));
    assert!(memory.0[first..].len() >= values.len());
}

const CENTRED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[2*S]xf32> {
  %two = concatenate %x, %x, dim = 1 : (tensor<[B]x[S]xf32>, tensor<[B]x[S]xf32>) -> tensor<[B]x[2*S]xf32>
  %zero = constant dense<0.0> : tensor<f32>
  %sums = reduce %two, %zero, dims = [1] : (tensor<[B]x[2*S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %all = broadcast_in_dim %sums, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[2*S]xf32>
  %y = subtract %two, %all : tensor<[B]x[2*S]xf32>
  return %y : tensor<[B]x[2*S]xf32>
}";

#[test]
fn rows_of_parts_that_start_at_no_line_are_written_as_ever() {
    let options = Options { threads: Some(1), ..Options::default() };
    let executable = compile(parse(CENTRED).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap();
    // Rows of 48 elements are whole lines, their halves of 24 are not.
    for (half, goes_past) in [(24, false), (32, true), (8200, false), (8208, true)] {
        let input = HostTensor::new(&[64, half], &vec![1.0_f32; 64 * half as usize]).unwrap();
        let mut outputs = HostOutputs::new();
        let launches = executable.with_session(|session| {
            session.nontemporal_from(1);
            session.start_profile();
            executable.run(0, session, &[input.as_input()], &mut outputs).unwrap();
            session.take_profile()
        });
        let name = launches[0].name.as_deref().expect("code has names");
        assert_eq!(name.ends_with("_nontemporal"), goes_past, "{name} of halves of {half}");
        let expected = (1.0 - 2.0 * half as f32).to_ne_bytes();
        assert!(outputs.tensor(0).unwrap().bytes().chunks(4).all(|y| y == expected));
    }
}
