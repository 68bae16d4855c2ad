//! Memory of a caller that starts at no line is not written past the caches, however large it is. Which version runs else: versions.rs.
use disc::{
    Options, compile, parse,
    ral::{DType, HostOutputs, HostTensor, OutputAllocator, OutputError, TensorRef},
};

const NEGATED: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %y = negate %x : tensor<[B]x[S]xf32>
  return %y : tensor<[B]x[S]xf32>
}";

/// Memory for one output, which starts an element behind a line.
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
    let options = Options { keep_names: true, threads: Some(1), ..Options::default() };
    let executable = compile(parse(NEGATED).unwrap(), &options).unwrap().load(Vec::new(), &options).unwrap();
    let sizes = [64, 1024];
    let values: Vec<f32> = (0..sizes[0] * sizes[1]).map(|i| i as f32).collect();
    let input = HostTensor::new(&sizes, &values).unwrap();
    let kernel = |memory: &mut dyn OutputAllocator| {
        let launches = executable.with_session(|session| {
            session.stream_from(1);
            session.start_profile();
            executable.run(0, session, &[input.as_input()], memory).unwrap();
            session.take_profile()
        });
        executable.kernel_name(launches[0].kernel).expect("names are kept").to_owned()
    };
    assert_eq!(kernel(&mut HostOutputs::new()), "k0_loop_stream", "memory of the runtime starts at a line");
    let mut memory = BesideALine(Vec::new());
    assert_eq!(kernel(&mut memory), "k0_loop");
    let first = memory.0.as_ptr().align_offset(64) + 1;
    assert!(memory.0[first..].iter().zip(&values).all(|(y, x)| *y == -x));
    assert!(memory.0[first..].len() >= values.len());
}
