//! GEMMs that are offered to a library: the arguments of the library, the offers that it does not
//! get, and the decision of a class of sizes.

use crate::harness::*;
use disc_abi::{Context, Gemm, KernelFn, STATUS_OK, Tensor};
use disc_ral::*;
use std::{cell::Cell, ptr, sync::Arc};

/// A library that leaves its mark in place of a product, if it can.
struct Marks {
    can: bool,
}

const BY_KERNEL: f32 = 1.0;
const BY_LIBRARY: f32 = 2.0;

impl GemmLibrary for Marks {
    fn name(&self) -> &str {
        "marks"
    }

    unsafe fn multiply(&self, _: &mut dyn Queue, product: &GemmMatrices) -> Result<bool, LaunchFailure> {
        assert!(!product.left.data.is_null() && !product.right.data.is_null() && !product.result.is_null());
        if self.can {
            // SAFETY: a result has at least one element.
            unsafe { product.result.cast::<f32>().write(BY_LIBRARY) };
        }
        Ok(self.can)
    }
}

/// Writes the kernel's mark. Argument: its address.
unsafe extern "C" fn mark(args: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    // SAFETY: the entry passes the address of an element.
    unsafe { ptr::with_exposed_provenance_mut::<f32>(*args as usize).write(BY_KERNEL) };
    STATUS_OK
}

/// The epilogue of a GEMM: writes ten times the product. Arguments: the product and the result.
unsafe extern "C" fn tenfold(args: *const u64, _: i64, _: i64, _: *mut u8) -> i32 {
    // SAFETY: the runtime wrote the product's address, the entry that of an element.
    unsafe {
        let product = ptr::with_exposed_provenance::<f32>(*args as usize).read();
        ptr::with_exposed_provenance_mut::<f32>(*args.add(1) as usize).write(10.0 * product);
    }
    STATUS_OK
}

#[derive(Clone, Copy)]
struct Offered {
    sizes: [i64; 3],
    strides: [i64; 4],
    panel: i64,
    /// The right operand is the weight.
    of_weight: bool,
    has_rest: bool,
}

const PLAIN: Offered = Offered { sizes: [2, 4, 3], strides: [3, 1, 4, 1], panel: 0, of_weight: false, has_rest: false };

thread_local! {
    static NEXT: Cell<Offered> = const { Cell::new(PLAIN) };
    static FOUND: Cell<f32> = const { Cell::new(0.0) };
}

unsafe extern "C" fn offer(ctx: *mut Context, _: *const Tensor, _: *mut Tensor) -> i32 {
    let Offered { sizes, strides, panel, of_weight, has_rest } = NEXT.get();
    let (operand, mut result) = ([0.0_f32; 256], [0.0_f32; 16]);
    let at = result.as_mut_ptr().expose_provenance() as u64;
    let (args, mut rest_args) = ([at], [0, at]);
    // SAFETY: the module has one weight, and the memory is as large as these sizes and strides say
    // where anything reads it.
    unsafe {
        let right = if of_weight { *(*ctx).weights } else { operand.as_ptr().cast() };
        let product = Gemm {
            dtype: u64::from(DType::F32.code()),
            sizes,
            strides,
            panel,
            left: operand.as_ptr().cast(),
            right,
            result: if has_rest { ptr::null_mut() } else { result.as_mut_ptr().cast() },
            kernel: (mark as KernelFn).into(),
            args: args.as_ptr(),
            units: 1,
            cost: 10,
            scratch_bytes: 0,
            rest: has_rest.then_some((tenfold as KernelFn).into()),
            rest_args: rest_args.as_mut_ptr(),
            rest_slot: 0,
            rest_units: 1,
            rest_cost: 20,
            rest_scratch_bytes: 0,
        };
        let status = (runtime(ctx).gemm)(ctx, &raw const product);
        FOUND.set(ptr::with_exposed_provenance::<f32>(at as usize).read());
        status
    }
}

/// Makes an executable with a weight of 16 x 4 elements, whose GEMMs are offered to a library.
fn executable(can: bool, policy: Policy) -> (Executable, Arc<GemmDispatch>) {
    let weight = WeightMeta { name: "w".into(), dtype: DType::F32, sizes: vec![16, 4], prepare_only: false };
    let entries = vec![entry("offer", Vec::new(), Vec::new())];
    let meta = Arc::new(ModuleMeta { entries, weights: vec![weight], ..ModuleMeta::default() });
    let gemm = Arc::new(GemmDispatch::new(Box::new(Marks { can }), policy, Vec::new(), None));
    // SAFETY: the function belongs to this metadata.
    let code = unsafe { Code::from_functions(vec![offer], Vec::new()) };
    let weights = vec![HostTensor::new(&[16, 4], &[1.0_f32; 64]).unwrap().into()];
    let options = ExecutableOptions { gemm: Some(gemm.clone()), ..ExecutableOptions::default() };
    (Executable::new(Cpu::device(), code, meta, weights, options).unwrap(), gemm)
}

fn product(executable: &Executable, offered: Offered) -> f32 {
    NEXT.set(offered);
    run(executable, &mut executable.session(), &[]).unwrap();
    FOUND.get()
}

#[test]
fn what_is_no_matrix_is_the_kernels_and_settles_nothing() {
    let not_taken = [
        Offered { sizes: [0, 4, 3], ..PLAIN },
        Offered { sizes: [2, 0, 3], ..PLAIN },
        Offered { sizes: [2, 4, 0], ..PLAIN },
        Offered { strides: [0, 1, 4, 1], ..PLAIN },
        Offered { strides: [3, 1, 8, 2], ..PLAIN },
        // Panels that are no weight, and a plain form of 2^62 bytes.
        Offered { panel: 16, ..PLAIN },
        Offered { sizes: [2, 1 << 30, 1 << 30], panel: 16, of_weight: true, ..PLAIN },
    ];
    for policy in [Policy::Measured, Policy::Always] {
        let (executable, gemm) = executable(true, policy);
        for offered in not_taken {
            for _ in 0..20 {
                assert_eq!(product(&executable, offered), BY_KERNEL, "{:?} {:?}", offered.sizes, offered.strides);
            }
        }
        assert!(gemm.decisions().is_empty(), "{:?}", gemm.decisions());
        assert_eq!(gemm.counts()[0], 0);
    }
}

#[test]
fn a_class_is_settled_by_times_though_some_of_it_never_came_to_the_library() {
    let (executable, gemm) = executable(true, Policy::Measured);
    let panels = Offered { panel: 16, ..PLAIN };
    for _ in 0..20 {
        assert_eq!(product(&executable, panels), BY_KERNEL);
    }
    let weight = Offered { panel: 16, of_weight: true, ..PLAIN };
    let by_library = (0..20).filter(|_| product(&executable, weight) == BY_LIBRARY).count();
    assert!(by_library >= 4, "the library has its turns");
    let [decision] = gemm.decisions()[..] else { panic!("one class") };
    assert!(decision.nanoseconds_per_row.iter().all(Option::is_some), "{decision:?}");
}

#[test]
fn a_library_that_says_no_is_not_asked_again() {
    let (executable, gemm) = executable(false, Policy::Measured);
    for _ in 0..20 {
        assert_eq!(product(&executable, PLAIN), BY_KERNEL);
    }
    let [decision] = gemm.decisions()[..] else { panic!("one class") };
    assert_eq!((decision.way, decision.nanoseconds_per_row[1]), (Way::Kernel, None));
    assert_eq!(gemm.counts(), [0, 20]);
}

#[test]
fn the_librarys_part_and_what_follows_are_profiled_apart() {
    let (executable, _) = executable(true, Policy::Always);
    let mut session = executable.session();
    session.start_profile();
    NEXT.set(Offered { has_rest: true, ..PLAIN });
    run(&executable, &mut session, &[]).unwrap();
    assert_eq!(FOUND.get(), 10.0 * BY_LIBRARY);
    let records = session.take_profile();
    let found: Vec<_> = records.iter().map(|record| (record.kernel, record.cost, record.by_library)).collect();
    assert_eq!(found, [(mark as *const () as usize, 10, true), (tenfold as *const () as usize, 20, false)]);
}

#[test]
fn a_weight_is_laid_out_for_one_size_of_matrix() {
    let (executable, gemm) = executable(true, Policy::Always);
    let weight = Offered { panel: 16, of_weight: true, ..PLAIN };
    assert_eq!(product(&executable, weight), BY_LIBRARY);
    assert_eq!(product(&executable, Offered { sizes: [5, 4, 3], ..weight }), BY_LIBRARY);
    // The copy that was made is smaller than this.
    assert_eq!(product(&executable, Offered { sizes: [2, 4, 4], strides: [4, 1, 4, 1], ..weight }), BY_KERNEL);
    assert_eq!(gemm.counts(), [2, 1]);
}
