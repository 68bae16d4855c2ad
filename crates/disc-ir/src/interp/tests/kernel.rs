//! Kernels and the host programs that launch them.
use super::*;

/// `2 * x + 1` with 4 lanes and a masked tail; unit `u` does elements `4 u` to `4 u + 3`.
const AFFINE: &str = "kernel @affine(%x: buffer<[N]xf32>, %y: buffer<[N]xf32>, %begin: i64, %end: i64) {
    %one = constant dense<1> : i64
    %four = constant dense<4> : i64
    %n = dim [N] : i64
    %ones = constant dense<1.0> : vector<4xf32>
    %two = constant dense<2.0> : f32
    %twos = splat %two : (f32) -> vector<4xf32>
    for %begin, %end, %one : (i64, i64, i64) -> () do(%u: i64) {
        %i = multiply %u, %four : i64
        %left = subtract %n, %i : i64
        %mask = lane_mask %left : (i64) -> vector<4xi1>
        prefetch %x, %i, locality = 3 : (buffer<[N]xf32>, i64)
        %v = load %x[%i], %mask : (buffer<[N]xf32>, i64, vector<4xi1>) -> vector<4xf32>
        %r = fma %v, %twos, %ones : vector<4xf32>
        store %y[%i], %r, %mask : (buffer<[N]xf32>, i64, vector<4xf32>, vector<4xi1>)
        return
    }
    return
}
";

const AFFINE_HOST: &str = "host @main(%x: buffer<[N]xf32>) {
    %y = alloc_output index = 0 : buffer<[N]xf32>
    launch %x, %y, kernel = @affine, units = [(N+3)/4], cost = [N], scratch = [0] : (buffer<[N]xf32>, buffer<[N]xf32>)
    return
}";

/// The sum of a vector through task memory and through the arena.
const SUM: &str = "kernel @square(%x: buffer<8xf32>, %t: buffer<8xf32>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %s = scratch : buffer<8xf32, task>
    %v = load %x[%zero] : (buffer<8xf32>, i64) -> vector<8xf32>
    %q = multiply %v, %v : vector<8xf32>
    store %s[%zero], %q : (buffer<8xf32, task>, i64, vector<8xf32>)
    %lanes = lanes : vector<8xi64>
    %sevens = constant dense<7> : vector<8xi64>
    %back = subtract %sevens, %lanes : vector<8xi64>
    %reversed = load %s[%back] : (buffer<8xf32, task>, vector<8xi64>) -> vector<8xf32>
    store %t[%zero], %reversed : (buffer<8xf32>, i64, vector<8xf32>)
    return
}
kernel @sum(%t: buffer<8xf32>, %y: buffer<2xf32>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %one = constant dense<1> : i64
    %four = constant dense<4> : i64
    %upper = view %t, %four : (buffer<8xf32>, i64) -> buffer<4xf32>
    %a = load %t[%zero] : (buffer<8xf32>, i64) -> vector<4xf32>
    %b = load %upper[%zero] : (buffer<4xf32>, i64) -> vector<4xf32>
    %s = add %a, %b : vector<4xf32>
    %sum = reduce_lanes %s, applies = add : (vector<4xf32>) -> f32
    %first = extract_lane %a, lane = 0 : (vector<4xf32>) -> f32
    store %y[%zero], %sum : (buffer<2xf32>, i64, f32)
    store %y[%one], %first : (buffer<2xf32>, i64, f32)
    return
}
";

const SUM_HOST: &str = "host @main(%x: buffer<8xf32>) {
    %arena = arena bytes = [32] : buffer<32xu8>
    %t = alloc %arena, offset = [0], bytes = [32] : (buffer<32xu8>) -> buffer<8xf32>
    %y = alloc_output index = 0 : buffer<2xf32>
    launch %x, %t, kernel = @square, units = [1], cost = [1], scratch = [64] : (buffer<8xf32>, buffer<8xf32>)
    launch %t, %y, kernel = @sum, units = [1], cost = [1], scratch = [0] : (buffer<8xf32>, buffer<2xf32>)
    return
}";

const SQUARE: &str = "kernel @k(%x: buffer<4xi32>, %y: buffer<4xi32>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %two = constant dense<2> : i64
    %a = load %x[%zero] : (buffer<4xi32>, i64) -> vector<2xi32>
    %b = load %x[%two] : (buffer<4xi32>, i64) -> vector<2xi32>
    %p, %q = transpose_lanes %a, %b : vector<2xi32>
    store %y[%zero], %p : (buffer<4xi32>, i64, vector<2xi32>)
    store %y[%two], %q : (buffer<4xi32>, i64, vector<2xi32>)
    return
}
host @main(%x: buffer<4xi32>) {
    %y = alloc_output index = 0 : buffer<4xi32>
    launch %x, %y, kernel = @k, units = [1], cost = [1], scratch = [0] : (buffer<4xi32>, buffer<4xi32>)
    return
}";

const PICK: &str = "kernel @k(%x: buffer<8xi32>, %at: buffer<4xi32>, %y: buffer<4xi32>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %four = constant dense<4> : i64
    %a = load %x[%zero] : (buffer<8xi32>, i64) -> vector<4xi32>
    %b = load %x[%four] : (buffer<8xi32>, i64) -> vector<4xi32>
    %places = load %at[%zero] : (buffer<4xi32>, i64) -> vector<4xi32>
    %p = pick_lanes %a, %b, %places : (vector<4xi32>, vector<4xi32>, vector<4xi32>) -> vector<4xi32>
    store %y[%zero], %p : (buffer<4xi32>, i64, vector<4xi32>)
    return
}
host @main(%x: buffer<8xi32>, %at: buffer<4xi32>) {
    %y = alloc_output index = 0 : buffer<4xi32>
    launch %x, %at, %y, kernel = @k, units = [1], cost = [1], scratch = [0] : (buffer<8xi32>, buffer<4xi32>, buffer<4xi32>)
    return
}";

/// Multiplies words of bytes by themselves and adds ones.
const WORDS: &str = "kernel @k(%x: buffer<BYTES>, %y: buffer<SUMS>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %a = load %x[%zero] : (buffer<BYTES>, i64) -> vector<BYTES>
    %w = recast_lanes %a : (vector<BYTES>) -> vector<WORDS>
    %s = constant dense<1> : vector<SUMS>
    %p = OP %w, %w, %s, elements = ELEMENTS : (vector<WORDS>, vector<WORDS>, vector<SUMS>) -> vector<SUMS>
    store %y[%zero], %p : (buffer<SUMS>, i64, vector<SUMS>)
    return
}
host @main(%x: buffer<BYTES>) {
    %y = alloc_output index = 0 : buffer<SUMS>
    launch %x, %y, kernel = @k, units = [1], cost = [1], scratch = [0] : (buffer<BYTES>, buffer<SUMS>)
    return
}";

fn program(name: &str, text: String, inputs: &[Data], outputs: &[Data]) -> Case {
    Case { name: name.into(), text, inputs: inputs.to_vec(), outputs: outputs.to_vec() }
}

pub(super) fn cases() -> Vec<Case> {
    // The numbers from 0 on in two vectors of four.
    let pairs = |op: &str, wanted: [f64; 8]| {
        let (wide, twice) = (SQUARE.replace("<2xi32>", "<4xi32>"), [("buffer<4x", "buffer<8x"), ("dense<2>", "dense<4>")]);
        let text = twice.iter().fold(wide, |text, (from, to)| text.replace(from, to)).replace("transpose_lanes", op);
        program(op, text, &[("8xi32", (0..8).map(f64::from).collect())], &[("8xi32", wanted.to_vec())])
    };
    let words = |op: &str, [bytes, words, sums]: [&'static str; 3], elements: &str, x: &[f64], wanted: &[f64]| {
        let parts = [("BYTES", bytes), ("WORDS", words), ("SUMS", sums), ("OP", op), ("ELEMENTS", elements)];
        let text = parts.iter().fold(WORDS.to_owned(), |text, (part, by)| text.replace(part, by));
        program(&format!("{op} of {elements}"), text, &[(bytes, x.to_vec())], &[(sums, wanted.to_vec())])
    };
    let dots =
        |elements: &str, x: [f64; 8], wanted: [f64; 2]| words("dot_lanes", ["8xi8", "2xi32", "2xi32"], elements, &x, &wanted);
    // The numbers from 0 to 7 and eight of -1, as two rows and as two columns.
    let blocks = |elements: &str, wanted: [f64; 4]| {
        let x: Vec<f64> = (0..8).map(f64::from).chain([-1.0; 8]).collect();
        words("dot_pairs", ["16xi8", "2xi64", "4xi32"], elements, &x, &wanted)
    };
    let affine = |ty, x: Vec<f64>| {
        let wanted = x.iter().map(|x| 2.0 * x + 1.0).collect();
        program("affine", format!("{AFFINE}{AFFINE_HOST}"), &[(ty, x)], &[(ty, wanted)])
    };
    let asked = "    %s = nontemporal %y, bytes = [1025] : (buffer<4xi32>) -> i1\n    if %s : i1 then {\n    launch";
    let nontemporal = SQUARE
        .replace("    launch", asked)
        .replace("buffer<4xi32>)\n    return\n}", "buffer<4xi32>)\n    return\n} else {\n return\n}\n return\n}");
    vec![
        program("square", SQUARE.into(), &[("4xi32", vec![1.0, 2.0, 3.0, 4.0])], &[("4xi32", vec![1.0, 3.0, 2.0, 4.0])]),
        program("nontemporal", nontemporal, &[("4xi32", vec![1.0, 2.0, 3.0, 4.0])], &[("4xi32", vec![1.0, 3.0, 2.0, 4.0])]),
        blocks("i8", [141.0, -27.0, -27.0, 9.0]),
        blocks("u8", [141.0, 7141.0, 7141.0, 520_201.0]),
        pairs("unzip_lanes", [0.0, 2.0, 4.0, 6.0, 1.0, 3.0, 5.0, 7.0]),
        pairs("zip_lanes", [0.0, 4.0, 1.0, 5.0, 2.0, 6.0, 3.0, 7.0]),
        // Of indices, the bits of 0 to 7 count.
        program(
            "pick_lanes",
            PICK.into(),
            &[("8xi32", (10..18).map(f64::from).collect()), ("4xi32", vec![7.0, 0.0, 12.0, -5.0])],
            &[("4xi32", vec![17.0, 10.0, 14.0, 13.0])],
        ),
        dots("i8", [1.0, 2.0, 3.0, -4.0, 127.0, -1.0, 0.0, 0.0], [31.0, 127.0 * 127.0 + 2.0]),
        dots("u8", [1.0, 2.0, 3.0, -4.0, 127.0, -1.0, 0.0, 0.0], [15.0 + 252.0 * 252.0, 127.0 * 127.0 + 255.0 * 255.0 + 1.0]),
        dots(
            "i8, a_elements = u8",
            [1.0, 2.0, 3.0, -4.0, 127.0, -1.0, 0.0, 0.0],
            [15.0 - 252.0 * 4.0, 127.0 * 127.0 - 255.0 + 1.0],
        ),
        dots("i16", [1.0, 1.0, 2.0, 0.0, -1.0, -1.0, -2.0, 0.0], [257.0 * 257.0 + 5.0, 2.0 + 254.0 * 254.0]),
        // 4 x, rounded once if that is a denormal number.
        program(
            "scale_by_power",
            format!("{}{AFFINE_HOST}", AFFINE.replace("%r = fma %v, %twos, %ones", "%r = scale_by_power %v, %twos")),
            &[("5xf32", vec![1.5, -0.0, 3e38, 2f64.powi(-149), 0.0])],
            &[("5xf32", vec![6.0, -0.0, f64::INFINITY, 2f64.powi(-147), 0.0])],
        ),
        affine("0xf32", vec![]),
        affine("1xf32", vec![5.0]),
        affine("9xf32", (0..9).map(f64::from).collect()),
        program(
            "sum",
            format!("{SUM}{SUM_HOST}"),
            &[("8xf32", (0..8).map(f64::from).collect())],
            &[("2xf32", vec![140.0, 49.0])],
        ),
        tiles(),
    ]
}

/// Tile registers out of wider rows: 16 by 32 halves by words of two terms.
const TILES: &str = "kernel @product(%x: buffer<16x40xbf16>, %w: buffer<16x48xbf16>, %y: buffer<16x20xf32>, %begin: i64, %end: i64) {
    %zero = constant dense<0> : i64
    %four = constant dense<4> : i64
    %x_stride = constant dense<40> : i64
    %w_stride = constant dense<48> : i64
    %y_stride = constant dense<20> : i64
    %none = constant dense<0.0> : vector<256xf32>
    %a = load_tile %x[%four], %x_stride : (buffer<16x40xbf16>, i64, i64) -> vector<512xbf16>
    %b = load_tile %w[%zero], %w_stride : (buffer<16x48xbf16>, i64, i64) -> vector<512xbf16>
    %s = multiply_tiles amx16x16x32, %a, %b, %none : (vector<512xbf16>, vector<512xbf16>, vector<256xf32>) -> vector<256xf32>
    store_tile %y[%four], %y_stride, %s : (buffer<16x20xf32>, i64, i64, vector<256xf32>)
    return
}
host @main(%x: buffer<16x40xbf16>, %w: buffer<16x48xbf16>) {
    %y = alloc_output index = 0 : buffer<16x20xf32>
    launch @clear(%y), units = [320], cost = [0], scratch = [0] : (buffer<16x20xf32>)
    launch @product(%x, %w, %y), units = [1], cost = [0], scratch = [0] : (buffer<16x40xbf16>, buffer<16x48xbf16>, buffer<16x20xf32>)
    return
}
kernel @clear(%y: buffer<16x20xf32>, %begin: i64, %end: i64) {
    %one = constant dense<1> : i64
    %zero = constant dense<0.0> : f32
    for %begin, %end, %one : (i64, i64, i64) -> () do(%i: i64) {
        store %y[%i], %zero : (buffer<16x20xf32>, i64, f32)
        return
    }
    return
}";

fn tiles() -> Case {
    let numbers = |count: i32, range: i32| (0..count).map(|i| f64::from(i % range - range / 2)).collect::<Vec<f64>>();
    let (x, w) = (numbers(16 * 40, 7), numbers(16 * 48, 5));
    // A word holds two terms of a column.
    let term = |row: usize, column: usize, k: usize| x[row * 40 + 4 + k] * w[k / 2 * 48 + 2 * column + k % 2];
    let element = |row: usize, column: usize| match column.checked_sub(4) {
        None => 0.0,
        Some(column) => (0..32).map(|k| term(row, column, k)).sum(),
    };
    let y = (0..320).map(|i| element(i / 20, i % 20)).collect();
    let inputs = vec![("16x40xbf16", x.clone()), ("16x48xbf16", w.clone())];
    Case { name: "load_tile".into(), text: TILES.into(), inputs, outputs: vec![("16x20xf32", y)] }
}

#[track_caller]
fn broken(text: &str, from: &str, to: &str, input: Data, words: &str) {
    let changed = text.replacen(from, to, 1);
    assert_ne!(changed, text, "`{from}` is in the program");
    let error = run_text(&changed, &[input]).expect_err("the fault is found");
    assert!(error.code == Code::E0211 && error.to_string().contains(words), "{error}");
}

#[test]
fn faults_of_kernels_are_found() {
    let affine = format!("{AFFINE}{AFFINE_HOST}");
    let five = || ("5xf32", vec![1.0; 5]);
    broken(&affine, "subtract %n, %i", "add %n, %i", five(), "element 5 of a buffer of 5 elements");
    broken(&affine, "store %y[%i]", "store %x[%i]", five(), "a write to an input");
    broken(&affine, "load %x[%i]", "load %y[%i]", five(), "read before it is written");
    broken(&affine, "units = [(N+3)/4]", "units = [N/4]", five(), "in output 0");
    broken(&affine, "index = 0", "index = 1", five(), "output 0 is never made");
    let sum = format!("{SUM}{SUM_HOST}");
    let eight = || ("8xf32", vec![1.0; 8]);
    broken(&sum, "scratch = [64]", "scratch = [32]", eight(), "64 bytes of scratch, the launch gives 32");
    broken(
        &sum,
        "offset = [0], bytes = [32]",
        "offset = [0], bytes = [16]",
        eight(),
        "16 bytes for a buffer of f32 with sizes [8]",
    );
    broken(&sum, "offset = [0]", "offset = [4]", eight(), "32 bytes at 4 of an arena of 32 bytes");
    broken(&sum, "dense<4>", "dense<5>", eight(), "a view of sizes [4] at element 5 of a buffer of 8 elements");
}

/// At the buffer stage groups work on memory; `%b` reuses the memory of `%a`, after its last use.
const BUFFERS: &str = "host @main(%x: buffer<[N]xf32>) {
    %arena = arena bytes = [4*N] : buffer<[4*N]xu8>
    %a = alloc %arena, offset = [0], bytes = [4*N] : (buffer<[4*N]xu8>) -> buffer<[N]xf32>
    fusion %x, %a, kind = pointwise : (buffer<[N]xf32>, buffer<[N]xf32>) -> () body(%p: tensor<[N]xf32>) {
        %d = add %p, %p : tensor<[N]xf32>
        return %d : tensor<[N]xf32>
    }
    %y = alloc_output index = 0 : buffer<[N]xf32>
    fusion %a, %y, kind = pointwise : (buffer<[N]xf32>, buffer<[N]xf32>) -> () body(%q: tensor<[N]xf32>) {
        %e = multiply %q, %q : tensor<[N]xf32>
        return %e : tensor<[N]xf32>
    }
    return
}";

#[test]
fn groups_read_and_write_buffers() {
    program("buffers", BUFFERS.into(), &[("2xf32", vec![1.0, 3.0])], &[("2xf32", vec![4.0, 36.0])]).check();
    program("buffers", BUFFERS.into(), &[("0xf32", vec![])], &[("0xf32", vec![])]).check();
}

#[test]
fn values_that_share_memory_at_the_same_time_are_found() {
    let other = "%b = alloc %arena, offset = [0], bytes = [4*N] : (buffer<[4*N]xu8>) -> buffer<[N]xf32>
    fusion %x, %b, kind = pointwise : (buffer<[N]xf32>, buffer<[N]xf32>) -> () body(%r: tensor<[N]xf32>) { return %r : tensor<[N]xf32> }
    %y = alloc_output";
    broken(BUFFERS, "%y = alloc_output", other, ("2xf32", vec![1.0, 3.0]), "another value was written there");
}

#[test]
fn prepared_weights_are_results_of_prepare() {
    let text = "weight @w : tensor<2xf32>\nweight @w2 = prepared 0 : tensor<2xf32>\n\
        func @prepare() -> tensor<2xf32> {\n%w = weight @w : tensor<2xf32>\n%d = add %w, %w : tensor<2xf32>\nreturn %d : tensor<2xf32>\n}\n\
        func @main() -> tensor<2xf32> {\n%w = weight @w2 : tensor<2xf32>\nreturn %w : tensor<2xf32>\n}";
    let weights = |name: &str| (name == "w").then(|| Tensor::from_slice(&[2], &[1f32, 2.0]).unwrap());
    let found = run_with(&module(text), "main", &[], &weights, Limits::default()).unwrap();
    assert_eq!(found[0].to_f64s(), [2.0, 4.0]);
    let circle = text.replace("weight @w : tensor<2xf32>\n%d", "weight @w2 : tensor<2xf32>\n%d");
    assert_eq!(run_with(&module(&circle), "main", &[], &weights, Limits::default()).unwrap_err().code, Code::E0601);
}

#[test]
fn lanes_are_combined_pairwise() {
    // In order, the first sum would lose both ones; in halves, they meet.
    let text = "kernel @k(%x: buffer<4xf32>, %y: buffer<1xf32>, %begin: i64, %end: i64) {
        %zero = constant dense<0> : i64
        %v = load %x[%zero] : (buffer<4xf32>, i64) -> vector<4xf32>
        %s = reduce_lanes %v, applies = add : (vector<4xf32>) -> f32
        store %y[%zero], %s : (buffer<1xf32>, i64, f32)
        return
    }
    host @main(%x: buffer<4xf32>) {
        %y = alloc_output index = 0 : buffer<1xf32>
        launch %x, %y, kernel = @k, units = [1], cost = [1], scratch = [0] : (buffer<4xf32>, buffer<1xf32>)
        return
    }";
    let sum = |x: [f64; 4]| run_text(text, &[("4xf32", x.to_vec())]).unwrap()[0].to_f64s();
    assert_eq!(sum([1.0, 16_777_216.0, 1.0, -16_777_216.0]), [2.0]);
    assert_eq!(sum([1.0, 1.0, 16_777_216.0, -16_777_216.0]), [1.0]);
}
