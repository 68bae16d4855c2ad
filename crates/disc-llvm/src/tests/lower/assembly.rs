//! Checks the code of a register tile: no more instructions in its loop than necessary, and no
//! spills.
use crate::{
    assembly,
    tests::{alone, target},
};

/// Computes `acc[i][j] += a[k][i] * b[k][j]` over k, for `rows` rows and two vectors of columns.
fn tile(rows: usize, lanes: u32) -> String {
    let v = format!("vector<{lanes}xf32>");
    let accumulators: Vec<String> = (0..2 * rows).map(|i| format!("%c{i}")).collect();
    let list = |prefix: &str| accumulators.iter().map(|name| name.replace("%c", prefix)).collect::<Vec<_>>().join(", ");
    let types = vec![v.as_str(); 2 * rows].join(", ");
    let constants: String =
        (0..rows.max(2 * lanes as usize + 1)).map(|i| format!("%k{i} = constant dense<{i}> : i64\n")).collect();
    let arguments: String = accumulators.iter().map(|name| format!(", {name}: {v}")).collect();
    let body: String = (0..rows)
        .map(|i| {
            format!(
                "%a{i} = load %ap[%k{i}] : (buffer<{rows}xf32>, i64) -> f32
                 %s{i} = splat %a{i} : (f32) -> {v}
                 %n{x} = fma %s{i}, %b0, %c{x} : {v}
                 %n{y} = fma %s{i}, %b1, %c{y} : {v}\n",
                x = 2 * i,
                y = 2 * i + 1
            )
        })
        .collect();
    let stores: String = (0..2 * rows).map(|i| format!("store %r[%k{i}], %r{i} : (buffer<1024xf32>, i64, {v})\n")).collect();
    let constants = constants
        + &(rows.max(2 * lanes as usize + 1)..2 * rows)
            .map(|i| format!("%k{i} = constant dense<{i}> : i64\n"))
            .collect::<String>();
    format!(
        "kernel @tile(%a: buffer<[K]x{rows}xf32>, %b: buffer<[K]x{columns}xf32>, %r: buffer<1024xf32>, %depth: i64, %begin: i64, %end: i64) {{
          {constants}
          %zero = constant dense<0.0> : {v}
          {results} = for %k0, %depth, %k1, {inits} : (i64, i64, i64, {types}) -> ({types}) do(%k: i64{arguments}) {{
            %ai = multiply %k, %k{rows_index} : i64
            %ap = view %a[%ai] : (buffer<[K]x{rows}xf32>, i64) -> buffer<{rows}xf32>
            %bi = multiply %k, %k{columns} : i64
            %bp = view %b[%bi] : (buffer<[K]x{columns}xf32>, i64) -> buffer<{columns}xf32>
            %b0 = load %bp[%k0] : (buffer<{columns}xf32>, i64) -> {v}
            %b1 = load %bp[%k{lanes}] : (buffer<{columns}xf32>, i64) -> {v}
            {body}
            return {nexts} : {types}
          }}
          {stores}
          return
        }}",
        columns = 2 * lanes,
        rows_index = rows,
        results = list("%r"),
        inits = vec!["%zero"; 2 * rows].join(", "),
        nexts = list("%n"),
    )
}

/// Returns the instructions of the block that holds the multiplications.
fn hot_loop(assembly: &str) -> Vec<&str> {
    let blocks = assembly.split("\n.LBB").find(|block| block.contains("vfmadd")).expect("a loop with multiplications");
    blocks.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '.', '0'])).collect()
}

#[test]
fn register_tiles_are_free_of_spills() {
    for (level, rows, lanes, register) in [("x86-64-v3", 6, 8, "ymm"), ("x86-64-v4", 12, 16, "zmm")] {
        let text = assembly(&super::program(&tile(rows, lanes)), &alone(&target(level))).unwrap();
        let hot = hot_loop(&text);
        let count = |what: &str| hot.iter().filter(|line| line.contains(what)).count();
        assert_eq!(count("vfmadd"), 2 * rows, "{level}: {hot:#?}");
        assert_eq!(count("vbroadcastss"), rows, "{level}: {hot:#?}");
        assert_eq!(count("rsp"), 0, "{level}: {hot:#?}");
        assert!(hot.iter().filter(|line| line.contains("vfmadd")).all(|line| line.contains(register)), "{level}: {hot:#?}");
        // Two loads of columns, and at most five instructions of loop control.
        assert!(hot.len() <= 3 * rows + 2 + 5, "{level}: {} instructions: {hot:#?}", hot.len());
    }
}
