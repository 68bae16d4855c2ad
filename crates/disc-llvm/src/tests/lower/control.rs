//! Control flow, dims, calls and checks.
use super::{Program, address, address_mut, error, targets};

#[test]
fn loops_carry_values_and_may_not_run() {
    // Sums i * x for i from `low` to below `high` in steps of `step`, and counts.
    let source = "kernel @k(%r: buffer<2xi64>, %low: i64, %high: i64, %step: i64, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %s, %n = for %low, %high, %step, %0, %0 : (i64, i64, i64, i64, i64) -> (i64, i64) do(%i: i64, %sum: i64, %count: i64) {
            %next = add %sum, %i : i64
            %more = add %count, %1 : i64
            return %next, %more : i64, i64
          }
          store %r[%0], %s : (buffer<2xi64>, i64, i64)
          store %r[%1], %n : (buffer<2xi64>, i64, i64)
          return
        }";
    for target in targets() {
        let program = Program::new(source, &target);
        for (low, high, step) in [(0_i64, 10, 1), (0, 10, 3), (5, 5, 1), (7, 3, 2), (-4, 4, 5), (i64::MIN, i64::MIN + 3, 2)] {
            let mut r = [9_i64; 2];
            program.run("k", &[address_mut(&mut r), low as u64, high as u64, step as u64]);
            let indices = std::iter::successors(Some(low), |i| i.checked_add(step)).take_while(|&i| i < high);
            let expected = indices.fold([0_i64, 0], |[sum, count], i| [sum.wrapping_add(i), count + 1]);
            assert_eq!(r, expected, "{target}: {low}..{high} by {step}");
        }
    }
}

#[test]
fn conditions_inside_loops_over_units() {
    // The number of steps that Collatz' sequence of each unit takes.
    let source = "kernel @k(%r: buffer<100xi64>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %2 = constant dense<2> : i64
          %3 = constant dense<3> : i64
          for %begin, %end, %1 : (i64, i64, i64) -> () do(%unit: i64) {
            %n = add %unit, %1 : i64
            %last, %steps = while %n, %0 : (i64, i64) -> (i64, i64) cond(%x: i64, %c: i64) {
              %more = compare %x, %1, direction = GT : (i64, i64) -> i1
              return %more : i1
            } do(%x: i64, %c: i64) {
              %half = divide %x, %2 : i64
              %rest = remainder %x, %2 : i64
              %even = compare %rest, %0, direction = EQ : (i64, i64) -> i1
              %next = if %even : (i1) -> i64 then {
                return %half : i64
              } else {
                %triple = multiply %x, %3 : i64
                %odd = add %triple, %1 : i64
                return %odd : i64
              }
              %more = add %c, %1 : i64
              return %next, %more : i64, i64
            }
            store %r[%unit], %steps : (buffer<100xi64>, i64, i64)
            return
          }
          return
        }";
    let steps = |mut n: i64| {
        let mut count = 0;
        while n > 1 {
            n = if n % 2 == 0 { n / 2 } else { 3 * n + 1 };
            count += 1;
        }
        count
    };
    for target in targets() {
        let program = Program::new(source, &target);
        let mut r = vec![0_i64; 100];
        program.run_units("k", &[address_mut(&mut r)], 10, 60);
        let expected: Vec<i64> = (0..100).map(|i| if (10..60).contains(&i) { steps(i + 1) } else { 0 }).collect();
        assert_eq!(r, expected, "{target}");
    }
}

#[test]
fn dims_are_floor_arithmetic() {
    let source = "kernel @k(%r: buffer<6xi64>, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %2 = constant dense<2> : i64
          %3 = constant dense<3> : i64
          %4 = constant dense<4> : i64
          %a = dim [A/B] : i64
          store %r[%0], %a : (buffer<6xi64>, i64, i64)
          %b = dim [A%B] : i64
          store %r[%1], %b : (buffer<6xi64>, i64, i64)
          %c = dim [(A + 15)/16*16 - 3*B] : i64
          store %r[%2], %c : (buffer<6xi64>, i64, i64)
          %d = dim [min(A, B, 7)] : i64
          store %r[%3], %d : (buffer<6xi64>, i64, i64)
          %e = dim [max(A, B)/7] : i64
          store %r[%4], %e : (buffer<6xi64>, i64, i64)
          return
        }";
    for target in targets() {
        let program = Program::new(source, &target);
        for (a, b) in [(17_i64, 5), (-17, 5), (17, -5), (-17, -5), (0, 3), (8, 0), (15, 15), (i64::MIN, -1)] {
            let mut r = [0_i64; 5];
            // In order of their names.
            program.run("k", &[address_mut(&mut r), a as u64, b as u64]);
            let floor = |a: i64, b: i64| match b {
                0 => 0,
                _ => i128::from(a).div_euclid(b.into()) as i64 - i64::from(b < 0 && i128::from(a) % i128::from(b) != 0),
            };
            let modulo =
                |a: i64, b: i64| if b == 0 { 0 } else { (i128::from(a) - i128::from(floor(a, b)) * i128::from(b)) as i64 };
            let exact = |a: i64, b: i64| (i128::from(a) as f64 / b as f64).floor() as i64;
            if a > -100 && b != 0 {
                assert_eq!(floor(a, b), exact(a, b));
            }
            let blocks = floor(a.wrapping_add(15), 16).wrapping_mul(16).wrapping_sub(b.wrapping_mul(3));
            let wanted = [floor(a, b), if a == i64::MIN { 0 } else { modulo(a, b) }, blocks, a.min(b).min(7), floor(a.max(b), 7)];
            assert_eq!(r, wanted, "{target}: A = {a}, B = {b}");
        }
    }
}

#[test]
fn routines_take_vectors_buffers_and_dims() {
    // More functions than one module takes: the routine is called from another module.
    let kernel = |name: String| {
        format!(
            "kernel @{name}(%r: buffer<[N]xf32>, %x: f32, %begin: i64, %end: i64) {{
              %v = splat %x : (f32) -> vector<4xf32>
              call @store(%r, %begin, %v) : (buffer<[N]xf32>, i64, vector<4xf32>) -> ()
              return
            }}\n"
        )
    };
    let routine = "routine @store(%r: buffer<[N]xf32>, %at: i64, %v: vector<4xf32>) {
          %n = dim [N] : i64
          %f = convert %n, dtype = f32 : (i64) -> f32
          %w = splat %f : (f32) -> vector<4xf32>
          %s = add %v, %w : vector<4xf32>
          store %r[%at], %s : (buffer<[N]xf32>, i64, vector<4xf32>)
          return
        }\n";
    let source: String = (0..40).map(|i| kernel(format!("k{i}"))).chain([routine.to_owned()]).collect();
    for target in targets() {
        let program = Program::new(&source, &target);
        for kernel in ["k0", "k39"] {
            let mut r = [0.0_f32; 8];
            program.run_units(kernel, &[address_mut(&mut r), u64::from(2.5_f32.to_bits()), 100], 2, 3);
            assert_eq!(r, [0.0, 0.0, 102.5, 102.5, 102.5, 102.5, 0.0, 0.0], "{target}");
        }
    }
}

#[test]
fn a_failed_check_ends_the_kernel_with_its_site() {
    let source = "kernel @k(%i: buffer<4xi32>, %r: buffer<4xi32>, %begin: i64, %end: i64) {
          %1 = constant dense<1> : i64
          %bound = constant dense<10> : i32
          for %begin, %end, %1 : (i64, i64, i64) -> () do(%unit: i64) {
            %x = load %i[%unit] : (buffer<4xi32>, i64) -> i32
            %fits = compare %x, %bound, direction = LT : (i32, i32) -> i1
            assert %fits, %x, %unit, site = 5 : (i1, i32, i64)
            store %r[%unit], %x : (buffer<4xi32>, i64, i32)
            return
          }
          return
        }";
    for target in targets() {
        let program = Program::new(source, &target);
        let (good, bad, mut r) = ([1, 2, 3, 4_i32], [1, -7, 12, 4_i32], [0_i32; 4]);
        assert_eq!(program.run_units("k", &[address(&good), address_mut(&mut r)], 0, 4).0, 0);
        assert_eq!(r, good);
        let mut r = [0_i32; 4];
        let (status, values) = program.run_units("k", &[address(&bad), address_mut(&mut r)], 0, 4);
        assert_eq!((status, values[0], values[1]), (5, 12, 2), "{target}");
        assert_eq!(r, [1, -7, 0, 0], "{target}");
    }
}

#[test]
fn a_failed_check_of_a_routine_ends_its_caller() {
    let source = "routine @check(%x: i64) {
          %limit = dim [N] : i64
          %fits = compare %x, %limit, direction = LT : (i64, i64) -> i1
          assert %fits, %x, %limit, site = 3 : (i1, i64, i64)
          return
        }
        kernel @k(%r: buffer<[N]xi64>, %begin: i64, %end: i64) {
          %1 = constant dense<1> : i64
          for %begin, %end, %1 : (i64, i64, i64) -> () do(%unit: i64) {
            call @check(%unit) : (i64) -> ()
            store %r[%unit], %1 : (buffer<[N]xi64>, i64, i64)
            return
          }
          return
        }";
    for target in targets() {
        let program = Program::new(source, &target);
        let mut r = [0_i64; 4];
        assert_eq!(program.run_units("k", &[address_mut(&mut r), 4], 0, 2).0, 0);
        let (status, values) = program.run_units("k", &[address_mut(&mut r), 3], 2, 4);
        assert_eq!((status, values[0], values[1], r), (3, 3, 3, [1, 1, 1, 0]), "{target}");
    }
}

#[test]
fn scalars_of_every_width_are_arguments() {
    let source = "kernel @k(%r: buffer<4xf64>, %a: f32, %b: i8, %c: i1, %d: f64, %begin: i64, %end: i64) {
          %0 = constant dense<0> : i64
          %1 = constant dense<1> : i64
          %2 = constant dense<2> : i64
          %3 = constant dense<3> : i64
          %e = convert %a, dtype = f64 : (f32) -> f64
          store %r[%0], %e : (buffer<4xf64>, i64, f64)
          %f = convert %b, dtype = f64 : (i8) -> f64
          store %r[%1], %f : (buffer<4xf64>, i64, f64)
          %g = convert %c, dtype = f64 : (i1) -> f64
          store %r[%2], %g : (buffer<4xf64>, i64, f64)
          store %r[%3], %d : (buffer<4xf64>, i64, f64)
          return
        }";
    for target in targets() {
        let mut r = [0.0_f64; 4];
        let arguments = [address_mut(&mut r), u64::from(1.5_f32.to_bits()), -3_i64 as u64, 1, (-0.25_f64).to_bits()];
        Program::new(source, &target).run("k", &arguments);
        assert_eq!(r, [1.5, -3.0, 1.0, -0.25], "{target}");
    }
}

#[test]
fn calls_of_what_is_no_routine_are_errors() {
    let text = error("kernel @k(%begin: i64, %end: i64) { call @other() : () -> () return }").to_string();
    assert_eq!(text, "lowering `call` of `k`: calls what is no routine of the program");
}
