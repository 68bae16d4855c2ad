//! Plants faults in kernels: each is found by its name and its place.
mod common;
use common::{Bench, grid};
use disc_ral::LaunchFailure;

/// Asserts that a message has all parts.
fn says(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "`{part}` is not in: {message}");
    }
}

/// Returns a kernel of one block of 64 threads over `%in` and `%out` of 64 elements.
fn kernel(body: &str) -> String {
    format!(
        "kernel @k(%in: buffer<64xf32>, %out: buffer<64xf32>) grid threads = 64, warp = 32 {{
  %t = place thread : i32
  %zero = constant dense<0> : i32
  %one = constant dense<1> : i32
  %last = constant dense<63> : i32
  %f = constant dense<1.0> : f32
  %even = constant dense<true> : i1
{body}
  return
}}"
    )
}

fn message(body: &str, shared: i64) -> String {
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    bench.error(&kernel(body), &args, grid(1, 64).shared(shared))
}

const MIRRORED: &str = "  %m = shared : buffer<64xf32, shared>
  %x = load %in[%t] : (buffer<64xf32>, i32) -> f32
  store %m[%t], %x : (buffer<64xf32, shared>, i32, f32)
BARRIER
  %other = subtract %last, %t : i32
  %y = load %m[%other] : (buffer<64xf32, shared>, i32) -> f32
  store %out[%t], %y : (buffer<64xf32>, i32, f32)";

#[test]
fn a_missing_barrier_is_a_race() {
    let found = message(&MIRRORED.replace("BARRIER", ""), 256);
    says(&found, &["@k, block 0, thread 0: reads element 63 of `%m`", "a race: thread 63 writes it", "`%y = load %m[%other]"]);
    // A barrier of the warp orders no threads of other warps.
    let found = message(&MIRRORED.replace("BARRIER", "  barrier warp"), 256);
    says(&found, &["thread 0: reads element 63 of `%m`", "a race: thread 63 writes it"]);
}

#[test]
fn a_barrier_orders_accesses() {
    let mut bench = Bench::new();
    let x: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let args = [bench.f32s(&x), bench.empty(256)];
    let text = kernel(&MIRRORED.replace("BARRIER", "  barrier block"));
    bench.launch(&text, &args, grid(1, 64).shared(256)).unwrap();
    assert_eq!(bench.read_f32s(args[1], 64), x.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn each_block_has_shared_memory_of_its_own() {
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    let body = MIRRORED.replace("BARRIER", "  barrier block").replace("store %out[%t], %y : (buffer<64xf32>, i32, f32)", "");
    bench.launch(&kernel(&body), &args, grid(3, 64)).unwrap();
    // A later block does not see the words of an earlier one.
    let found = bench.error(
        &kernel(
            "  %m = shared : buffer<64xf32, shared>
  %b = place block : i32
  %first = compare EQ, %b, %zero : (i32, i32) -> i1
  if %first : (i1) -> () then {
    store %m[%t], %f : (buffer<64xf32, shared>, i32, f32)
    return
  } else {
    %x = load %m[%t] : (buffer<64xf32, shared>, i32) -> f32
    return
  }",
        ),
        &args,
        grid(2, 64),
    );
    says(&found, &["block 1, thread 0: reads element 0 of `%m`", "nobody has written"]);
}

#[test]
fn queues_share_kernels_and_memory_that_all_read() {
    let body = "  %other = subtract %last, %t : i32
  %x = load %in[%other] : (buffer<64xf32>, i32) -> f32
  %y = add %x, %f : f32
  store %out[%t], %y : (buffer<64xf32>, i32, f32)
  barrier block
  %z = load %out[%other] : (buffer<64xf32>, i32) -> f32";
    let mut bench = Bench::new();
    let weights: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let (input, kernels) = (bench.f32s(&weights), bench.load(&kernel(body)));
    let wanted: Vec<f32> = weights.iter().rev().map(|x| x + 1.0).collect();
    std::thread::scope(|scope| {
        for _ in 0..16 {
            let (kernels, wanted) = (kernels.clone(), &wanted);
            scope.spawn(move || {
                let mut own = Bench::new();
                let out = own.empty(256);
                for _ in 0..200 {
                    own.run(&kernels, &[input, out], grid(1, 64)).unwrap();
                }
                assert_eq!(own.read_f32s(out, 64), *wanted);
            });
        }
    });
}

#[test]
fn a_warps_barrier_orders_a_warp() {
    let mut bench = Bench::new();
    let args = [bench.f32s(&[2.0; 64]), bench.empty(256)];
    let mirrored = MIRRORED.replace("BARRIER", "  barrier warp").replace("subtract %last, %t", "xor %t, %one");
    bench.launch(&kernel(&mirrored), &args, grid(1, 64).shared(256)).unwrap();
    assert_eq!(bench.read_f32s(args[1], 64), [2.0; 64]);
    let unordered = kernel(&mirrored.replace("  barrier warp", ""));
    says(&bench.error(&unordered, &args, grid(1, 64).shared(256)), &["reads element 1 of `%m`", "thread 1 writes it"]);
}

#[test]
fn one_thread_too_many_is_outside_of_the_buffer() {
    // `<=` for `<`: thread 50 of 50 elements, in memory of 64.
    let text = "kernel @k(%in: buffer<[N]xf32>, %out: buffer<[N]xf32>) grid threads = 64, warp = 32 {
  %t = place thread : i32
  %n = dim [N] : i32
  %inside = compare LE, %t, %n : (i32, i32) -> i1
  if %inside : (i1) -> () then {
    %x = load %in[%t] : (buffer<[N]xf32>, i32) -> f32
    store %out[%t], %x : (buffer<[N]xf32>, i32, f32)
    return
  } else {
    return
  }
  return
}";
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256), 50];
    let found = bench.error(text, &args, grid(1, 64));
    says(&found, &["thread 50: reads element 50 of `%in`", "[N], 50 elements", "outside", "`%x = load %in[%t]"]);
    bench.launch(&text.replace("compare LE", "compare LT"), &args, grid(1, 64)).unwrap();
    assert_eq!(bench.read_f32s(args[1], 50), [1.0; 50]);
    let found = bench.download(args[1], 204).unwrap_err();
    says(&format!("{found:?}"), &["byte 200 of 204", "never written"]);
}

#[test]
fn blocks_that_write_one_element_race() {
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    let text = kernel("  store %out[%t], %f : (buffer<64xf32>, i32, f32)");
    bench.launch(&text, &args, grid(1, 64)).unwrap();
    let found = bench.error(&text, &args, grid(2, 64));
    says(&found, &["block 1, thread 0: writes element 0 of `%out`", "a race: another block writes it"]);
    // A second launch is after the first one.
    bench.launch(&text, &args, grid(1, 64)).unwrap();
}

#[test]
fn a_row_that_is_overwritten_in_place_is_read_too_late() {
    // Threads write their elements, and then read those of their neighbours from the same memory.
    let body = "  %x = load %in[%t] : (buffer<64xf32>, i32) -> f32
  store %out[%t], %x : (buffer<64xf32>, i32, f32)
  %other = xor %t, %one : i32
  %y = load %in[%other] : (buffer<64xf32>, i32) -> f32";
    let mut bench = Bench::new();
    let row = bench.f32s(&[1.0; 64]);
    let found = bench.error(&kernel(body), &[row, row], grid(1, 64));
    says(&found, &["thread 0: reads element 1 of `%in`", "a race: thread 1 writes it", "%y = load"]);
    let apart = [row, bench.empty(256)];
    bench.launch(&kernel(body), &apart, grid(1, 64)).unwrap();
}

#[test]
fn a_shared_word_that_nobody_wrote_is_found() {
    let body = "  %m = shared : buffer<64xf32, shared>
  %first = compare LT, %t, %last : (i32, i32) -> i1
  if %first : (i1) -> () then {
    store %m[%t], %f : (buffer<64xf32, shared>, i32, f32)
    return
  } else {
    return
  }
  barrier block
  %x = load %m[%t] : (buffer<64xf32, shared>, i32) -> f32";
    says(&message(body, 256), &["thread 63: reads element 63 of `%m`", "nobody has written", "%x = load"]);
}

#[test]
fn a_barrier_in_a_divergent_branch_is_found() {
    let body = "  %first = compare LT, %t, %last : (i32, i32) -> i1
  if %first : (i1) -> () then {
    OP
    return
  } else {
    return
  }";
    let bench = Bench::new();
    for (op, group) in [
        ("barrier block", "block"),
        ("barrier warp", "warp"),
        ("%r = reduce_group add, %f, width = 32 : f32", "warp"),
        ("%s = shuffle xor, %f, %one, width = 32 : (f32, i32) -> f32", "warp"),
        ("%v = vote any, %first : i1", "warp"),
    ] {
        let found = bench.refusal(&kernel(&body.replace("OP", op)));
        says(&found, &[&format!("the threads of a {group} do this together, and `%first`, the condition of the `if`")]);
    }
}

#[test]
fn a_misaligned_vector_is_found() {
    let body = "  %four = constant dense<4> : i32
  %eight = constant dense<8> : i32
  %few = compare LT, %t, %eight : (i32, i32) -> i1
  if %few : (i1) -> () then {
    %first = multiply %t, %four : i32
    %i = add %first, %one : i32
    %v = load %in[%i], align = 16 : (buffer<64xf32>, i32) -> vector<4xf32>
    return
  } else {
    return
  }";
    says(&message(body, 0), &["thread 0: reads element 1 of `%in`", "no multiple of 16 bytes", "%v = load"]);
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    bench.launch(&kernel(&body.replace("add %first, %one", "add %first, %zero")), &args, grid(1, 64)).unwrap();
}

const COPIED: &str = "  %m = shared : buffer<64xf32, shared>
  copy_async %m, %t, %in, %t, elements = 1 : (buffer<64xf32, shared>, i32, buffer<64xf32>, i32)
  commit_copies
WAIT
  %y = load %m[OWN] : (buffer<64xf32, shared>, i32) -> f32
  store %out[%t], %y : (buffer<64xf32>, i32, f32)";

#[test]
fn a_copy_that_nobody_waited_for_is_found() {
    let with = |wait: &str, own: &str| COPIED.replace("WAIT", wait).replace("OWN", own);
    let found = message(&with("  barrier block", "%t"), 256);
    says(&found, &["thread 0: reads element 0 of `%m`", "an asynchronous copy writes, and nobody has waited", "%y = load"]);
    let found = message(&with("  wait_copies left = 1", "%t"), 256);
    says(&found, &["an asynchronous copy writes"]);
    // Another thread's copy needs a barrier after the wait.
    let other = "  %other = subtract %last, %t : i32\n";
    let found = message(&with(&format!("{other}  barrier block\n  wait_copies left = 0"), "%other"), 256);
    says(&found, &["thread 0: reads element 63 of `%m`", "a race: thread 63 writes it"]);
    let mut bench = Bench::new();
    let args = [bench.f32s(&[3.0; 64]), bench.empty(256)];
    let right = with(&format!("{other}  wait_copies left = 0\n  barrier block"), "%other");
    bench.launch(&kernel(&right), &args, grid(1, 64).shared(256)).unwrap();
    assert_eq!(bench.read_f32s(args[1], 64), [3.0; 64]);
}

#[test]
fn memory_that_is_read_only_is_not_written() {
    let body = "  %x = load %in[%t], cache = readonly : (buffer<64xf32>, i32) -> f32
  barrier block
  %other = subtract %last, %t : i32
  store %out[%other], %x : (buffer<64xf32>, i32, f32)";
    let mut bench = Bench::new();
    let row = bench.f32s(&[1.0; 64]);
    let found = bench.error(&kernel(body), &[row, row], grid(1, 64));
    says(&found, &["thread 0: writes element 63 of `%out`", "memory that is `readonly`", "store %out"]);
    let plain = kernel(&body.replace(", cache = readonly", ""));
    bench.launch(&plain, &[row, row], grid(1, 64)).unwrap();
}

#[test]
fn parts_of_a_word_by_several_threads_are_no_race() {
    let text = "kernel @k(%out: buffer<64xT>) grid threads = 64, warp = 32 {
  %t = place thread : i32
  %x = convert %t : (i32) -> T
  store %out[%t], %x : (buffer<64xT>, i32, T)
  %one = constant dense<1> : i32
  BARRIER
  %other = xor %t, %one : i32
  %y = load %out[%other] : (buffer<64xT>, i32) -> T
  return
}";
    let mut bench = Bench::new();
    for (dtype, bytes) in [("i8", 64), ("f16", 128), ("i16", 128), ("i64", 512)] {
        let args = [bench.empty(bytes)];
        let text = text.replace("BARRIER", "barrier block").replace('T', dtype);
        bench.launch(&text, &args, grid(1, 64)).unwrap();
        let found = bench.error(&text.replace("barrier block", ""), &args, grid(1, 64));
        says(&found, &["thread 0: reads element 1 of `%out`", "a race: thread 1 writes it"]);
    }
}

#[test]
fn a_failed_assertion_is_reported_when_the_queue_waits() {
    let body = "  %five = constant dense<5> : i32
  %holds = compare LT, %t, %five : (i32, i32) -> i1
  assert %holds, %t, %last, site = 7 : (i1, i32, i32)
  %n = subtract %last, %last : i32
  store %out[%t], %f : (buffer<64xf32>, i32, f32)
  barrier block";
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    bench.launch(&kernel(body), &args, grid(3, 64)).unwrap();
    let failure = bench.queue.sync().unwrap_err();
    let LaunchFailure::Fault(fault) = failure else { panic!("{failure:?}") };
    assert_eq!((fault.status, &fault.values[..3]), (7, &[5, 63, 0][..]));
    assert_eq!(bench.queue.sync(), Ok(()));
}

#[test]
fn limits_of_the_chip_are_kept() {
    let mut bench = Bench::new();
    let args = [bench.f32s(&[1.0; 64]), bench.empty(256)];
    let found = bench.error(&kernel(""), &args, grid(1, 64).shared(300 << 10));
    says(&found, &["a block shares 307200 bytes, the chip has 232448"]);
    let found = bench.error(&kernel(""), &args, grid(1, 32));
    says(&found, &["blocks of 64 threads, its launch 32"]);
    let large = kernel("  %m = shared : buffer<100000xf32, shared>");
    says(&bench.error(&large, &args, grid(1, 64)), &["a block shares 400000 bytes, the chip has 232448"]);
    let own = kernel("  %m = scratch : buffer<20xf32, task>");
    let found = bench.error(&own, &args, grid(1, 64).scratch(64));
    says(&found, &["`%m` ends at byte 80 of a thread's memory, the launch has 64 bytes"]);
    let endless = "kernel @k() grid threads = 1024, warp = 32 {
  %zero = constant dense<0> : i32
  %true = constant dense<true> : i1
  %end = while %zero : i32 cond(%i: i32) {
    return %true : i1
  } do(%i: i32) {
    return %i : i32
  }
  return
}";
    says(&bench.error(endless, &[], grid(1, 1024)), &["runs for more than 1000000000 steps", "%end = while %zero"]);
}

#[test]
fn memory_of_the_host_and_freed_memory_are_refused() {
    let mut bench = Bench::new();
    let host = [0_f32; 64];
    let out = bench.empty(256);
    let found = bench.error(&kernel(""), &[host.as_ptr().addr() as u64, out], grid(1, 64));
    says(&found, &["kernel @k: `%in` is at", "which is no memory of the device"]);
    let freed = bench.device.alloc(256).unwrap();
    // SAFETY: allocated by the device, once.
    unsafe { bench.device.free(freed, 256) };
    let found = bench.error(&kernel(""), &[freed.addr().get() as u64, out], grid(1, 64));
    says(&found, &["which is no memory of the device"]);
    let unwritten = [bench.empty(256), out];
    let body = "  %x = load %in[%t] : (buffer<64xf32>, i32) -> f32";
    says(&bench.error(&kernel(body), &unwritten, grid(1, 64)), &["thread 0: reads element 0 of `%in`", "nobody has written"]);
}
