//! Compares results with those of the interpreter of the IR, bit by bit but for NaNs.
mod common;
use common::{Bench, Sizes, grid};
use disc_ir::{
    DType,
    interp::{Tensor, run},
    ops::Stage,
    parse, verify,
};
use std::fmt::Write;

/// A kernel `@k` with its inputs and outputs, without sizes that vary.
struct Case {
    kernel: String,
    inputs: Vec<Tensor>,
    /// The sizes and element type of each output, such as `64xf32`.
    outputs: Vec<String>,
    sizes: Sizes,
}

fn shape(tensor: &Tensor) -> String {
    let dims: String = tensor.dims().iter().map(|size| format!("{size}x")).collect();
    format!("{dims}{}", tensor.dtype())
}

/// Runs a case by the interpreter and by the device. Returns false if the verifier refuses it.
fn agrees(bench: &mut Bench, case: &Case) -> bool {
    let Case { kernel, inputs, outputs, sizes } = case;
    let mut host = String::new();
    let list = inputs.iter().enumerate().map(|(i, input)| format!("%a{i}: buffer<{}>", shape(input)));
    writeln!(host, "host @main({}) {{", list.collect::<Vec<_>>().join(", ")).unwrap();
    for (i, output) in outputs.iter().enumerate() {
        writeln!(host, "  %o{i} = alloc_output index = {i} : buffer<{output}>").unwrap();
    }
    let names = (0..inputs.len()).map(|i| format!("%a{i}")).chain((0..outputs.len()).map(|i| format!("%o{i}")));
    let types = inputs.iter().map(shape).chain(outputs.iter().cloned()).map(|shape| format!("buffer<{shape}>"));
    let (names, types) = (names.collect::<Vec<_>>().join(", "), types.collect::<Vec<_>>().join(", "));
    let (blocks, shared, scratch) = (sizes.blocks, sizes.shared, sizes.scratch);
    let attrs = format!("blocks = [{blocks}], shared = [{shared}], scratch = [{scratch}]");
    writeln!(host, "  launch_grid @k({names}), {attrs} : ({types})\n  return\n}}").unwrap();
    let text = format!("{kernel}\n{host}");
    let module = parse(&text).unwrap_or_else(|errors| panic!("{}\n{text}", errors[0]));
    if verify(&module, Stage::Kernel).is_err() {
        return false;
    }
    let wanted = run(&module, "main", inputs).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut args: Vec<u64> = inputs.iter().map(|input| bench.upload(input.bytes())).collect();
    args.extend(wanted.iter().map(|output| bench.empty(output.bytes().len())).collect::<Vec<_>>());
    bench.launch(&text, &args, *sizes).unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
    for (output, &at) in wanted.iter().zip(&args[inputs.len()..]) {
        let bytes = bench.download(at, output.bytes().len()).unwrap_or_else(|failure| panic!("{failure:?}\n{text}"));
        let found = Tensor::new(output.dtype(), output.dims().to_vec(), bytes).unwrap();
        let (values, size) = ([found.to_f64s(), output.to_f64s()], output.dtype().size());
        for i in 0..output.len() {
            let bits = [found.bytes(), output.bytes()].map(|bytes| &bytes[i * size..(i + 1) * size]);
            let is_nan = output.dtype().is_float() && values[0][i].is_nan() && values[1][i].is_nan();
            let [a, b] = [values[0][i], values[1][i]];
            let given: Vec<f64> = inputs.iter().map(|input| input.to_f64s()[i % input.len()]).collect();
            assert!(is_nan || bits[0] == bits[1], "element {i}: {a:?}, the interpreter has {b:?}, of {given:?}\n{text}");
        }
    }
    true
}

const COUNT: usize = 64;

/// Values with which ops differ, each `step` further than the one before.
fn values(dtype: DType, step: usize) -> Tensor {
    let floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        -3.7,
        1e-40,
        -3e-39,
        1e30,
        -1e30,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        65504.0,
        65520.0,
        1e-8,
        0.1,
        16_777_217.0,
        2_147_483_648.0,
        -129.0,
        255.9,
        1.0009765625,
        9.5e18,
        1e-4,
        6e-8,
    ];
    let integers =
        [0, 1, -1, 2, 3, 7, i64::MIN, i64::MAX, 100, -100, 31, 32, 33, 63, 64, 5, i32::MIN.into(), 16_777_217, -128, 1 << 40];
    let at = |i: usize, count: usize| (i * step + i / count) % count;
    match dtype.is_float() {
        true => Tensor::from_f64s(dtype, &[COUNT as i64], &(0..COUNT).map(|i| floats[at(i, floats.len())]).collect::<Vec<_>>()),
        false => {
            Tensor::from_i64s(dtype, &[COUNT as i64], &(0..COUNT).map(|i| integers[at(i, integers.len())]).collect::<Vec<_>>())
        }
    }
    .unwrap()
}

/// Returns a kernel of one block that applies an op to elements of inputs of these types.
fn elementwise(op: &str, from: &[DType], to: DType) -> Case {
    let mut kernel = String::from("kernel @k(");
    for (i, dtype) in from.iter().enumerate() {
        write!(kernel, "%a{i}: buffer<{COUNT}x{dtype}>, ").unwrap();
    }
    write!(kernel, "%out: buffer<{COUNT}x{to}>) grid threads = {COUNT}, warp = 32 {{\n  %t = place thread : i32\n").unwrap();
    let names: Vec<String> = (0..from.len()).map(|i| format!("%x{i}")).collect();
    for (i, dtype) in from.iter().enumerate() {
        writeln!(kernel, "  %x{i} = load %a{i}[%t] : (buffer<{COUNT}x{dtype}>, i32) -> {dtype}").unwrap();
    }
    let types: Vec<String> = from.iter().map(ToString::to_string).collect();
    let (names, types) = (names.join(", "), types.join(", "));
    writeln!(kernel, "  %r = {op} {names} : ({types}) -> {to}").unwrap();
    writeln!(kernel, "  store %out[%t], %r : (buffer<{COUNT}x{to}>, i32, {to})\n  return\n}}").unwrap();
    let inputs = from.iter().zip([7, 3, 11]).map(|(&dtype, step)| values(dtype, step)).collect();
    Case { kernel, inputs, outputs: vec![format!("{COUNT}x{to}")], sizes: grid(1, COUNT as u32) }
}

#[test]
fn ops_of_one_operand_agree() {
    let mut bench = Bench::new();
    let mut count = 0;
    for dtype in DType::ALL {
        for op in [
            "abs",
            "ceil",
            "count_leading_zeros",
            "floor",
            "negate",
            "not",
            "popcnt",
            "round_nearest_afz",
            "round_nearest_even",
            "rsqrt",
            "sign",
            "sqrt",
        ] {
            count += usize::from(agrees(&mut bench, &elementwise(op, &[dtype], dtype)));
        }
        for op in ["is_finite", "is_inf", "is_nan"] {
            count += usize::from(agrees(&mut bench, &elementwise(op, &[dtype], DType::I1)));
        }
    }
    assert!(count >= 89, "{count} ops ran");
}

#[test]
fn ops_of_two_operands_agree() {
    let mut bench = Bench::new();
    let mut count = 0;
    for dtype in DType::ALL {
        for op in [
            "add",
            "and",
            "divide",
            "maximum",
            "minimum",
            "multiply",
            "or",
            "remainder",
            "shift_left",
            "shift_right_arithmetic",
            "shift_right_logical",
            "subtract",
            "xor",
        ] {
            count += usize::from(agrees(&mut bench, &elementwise(op, &[dtype; 2], dtype)));
        }
        // The power of floats is expanded before.
        if !dtype.is_float() {
            count += usize::from(agrees(&mut bench, &elementwise("power", &[dtype; 2], dtype)));
        }
        for direction in ["EQ", "NE", "LT", "LE", "GT", "GE"] {
            let op = format!("compare {direction},");
            count += usize::from(agrees(&mut bench, &elementwise(&op, &[dtype; 2], DType::I1)));
        }
    }
    assert!(count > 200, "{count} ops ran");
}

#[test]
fn ops_of_three_operands_agree() {
    let mut bench = Bench::new();
    let mut count = 0;
    for dtype in DType::ALL {
        count += usize::from(agrees(&mut bench, &elementwise("select", &[DType::I1, dtype, dtype], dtype)));
        count += usize::from(agrees(&mut bench, &elementwise("clamp", &[dtype; 3], dtype)));
        count += usize::from(agrees(&mut bench, &elementwise("fma", &[dtype; 3], dtype)));
    }
    assert!(count > 36, "{count} ops ran");
}

#[test]
fn conversions_agree() {
    let mut bench = Bench::new();
    for from in DType::ALL {
        for to in DType::ALL {
            assert!(agrees(&mut bench, &elementwise("convert", &[from], to)));
            if from.size() == to.size() && from != DType::I1 && to != DType::I1 {
                assert!(agrees(&mut bench, &elementwise("bitcast_convert", &[from], to)));
            }
        }
    }
}

/// Returns a kernel of 64 threads over `%x` of 256 f32, `%n` of 64 i32, and `%y` of 256 f32.
fn of_threads(body: &str) -> Case {
    let kernel = format!(
        "routine @twice(%v: f32) -> f32 {{
  %d = add %v, %v : f32
  return %d : f32
}}
kernel @k(%x: buffer<256xf32>, %n: buffer<64xi32>, %y: buffer<256xf32>) grid threads = 64, warp = 32 {{
  %t = place thread : i32
  %b = place block : i32
  %zero = constant dense<0> : i32
  %one = constant dense<1> : i32
  %two = constant dense<2> : i32
  %four = constant dense<4> : i32
  %at = multiply %t, %four : i32
  %none = constant dense<0.0> : f32
  %count = load %n[%t] : (buffer<64xi32>, i32) -> i32
  %v = load %x[%at] : (buffer<256xf32>, i32) -> f32
  %w = load %x[%at], align = 16 : (buffer<256xf32>, i32) -> vector<4xf32>
{body}
  store %y[%at], %r : (buffer<256xf32>, i32, vector<4xf32>)
  return
}}"
    );
    let x: Vec<f64> = (0..256).map(|i| f64::from((i * 37) % 101) - 40.5).collect();
    let n: Vec<i64> = (0..64).map(|i| (i * 11) % 7).collect();
    let inputs = vec![Tensor::from_f64s(DType::F32, &[256], &x).unwrap(), Tensor::from_i64s(DType::I32, &[64], &n).unwrap()];
    Case { kernel, inputs, outputs: vec!["256xf32".into()], sizes: grid(1, 64).shared(32).scratch(128) }
}

#[test]
fn control_flow_agrees() {
    let bodies = [
        // Loops whose numbers of turns differ, with values that change places.
        "  %a, %c = for %zero, %count, %one, %v, %none : (i32, i32, i32, f32, f32) -> (f32, f32) do(%i: i32, %p: f32, %q: f32) {
    %s = add %p, %q : f32
    return %s, %p : (f32, f32)
  }
  %d = subtract %a, %c : f32
  %r = splat %d : (f32) -> vector<4xf32>",
        // A loop of all, with a loop of some and a branch within.
        "  %a = for %zero, %four, %one, %v : (i32, i32, i32, f32) -> f32 do(%i: i32, %p: f32) {
    %more = compare GT, %count, %i : (i32, i32) -> i1
    %q = if %more : (i1) -> f32 then {
      %s = for %i, %count, %two, %p : (i32, i32, i32, f32) -> f32 do(%j: i32, %u: f32) {
        %k = convert %j : (i32) -> f32
        %z = fma %u, %k, %v : f32
        return %z : f32
      }
      return %s : f32
    } else {
      %h = call @twice(%p) : (f32) -> f32
      return %h : f32
    }
    return %q : f32
  }
  %r = splat %a : (f32) -> vector<4xf32>",
        // Loops by a condition, of threads and of the block.
        "  %n1, %a = while %count, %v : (i32, f32) -> (i32, f32) cond(%i: i32, %p: f32) {
    %more = compare GT, %i, %zero : (i32, i32) -> i1
    return %more : i1
  } do(%i: i32, %p: f32) {
    %j = subtract %i, %one : i32
    %k = convert %i : (i32) -> f32
    %q = add %p, %k : f32
    return %j, %q : (i32, f32)
  }
  %m = while %zero : i32 cond(%i: i32) {
    %more = compare LT, %i, %four : (i32, i32) -> i1
    return %more : i1
  } do(%i: i32) {
    %j = add %i, %two : i32
    return %j : i32
  }
  %mf = convert %m : (i32) -> f32
  %s = add %a, %mf : f32
  %r = splat %s : (f32) -> vector<4xf32>",
    ];
    let mut bench = Bench::new();
    for body in bodies {
        assert!(agrees(&mut bench, &of_threads(body)), "{body}");
    }
}

#[test]
fn memory_and_lanes_agree() {
    let bodies = [
        // Memory of each thread, read at places that differ.
        "  %m = scratch : buffer<4xf32, task>
  %o = scratch : buffer<8xf32, task>
  store %m[%zero], %w : (buffer<4xf32, task>, i32, vector<4xf32>)
  %i = remainder %count, %four : i32
  %p = load %m[%i] : (buffer<4xf32, task>, i32) -> f32
  store %o[%i], %p : (buffer<8xf32, task>, i32, f32)
  %q = load %o[%i] : (buffer<8xf32, task>, i32) -> f32
  %r = splat %q : (f32) -> vector<4xf32>",
        // Views, of the thread's own elements and of a part for all; one element for all threads.
        "  %own = view %x[%at] : (buffer<256xf32>, i32) -> buffer<4xf32>
  %part = view %x[%four] : (buffer<256xf32>, i32) -> buffer<8xf32>
  %p = load %own[%two] : (buffer<4xf32>, i32) -> f32
  %q = load %part[%two] : (buffer<8xf32>, i32) -> f32
  %u = load %part[%zero] : (buffer<8xf32>, i32) -> vector<4xf32>
  %s = add %p, %q : f32
  %z = splat %s : (f32) -> vector<4xf32>
  %r = add %z, %u : vector<4xf32>",
        // Masks, and elements that change their lanes.
        "  %some = compare GT, %count, %two : (i32, i32) -> i1
  %p = load %x[%at], %some : (buffer<256xf32>, i32, i1) -> f32
  %q = reduce_lanes %w, applies = add : (vector<4xf32>) -> f32
  %s = add %p, %q : f32
  %e = extract_lane %w, lane = 2 : (vector<4xf32>) -> f32
  %c = add %s, %e : f32
  %z = splat %c : (f32) -> vector<4xf32>
  %low, %high = zip_lanes %w, %z : vector<4xf32>
  %even, %odd = unzip_lanes %low, %high : vector<4xf32>
  %bits = recast_lanes %odd : (vector<4xf32>) -> vector<8xi16>
  %again = recast_lanes %bits : (vector<8xi16>) -> vector<4xf32>
  %numbers = lanes : vector<4xi32>
  %scales = constant dense<3> : vector<4xi32>
  %places = multiply %numbers, %scales : vector<4xi32>
  %d = add %even, %again : vector<4xf32>
  %r = pick_lanes %d, %w, %places : (vector<4xf32>, vector<4xf32>, vector<4xi32>) -> vector<4xf32>",
        "  %z = splat %v : (f32) -> vector<4xf32>
  %p0, %p1, %p2, %p3 = transpose_lanes %w, %z, %w, %z : vector<4xf32>
  %s = subtract %p1, %p2 : vector<4xf32>
  %r = maximum %s, %p3 : vector<4xf32>",
    ];
    let mut bench = Bench::new();
    for body in bodies {
        assert!(agrees(&mut bench, &of_threads(body)), "{body}");
    }
}

#[test]
fn groups_agree() {
    let bodies = [
        "  %s = shuffle xor, %w, %two, width = 8 : (vector<4xf32>, i32) -> vector<4xf32>
  %u = shuffle up, %s, %count, width = 16 : (vector<4xf32>, i32) -> vector<4xf32>
  %d = shuffle down, %u, %count, width = 32 : (vector<4xf32>, i32) -> vector<4xf32>
  %r = shuffle index, %d, %count, width = 4 : (vector<4xf32>, i32) -> vector<4xf32>",
        "  %a = reduce_group add, %v, width = 32 : f32
  %c = reduce_group maximum, %w, width = 8 : vector<4xf32>
  %d = reduce_group minimum, %count, width = 2 : i32
  %k = convert %d : (i32) -> f32
  %s = add %a, %k : f32
  %z = splat %s : (f32) -> vector<4xf32>
  %r = add %z, %c : vector<4xf32>",
        "  %more = compare GT, %count, %four : (i32, i32) -> i1
  %few = compare GE, %count, %zero : (i32, i32) -> i1
  %any = vote any, %more : i1
  %all = vote all, %few : i1
  %number = vote count, %more : (i1) -> i32
  %both = and %any, %all : i1
  %k = convert %number : (i32) -> f32
  %s = select %both, %k, %none : (i1, f32, f32) -> f32
  %r = splat %s : (f32) -> vector<4xf32>",
        "  %m = shared : buffer<8xi32, shared>
  %eight = constant dense<8> : i32
  %first = compare LT, %t, %eight : (i32, i32) -> i1
  if %first : (i1) -> () then {
    store %m[%t], %zero : (buffer<8xi32, shared>, i32, i32)
    return
  } else {
    return
  }
  barrier block
  %old = atomic add, %m[%count], %one : (buffer<8xi32, shared>, i32, i32) -> i32
  %o2 = atomic max, %m[%count], %t : (buffer<8xi32, shared>, i32, i32) -> i32
  %o3 = atomic exchange, %m[%count], %two : (buffer<8xi32, shared>, i32, i32) -> i32
  %o4 = atomic compare, %m[%count], %t, %two : (buffer<8xi32, shared>, i32, i32, i32) -> i32
  %s1 = add %old, %o2 : i32
  %s2 = add %o3, %o4 : i32
  %s = add %s1, %s2 : i32
  %k = convert %s : (i32) -> f32
  %r = splat %k : (f32) -> vector<4xf32>",
    ];
    let mut bench = Bench::new();
    for body in bodies {
        assert!(agrees(&mut bench, &of_threads(body)), "{body}");
    }
}
