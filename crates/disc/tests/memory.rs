//! Tests memory over many calls: one compile for all shapes, a bounded arena, and no allocation
//! when a shape recurs.
mod native;

use disc::{
    Options, Specialize, background,
    ral::{DType, HostTensor, OutputAllocator, OutputError, TensorRef},
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
};

/// Counts what this thread asks of the system's allocator.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on as it comes.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two scans are never one kernel, so there is temporary memory of both sizes; the number of chosen
/// rows depends on data.
const PROGRAM: &str = "
func @main(%x: tensor<[B]x[S]xf32>, %mask: tensor<[B]xi1>) -> (tensor<[B]xf32>, tensor<[K]x[S]xf32>) {
  %zero = constant dense<0> : tensor<i64>
  %none = constant dense<0.0> : tensor<f32>
  %a = cumulative %x, %none, dim = 1 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies add
  %b = cumulative %a, %none, dim = 0 : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]x[S]xf32> applies maximum
  %s = reduce %b, %none, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %ones = convert %mask : (tensor<[B]xi1>) -> tensor<[B]xi64>
  %n = reduce %ones, %zero, dims = [0] : (tensor<[B]xi64>, tensor<i64>) -> tensor<i64> applies add
  bind_dim %n, dim = [K] : tensor<i64>
  %p = nonzero %mask : (tensor<[B]xi1>) -> tensor<[K]xi64>
  %rows = gather %b, %p, offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, S], bounds = check : (tensor<[B]x[S]xf32>, tensor<[K]xi64>) -> tensor<[K]x[S]xf32>
  %c = cumulative %rows, %none, dim = 0 : (tensor<[K]x[S]xf32>, tensor<f32>) -> tensor<[K]x[S]xf32> applies add
  %d = cumulative %c, %none, dim = 1 : (tensor<[K]x[S]xf32>, tensor<f32>) -> tensor<[K]x[S]xf32> applies add
  return %s, %d : (tensor<[B]xf32>, tensor<[K]x[S]xf32>)
}";

fn random(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) % below
}

fn inputs(state: &mut u64, sizes: [i64; 2]) -> [HostTensor; 2] {
    let x = HostTensor::zeros(DType::F32, &sizes).expect("memory");
    let mut mask = HostTensor::zeros(DType::I1, &sizes[..1]).expect("memory");
    mask.bytes_mut().iter_mut().for_each(|byte| *byte = random(state, 2) as u8);
    [x, mask]
}

/// Memory for outputs that exists already.
struct Ready([Vec<u64>; 2]);

impl OutputAllocator for Ready {
    fn alloc(&mut self, index: usize, dtype: DType, sizes: &[i64]) -> Result<*mut u8, OutputError> {
        let bytes = sizes.iter().product::<i64>() as usize * dtype.size();
        let memory = &mut self.0[index];
        assert!(bytes <= 8 * memory.len());
        Ok(memory.as_mut_ptr().cast())
    }

    fn alias(&mut self, _: usize, _: usize, _: TensorRef<'_>) -> Result<(), OutputError> {
        panic!("no output is an input")
    }
}

/// Runs once. Returns the number of allocations of the call.
fn run(
    executable: &disc::Executable,
    session: &mut disc::ral::SessionState,
    given: &[HostTensor; 2],
    outputs: &mut Ready,
) -> u64 {
    let references = given.each_ref().map(HostTensor::as_input);
    let before = ALLOCATIONS.get();
    executable.run(0, session, &references, outputs).unwrap_or_else(|error| panic!("{error}"));
    ALLOCATIONS.get() - before
}

fn load(specialize: Specialize) -> Option<disc::Executable> {
    let level = native::levels().last()?;
    let options = Options { target: Some(level.name().into()), threads: Some(1), specialize, ..Options::default() };
    let module = disc::parse(PROGRAM).expect("a program");
    let artifact = disc::compile(module, &options).unwrap_or_else(|error| panic!("{error}"));
    Some(artifact.load(Vec::new(), &options).expect("no weights"))
}

#[test]
fn ten_thousand_shapes_take_one_compile_and_bounded_memory() {
    for specialize in [Specialize::Off, Specialize::Auto] {
        let Some(executable) = load(specialize) else { return };
        many_shapes(&executable);
        assert_eq!(executable.specializations().compiled, 0, "no shape of so many is hot");
    }
}

#[test]
fn a_version_allocates_nothing_after_its_first_calls() {
    let Some(executable) = load(Specialize::Always) else { return };
    let mut outputs = Ready([vec![0; 1 << 16], vec![0; 1 << 16]]);
    let given = inputs(&mut 7, [33, 65]);
    executable.with_session(|session| {
        for _ in 0..2 {
            run(&executable, session, &given, &mut outputs);
        }
        background::wait();
        let warm: Vec<u64> = (0..40).map(|_| run(&executable, session, &given, &mut outputs)).collect();
        assert!(warm[2..].iter().all(|&count| count == 0), "{warm:?}");
    });
    assert_eq!(executable.specializations().versions.first().map(|version| version.hits), Some(40));
}

fn many_shapes(executable: &disc::Executable) {
    let mut state = 7;
    let mut outputs = Ready([vec![0; 1 << 16], vec![0; 1 << 16]]);
    executable.with_session(|session| {
        for _ in 0..10_000 {
            let sizes = [random(&mut state, 300) as i64, random(&mut state, 400) as i64];
            let given = inputs(&mut state, sizes);
            run(executable, session, &given, &mut outputs);
            let (held, peak) = (session.held_bytes(), session.peak_arena_bytes());
            assert!(held <= peak + peak / 2 + (64 << 10), "{held} bytes are held, {peak} were needed at most");
        }
        assert_eq!(executable.calls(), 10_000);
        // Otherwise the bound of the arena would be the part that is never trimmed.
        assert!(session.peak_arena_bytes() > 512 << 10, "{} bytes were needed at most", session.peak_arena_bytes());

        for sizes in [[33, 65], [299, 399], [1, 1], [0, 17], [128, 7], [299, 399]] {
            let given = inputs(&mut state, sizes);
            let warm: Vec<u64> = (0..100).map(|_| run(executable, session, &given, &mut outputs)).collect();
            // After larger shapes, the arena shrinks in the next two periods of 32 calls.
            assert!(warm[2..70].iter().sum::<u64>() <= 2, "{sizes:?}: {warm:?}");
            assert!(warm[70..].iter().all(|&count| count == 0), "{sizes:?}: {warm:?}");
        }
    });
}
