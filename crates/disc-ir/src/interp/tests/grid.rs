//! GPU kernels and the host programs that launch them.
use super::*;

/// Two warps of four threads; each loads element `%t` of `x` as `%v` and stores `%r` to `y`.
fn warps(ops: &str) -> String {
    format!(
        "kernel @k(%x: buffer<8xi32>, %y: buffer<8xi32>) grid threads = 8, warp = 4 {{
    %m = shared : buffer<8xi32, shared>
    %t = place thread : i32
    %w = place warp : i32
    %l = place lane : i32
    %one = constant dense<1> : i32
    %zero = constant dense<0> : i32
    %v = load %x[%t] : (buffer<8xi32>, i32) -> i32
{ops}
    store %y[%t], %r, align = 4 : (buffer<8xi32>, i32, i32)
    return
}}
host @main(%x: buffer<8xi32>) {{
    %y = alloc_output index = 0 : buffer<8xi32>
    launch_grid @k(%x, %y), blocks = [1], shared = [32], scratch = [0] : (buffer<8xi32>, buffer<8xi32>)
    return
}}"
    )
}

fn of_warps(name: &str, ops: &str, wanted: [i32; 8]) -> Case {
    let inputs = vec![("8xi32", (1..9).map(f64::from).collect())];
    let outputs = vec![("8xi32", wanted.iter().map(|&x| x.into()).collect())];
    Case { name: name.into(), text: warps(ops), inputs, outputs }
}

const COPIES: &str = "    copy_async %m, %t, %x, %t, elements = 1 : (buffer<8xi32, shared>, i32, buffer<8xi32>, i32)
    commit_copies
    wait_copies left = 0
    barrier block
    %seven = constant dense<7> : i32
    %other = subtract %seven, %t : i32
    %r = load %m[%other] : (buffer<8xi32, shared>, i32) -> i32";

/// Threads with an even number count in `y[0]`, and the launch is for as many parts as `x` has
/// elements; the host program doubles what they found if memory is aligned.
const COUNTED: &str = "kernel @clear(%y: buffer<i32>) grid threads = 4, warp = 4 {
    %t = place thread : i32
    %zero = constant dense<0> : i32
    %first = compare EQ, %t, %zero : (i32, i32) -> i1
    if %first : (i1) -> () then {
        store %y[%zero], %zero : (buffer<i32>, i32, i32)
        return
    } else {
        return
    }
    return
}
kernel @count(%x: buffer<[N]xi32>, %y: buffer<i32>) grid threads = 4, warp = 4 {
    wait_grid
    %b = place block : i32
    %g = place grid : i32
    %n = dim [N] : i32
    %zero = constant dense<0> : i32
    %one = constant dense<1> : i32
    %two = constant dense<2> : i32
    %t = place thread : i32
    %rest = remainder %t, %two : i32
    %even = compare EQ, %rest, %zero : (i32, i32) -> i1
    for %b, %n, %g : (i32, i32, i32) -> () do(%part: i32) {
        if %even : (i1) -> () then {
            %v = load %x[%part] : (buffer<[N]xi32>, i32) -> i32
            %old = atomic add, %y[%zero], %v : (buffer<i32>, i32, i32) -> i32
            return
        } else {
            return
        }
        return
    }
    release_grid
    return
}
host @main(%x: buffer<[N]xi32>) {
    %y = alloc_output index = 0 : buffer<i32>
    %z = alloc_output index = 1 : buffer<i32>
    launch_grid @clear(%y), blocks = [1], shared = [0], scratch = [0] : (buffer<i32>)
    launch_grid @clear(%z), blocks = [1], shared = [0], scratch = [0] : (buffer<i32>)
    launch_grid @count(%x, %y), blocks = [N], shared = [0], scratch = [0], persistent = true : (buffer<[N]xi32>, buffer<i32>)
    %found = fetch %y : (buffer<i32>) -> i32
    %limit = constant dense<20> : i32
    %large = compare GT, %found, %limit : (i32, i32) -> i1
    %is_aligned = aligned %x, %y, bytes = 16 : (buffer<[N]xi32>, buffer<i32>) -> i1
    %again = and %large, %is_aligned : i1
    if %again : (i1) -> () then {
        launch_grid @count(%x, %z), blocks = [N], shared = [0], scratch = [0], persistent = true : (buffer<[N]xi32>, buffer<i32>)
        return
    } else {
        return
    }
    return
}";

/// A product of 16 by 16 and 16 by 8 halves; the left operand comes through shared memory.
const PRODUCT: &str = "kernel @k(%a: buffer<256xf16>, %b: buffer<128xf16>, %y: buffer<128xf32>) grid threads = 32, warp = 32 {
    %m = shared : buffer<256xf16, shared>
    %l = place lane : i32
    %zero = constant dense<0> : i32
    %one = constant dense<1> : i32
    %two = constant dense<2> : i32
    %four = constant dense<4> : i32
    %eight = constant dense<8> : i32
    %sixteen = constant dense<16> : i32
    %end = constant dense<256> : i32
    %threads = constant dense<32> : i32
    for %l, %end, %threads : (i32, i32, i32) -> () do(%i: i32) {
        %v = load %a[%i] : (buffer<256xf16>, i32) -> f16
        store %m[%i], %v : (buffer<256xf16, shared>, i32, f16)
        return
    }
    barrier warp
    %high = remainder %l, %sixteen : i32
    %start = multiply %high, %sixteen : i32
    %half = divide %l, %sixteen : i32
    %right = multiply %half, %eight : i32
    %at = add %start, %right : i32
    %left = load_matrix %m[%at] : (buffer<256xf16, shared>, i32) -> vector<8xf16>
    %group = divide %l, %four : i32
    %member = remainder %l, %four : i32
    %term = multiply %member, %two : i32
    %b0 = multiply %term, %eight : i32
    %b1 = add %b0, %group : i32
    %p = load %b[%b1] : (buffer<128xf16>, i32) -> f16
    %b2 = add %b1, %eight : i32
    %q = load %b[%b2] : (buffer<128xf16>, i32) -> f16
    %b64 = constant dense<64> : i32
    %b3 = add %b1, %b64 : i32
    %r = load %b[%b3] : (buffer<128xf16>, i32) -> f16
    %b4 = add %b2, %b64 : i32
    %s = load %b[%b4] : (buffer<128xf16>, i32) -> f16
    %p2 = splat %p : (f16) -> vector<2xf16>
    %q2 = splat %q : (f16) -> vector<2xf16>
    %r2 = splat %r : (f16) -> vector<2xf16>
    %s2 = splat %s : (f16) -> vector<2xf16>
    %pq, %x0 = zip_lanes %p2, %q2 : vector<2xf16>
    %rs, %x1 = zip_lanes %r2, %s2 : vector<2xf16>
    %w0 = recast_lanes %pq : (vector<2xf16>) -> vector<1xi32>
    %w1 = recast_lanes %rs : (vector<2xf16>) -> vector<1xi32>
    %w0w = splat %w0 : (i32) -> vector<2xi32>
    %w1w = splat %w1 : (i32) -> vector<2xi32>
    %both, %x2 = zip_lanes %w0w, %w1w : vector<2xi32>
    %rhs = recast_lanes %both : (vector<2xi32>) -> vector<4xf16>
    %none = constant dense<0.0> : vector<4xf32>
    %sum = multiply_tiles m16n8k16, %left, %rhs, %none : (vector<8xf16>, vector<4xf16>, vector<4xf32>) -> vector<4xf32>
    %row = multiply %group, %eight : i32
    %c0 = add %row, %term : i32
    %s0 = extract_lane %sum, lane = 0 : (vector<4xf32>) -> f32
    store %y[%c0], %s0 : (buffer<128xf32>, i32, f32)
    %c1 = add %c0, %one : i32
    %s1 = extract_lane %sum, lane = 1 : (vector<4xf32>) -> f32
    store %y[%c1], %s1 : (buffer<128xf32>, i32, f32)
    %c2 = add %c0, %b64 : i32
    %s2v = extract_lane %sum, lane = 2 : (vector<4xf32>) -> f32
    store %y[%c2], %s2v : (buffer<128xf32>, i32, f32)
    %c3 = add %c1, %b64 : i32
    %s3 = extract_lane %sum, lane = 3 : (vector<4xf32>) -> f32
    store %y[%c3], %s3 : (buffer<128xf32>, i32, f32)
    return
}
host @main(%a: buffer<256xf16>, %b: buffer<128xf16>) {
    %y = alloc_output index = 0 : buffer<128xf32>
    launch_grid @k(%a, %b, %y), blocks = [1], shared = [512], scratch = [0] : (buffer<256xf16>, buffer<128xf16>, buffer<128xf32>)
    return
}";

/// A product by an identity, which no library takes here.
const OFFERED: &str = "kernel @k(%a: buffer<4xf32>, %y: buffer<4xf32>) grid threads = 32, warp = 32 {
    %t = place thread : i32
    %four = constant dense<4> : i32
    %is_one = compare LT, %t, %four : (i32, i32) -> i1
    if %is_one : (i1) -> () then {
        %v = load %a[%t] : (buffer<4xf32>, i32) -> f32
        store %y[%t], %v : (buffer<4xf32>, i32, f32)
        return
    } else {
        return
    }
    return
}
host @main(%a: buffer<4xf32>, %b: buffer<4xf32>) {
    %y = alloc_output index = 0 : buffer<4xf32>
    %done = library_gemm @k(%a, %b, %y), product = [1, 2, 2, 2, 0, 2, 1, 0, 2, 1], activation = none : (buffer<4xf32>, buffer<4xf32>, buffer<4xf32>) -> i1
    if %done : (i1) -> () then {
        return
    } else {
        launch_grid @k(%a, %y), blocks = [1], shared = [0], scratch = [0] : (buffer<4xf32>, buffer<4xf32>)
        return
    }
    return
}";

fn offered() -> [Case; 2] {
    let convolution = OFFERED.replace(
        "library_gemm @k(%a, %b, %y), product = [1, 2, 2, 2, 0, 2, 1, 0, 2, 1]",
        "library_convolution @k(%a, %b, %y), sizes = [1, 1, 2, 2, 1, 1, 1, 1, 2, 2], \
         strides = [4, 4, 2, 1, 1, 1, 1, 1, 4, 4, 2, 1], window = [1, 1, 1, 1, 0, 0, 0, 0, 1]",
    );
    [("library_gemm", OFFERED.to_owned()), ("library_convolution", convolution)].map(|(name, text)| {
        let a = vec![1.0, 2.0, 3.0, 4.0];
        let inputs = vec![("4xf32", a.clone()), ("4xf32", vec![1.0, 0.0, 0.0, 1.0])];
        Case { name: name.into(), text, inputs, outputs: vec![("4xf32", a)] }
    })
}

fn product() -> Case {
    let a: Vec<f64> = (0..256).map(|i| f64::from(i % 7) - 3.0).collect();
    let b: Vec<f64> = (0..128).map(|i| f64::from(i % 5) - 2.0).collect();
    let element = |row: usize, column: usize| (0..16).map(|term| a[row * 16 + term] * b[term * 8 + column]).sum();
    let wanted: Vec<f64> = (0..16).flat_map(|row| (0..8).map(move |column| element(row, column))).collect();
    let inputs = vec![("256xf16", a.clone()), ("128xf16", b.clone())];
    Case { name: "multiply_tiles".into(), text: PRODUCT.into(), inputs, outputs: vec![("128xf32", wanted)] }
}

pub(super) fn cases() -> Vec<Case> {
    let shuffled = |how: &str, by: &str| format!("    %r = shuffle {how}, %v, {by}, width = 4 : (i32, i32) -> i32");
    let counted = Case {
        name: "counted".into(),
        text: COUNTED.into(),
        inputs: vec![("5xi32", (1..6).map(f64::from).collect())],
        outputs: vec![("i32", vec![30.0]), ("i32", vec![30.0])],
    };
    let [gemm, convolution] = offered();
    vec![
        of_warps("shuffle xor", &shuffled("xor", "%one"), [2, 1, 4, 3, 6, 5, 8, 7]),
        of_warps("shuffle up", &shuffled("up", "%one"), [1, 1, 2, 3, 5, 5, 6, 7]),
        of_warps("shuffle down", &shuffled("down", "%one"), [2, 3, 4, 4, 6, 7, 8, 8]),
        of_warps("shuffle index", &shuffled("index", "%zero"), [1, 1, 1, 1, 5, 5, 5, 5]),
        of_warps("reduce_group", "    %r = reduce_group add, %v, width = 4 : i32", [10, 10, 10, 10, 26, 26, 26, 26]),
        of_warps("reduce_group of two", "    %r = reduce_group maximum, %v, width = 2 : i32", [2, 2, 4, 4, 6, 6, 8, 8]),
        of_warps(
            "vote",
            "    %large = compare GT, %v, %l : (i32, i32) -> i1
    %three = constant dense<3> : i32
    %more = compare GT, %v, %three : (i32, i32) -> i1
    %any = vote any, %more : (i1) -> i1
    %every = vote all, %more : (i1) -> i1
    %count = vote count, %more : (i1) -> i32
    %a = convert %any, dtype = i32 : (i1) -> i32
    %b = convert %every, dtype = i32 : (i1) -> i32
    %ab = add %a, %b : i32
    %r = add %ab, %count : i32",
            [2, 2, 2, 2, 6, 6, 6, 6],
        ),
        of_warps("copies", COPIES, [8, 7, 6, 5, 4, 3, 2, 1]),
        of_warps(
            "a loop of a number of its own for each thread",
            "    %r = for %zero, %v, %one, %zero : (i32, i32, i32, i32) -> i32 do(%i: i32, %sum: i32) {
        %next = add %sum, %i : i32
        return %next : i32
    }",
            [0, 1, 3, 6, 10, 15, 21, 28],
        ),
        of_warps(
            "a loop until each thread is done",
            "    %r = while %v : (i32) -> i32 cond(%a: i32) {
        %go = compare LT, %a, %w : (i32, i32) -> i1
        return %go : i1
    } do(%a: i32) {
        %next = add %a, %one : i32
        return %next : i32
    }",
            [1, 2, 3, 4, 5, 6, 7, 8],
        ),
        counted,
        product(),
        gemm,
        convolution,
    ]
}

#[test]
fn faults_of_grid_kernels_are_found() {
    let eight = || vec![("8xi32", (1..9).map(f64::from).collect())];
    let faulty = |ops: &str, words: &str| {
        let error = run_text(&warps(ops), &eight()).expect_err("the fault is found");
        assert!(error.code == Code::E0211 && error.to_string().contains(words), "{error}");
    };
    let some = |op: &str| {
        format!(
            "    %few = compare LT, %t, %one : (i32, i32) -> i1
    %r = if %few : (i1) -> i32 then {{
        {op}
        return %v : i32
    }} else {{
        return %v : i32
    }}"
        )
    };
    faulty(&some("barrier block"), "1 of the 8 threads of a block arrive here, and thread 1 does not");
    faulty(&some("barrier warp"), "1 of the 4 threads of a warp arrive here");
    faulty(&some("%s = reduce_group add, %v, width = 4 : i32"), "1 of the 4 threads of a warp arrive here");
    faulty("    %r = load %m[%t] : (buffer<8xi32, shared>, i32) -> i32", "read before it is written");
    faulty(&COPIES.replace("wait_copies left = 0", "wait_copies left = 1"), "read before it is written");
    let over = format!("    store %m[%t], %v : (buffer<8xi32, shared>, i32, i32)\n{COPIES}");
    faulty(&over.replace("wait_copies left = 0", "wait_copies left = 1"), "read before it is written");
    let two = "    copy_async %m, %t, %x, %t, elements = 2 : (buffer<8xi32, shared>, i32, buffer<8xi32>, i32)\n    %r = add %v, %v : i32";
    faulty(two, "element 1 of the buffer starts at no multiple of 8 bytes");
    let vector = "    %pair = load %x[%l], align = 8 : (buffer<8xi32>, i32) -> vector<2xi32>
    %r = extract_lane %pair, lane = 1 : (vector<2xi32>) -> i32";
    faulty(vector, "element 1 of the buffer starts at no multiple of 8 bytes");
    faulty(
        "    %more = shared : buffer<i32, shared>\n    %r = add %v, %v : i32",
        "it ends at byte 36 of the memory of the block",
    );
    let beyond = "    %eight = constant dense<8> : i32
    %r = load %x[%eight] : (buffer<8xi32>, i32) -> i32";
    faulty(beyond, "element 8 of a buffer of 8 elements");
}

#[test]
fn loops_of_threads_need_no_more_values_than_one_round() {
    let text = warps(
        "    %many = constant dense<1000> : i32
    %r = for %zero, %many, %one, %zero : (i32, i32, i32, i32) -> i32 do(%i: i32, %sum: i32) {
        %next = add %sum, %one : i32
        return %next : i32
    }",
    );
    let inputs = [tensor(&("8xi32", vec![0.0; 8]))];
    let limits = Limits { bytes: 4096, ..Limits::default() };
    let found = run_with(&module(&text), "main", &inputs, &|_| None, limits).unwrap();
    assert_eq!(found[0].to_i64s(), [1000; 8]);
}
