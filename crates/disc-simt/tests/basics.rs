//! Runs kernels whose results are computed by hand.
mod common;
use common::{Bench, grid};

#[test]
fn elements_are_added_by_threads_of_several_blocks() {
    let text = "kernel @k(%x: buffer<[N]xf32>, %y: buffer<[N]xf32>, %out: buffer<[N]xf32>) grid threads = 64, warp = 32 {
  %b = place block : i32
  %t = place thread : i32
  %threads = constant dense<64> : i32
  %n = dim [N] : i32
  %first = multiply %b, %threads : i32
  %i = add %first, %t : i32
  %inside = compare LT, %i, %n : (i32, i32) -> i1
  if %inside : (i1) -> () then {
    %a = load %x[%i] : (buffer<[N]xf32>, i32) -> f32
    %c = load %y[%i] : (buffer<[N]xf32>, i32) -> f32
    %sum = add %a, %c : f32
    store %out[%i], %sum : (buffer<[N]xf32>, i32, f32)
    return
  } else {
    return
  }
  return
}";
    let mut bench = Bench::new();
    let (x, y): (Vec<f32>, Vec<f32>) = (0..100).map(|i| (i as f32, 0.5 * i as f32)).unzip();
    let args = [bench.f32s(&x), bench.f32s(&y), bench.empty(400), 100];
    bench.launch(text, &args, grid(2, 64)).unwrap();
    let sums: Vec<f32> = x.iter().zip(&y).map(|(x, y)| x + y).collect();
    assert_eq!(bench.read_f32s(args[2], 100), sums);
}

#[test]
fn a_loop_with_bounds_of_threads_carries_values() {
    // Thread `t` adds the numbers below `t`.
    let text = "kernel @k(%out: buffer<32xi32>) grid threads = 32, warp = 32 {
  %t = place thread : i32
  %zero = constant dense<0> : i32
  %one = constant dense<1> : i32
  %sum = for %zero, %t, %one, %zero : i32 do(%i: i32, %a: i32) {
    %b = add %a, %i : i32
    return %b : i32
  }
  store %out[%t], %sum : (buffer<32xi32>, i32, i32)
  return
}";
    let mut bench = Bench::new();
    let args = [bench.empty(128)];
    bench.launch(text, &args, grid(1, 32)).unwrap();
    assert_eq!(bench.read_i32s(args[0], 32), (0..32).map(|t| t * (t - 1) / 2).collect::<Vec<_>>());
}
