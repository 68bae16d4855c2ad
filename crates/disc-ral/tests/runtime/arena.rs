//! Temporary memory over calls: cached, bounded, released also after errors.

use crate::harness::*;
use disc_abi::{Context, STATUS_FAILED, STATUS_OK, Tensor};
use disc_ral::*;

/// Takes as many bytes as input 0 has rows of 1 KiB, in nested frames for a fourth of them, and
/// fails if that is odd.
unsafe extern "C" fn take(ctx: *mut Context, inputs: *const Tensor, _: *mut Tensor) -> i32 {
    // SAFETY: the signature below; memory is written within its bounds.
    unsafe {
        let (runtime, rows) = (runtime(ctx), *(*inputs).sizes);
        let bytes = rows << 10;
        let base = (runtime.alloc)(ctx, bytes);
        if base.is_null() {
            return STATUS_FAILED;
        }
        base.write_bytes(1, bytes as usize);
        for _ in 0..3 {
            let mark = (runtime.mark)(ctx);
            let frame = (runtime.alloc)(ctx, bytes / 4);
            frame.write_bytes(2, bytes as usize / 4);
            assert!(bytes == 0 || (*base == 1 && *base.add(bytes as usize - 1) == 1));
            if rows % 2 == 1 {
                return (runtime.fail)(ctx, 1, std::ptr::null(), 0);
            }
            (runtime.release)(ctx, mark);
        }
        STATUS_OK
    }
}

#[test]
fn memory_is_bounded_by_the_largest_need_also_with_errors() {
    let meta = entry("take", vec![input("x", DType::I8, &["B", "0"])], Vec::new());
    let executable = executable(take, meta, vec![site("E0100", "odd", 0)]);
    let mut session = executable.session();
    let mut state = 1_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rows = (state >> 55) as i64;
        let x = HostTensor::zeros(DType::I8, &[rows, 0]).unwrap();
        assert_eq!(run(&executable, &mut session, &[x.as_input()]).is_err(), rows % 2 == 1);
        assert!(session.held_bytes() <= session.peak_arena_bytes() * 3 / 2 + (64 << 10), "{}", session.held_bytes());
    }
    assert!(session.peak_arena_bytes() <= (511 << 10) * 5 / 4 + 64);
    assert_eq!(executable.peak_arena_bytes(), session.peak_arena_bytes());
}
