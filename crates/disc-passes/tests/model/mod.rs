//! The text of a transformer encoder as frameworks capture it: rows flattened for linear layers,
//! sizes of 1 kept by reductions, separate scales, and weights transposed before matmuls.
use std::fmt::Write;

struct Text {
    weights: String,
    body: String,
    heads: usize,
    size: usize,
    width: usize,
    next: usize,
}

/// `@main` of an encoder with this many layers, heads, and elements per head.
pub(crate) fn encoder(layers: usize, heads: usize, size: usize) -> String {
    let width = heads * size;
    let mut text = Text { weights: String::new(), body: String::new(), heads, size, width, next: 0 };
    let mut x = "%x".to_owned();
    for layer in 0..layers {
        x = text.layer(layer, &x);
    }
    let rows = text.rows(width);
    format!(
        "{}\nfunc @main(%x: {rows}, %mask: tensor<[B]x[S]xf32>) -> {rows} where S <= 512 {{\n{}  return {x} : {rows}\n}}\n",
        text.weights, text.body
    )
}

impl Text {
    fn rows(&self, width: usize) -> String {
        format!("tensor<[B]x[S]x{width}xf32>")
    }

    fn op(&mut self, op: &str) -> String {
        let name = format!("%v{}", self.next);
        self.next += 1;
        writeln!(self.body, "  {name} = {op}").unwrap();
        name
    }

    fn weight(&mut self, name: &str, ty: &str) -> String {
        writeln!(self.weights, "weight @{name} : {ty}").unwrap();
        self.op(&format!("weight @{name} : {ty}"))
    }

    fn number(&mut self, value: &str, ty: &str) -> String {
        let scalar = self.op(&format!("constant dense<{value}> : tensor<f32>"));
        self.op(&format!("broadcast_in_dim {scalar}, dims = [] : (tensor<f32>) -> {ty}"))
    }

    fn row_vector(&mut self, vector: &str, width: usize, ty: &str) -> String {
        self.op(&format!("broadcast_in_dim {vector}, dims = [{}] : (tensor<{width}xf32>) -> {ty}", ty.matches('x').count() - 1))
    }

    /// `x @ w.T + b` on flattened rows.
    fn linear(&mut self, name: &str, x: &str, from: usize, to: usize) -> String {
        let (flat_from, flat_to) = (format!("tensor<[B*S]x{from}xf32>"), format!("tensor<[B*S]x{to}xf32>"));
        let w = self.weight(&format!("{name}.weight"), &format!("tensor<{to}x{from}xf32>"));
        let b = self.weight(&format!("{name}.bias"), &format!("tensor<{to}xf32>"));
        let wt = self.op(&format!("transpose {w}, dims = [1, 0] : (tensor<{to}x{from}xf32>) -> tensor<{from}x{to}xf32>"));
        let flat = self.op(&format!("reshape {x} : ({}) -> {flat_from}", self.rows(from)));
        let types = format!("({flat_from}, tensor<{from}x{to}xf32>) -> {flat_to}");
        let y = self.op(&format!("dot_general {flat}, {wt}, contracting_dims = [1] x [0] : {types}"));
        let b = self.op(&format!("broadcast_in_dim {b}, dims = [1] : (tensor<{to}xf32>) -> {flat_to}"));
        let y = self.op(&format!("add {y}, {b} : {flat_to}"));
        self.op(&format!("reshape {y} : ({flat_to}) -> {}", self.rows(to)))
    }

    /// `[B, S, H*D]` to `[B, H, S, D]`.
    fn split(&mut self, x: &str) -> String {
        let (heads, size) = (self.heads, self.size);
        let split = format!("tensor<[B]x[S]x{heads}x{size}xf32>");
        let x = self.op(&format!("reshape {x} : ({}) -> {split}", self.rows(self.width)));
        self.op(&format!("transpose {x}, dims = [0, 2, 1, 3] : ({split}) -> tensor<[B]x{heads}x[S]x{size}xf32>"))
    }

    fn sum(&mut self, x: &str, kind: &str, init: &str, shape: &str, kept: &str, narrow: &str) -> String {
        let init = self.op(&format!("constant dense<{init}> : tensor<f32>"));
        let axis = shape.matches('x').count() - 1;
        let y = self.op(&format!("reduce {x}, {init}, dims = [{axis}] : ({shape}, tensor<f32>) -> {narrow} applies {kind}"));
        self.op(&format!("reshape {y} : ({narrow}) -> {kept}"))
    }

    fn attention(&mut self, name: &str, x: &str) -> String {
        let (heads, size, width) = (self.heads, self.size, self.width);
        let [q, k, v] = ["q", "k", "v"].map(|part| {
            let y = self.linear(&format!("{name}.{part}"), x, width, width);
            self.split(&y)
        });
        let (parts, scores) = (format!("tensor<[B]x{heads}x[S]x{size}xf32>"), format!("tensor<[B]x{heads}x[S]x[S]xf32>"));
        let scale = self.number("0.125", &parts);
        let q = self.op(&format!("multiply {q}, {scale} : {parts}"));
        let s = self.op(&format!(
            "dot_general {q}, {k}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [3] : ({parts}, {parts}) -> {scores}"
        ));
        let mask = self.op(&format!("broadcast_in_dim %mask, dims = [0, 3] : (tensor<[B]x[S]xf32>) -> {scores}"));
        let s = self.op(&format!("add {s}, {mask} : {scores}"));
        let p = self.softmax(&s, &scores);
        let types = format!("({scores}, {parts}) -> {parts}");
        let y =
            self.op(&format!("dot_general {p}, {v}, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2] : {types}"));
        let merged = format!("tensor<[B]x[S]x{heads}x{size}xf32>");
        let y = self.op(&format!("transpose {y}, dims = [0, 2, 1, 3] : ({parts}) -> {merged}"));
        let y = self.op(&format!("reshape {y} : ({merged}) -> {}", self.rows(width)));
        self.linear(&format!("{name}.out"), &y, width, width)
    }

    fn softmax(&mut self, s: &str, scores: &str) -> String {
        let heads = self.heads;
        let (kept, narrow) = (format!("tensor<[B]x{heads}x[S]x1xf32>"), format!("tensor<[B]x{heads}x[S]xf32>"));
        let wide =
            |text: &mut Self, y: &str| text.op(&format!("broadcast_in_dim {y}, dims = [0, 1, 2, 3] : ({kept}) -> {scores}"));
        let m = self.sum(s, "maximum", "-inf", scores, &kept, &narrow);
        let m = wide(self, &m);
        let d = self.op(&format!("subtract {s}, {m} : {scores}"));
        let e = self.op(&format!("exponential {d} : {scores}"));
        let t = self.sum(&e, "add", "0.0", scores, &kept, &narrow);
        let t = wide(self, &t);
        self.op(&format!("divide {e}, {t} : {scores}"))
    }

    fn norm(&mut self, name: &str, x: &str) -> String {
        let (rows, width) = (self.rows(self.width), self.width);
        let (kept, narrow) = ("tensor<[B]x[S]x1xf32>", "tensor<[B]x[S]xf32>");
        let wide = |text: &mut Self, y: &str| text.op(&format!("broadcast_in_dim {y}, dims = [0, 1, 2] : ({kept}) -> {rows}"));
        let n = self.number(&format!("{width}.0"), kept);
        let s = self.sum(x, "add", "0.0", &rows, kept, narrow);
        let mean = self.op(&format!("divide {s}, {n} : {kept}"));
        let m = wide(self, &mean);
        let d = self.op(&format!("subtract {x}, {m} : {rows}"));
        let q = self.op(&format!("multiply {d}, {d} : {rows}"));
        let s = self.sum(&q, "add", "0.0", &rows, kept, narrow);
        let v = self.op(&format!("divide {s}, {n} : {kept}"));
        let eps = self.number("1.0e-5", kept);
        let v = self.op(&format!("add {v}, {eps} : {kept}"));
        let r = self.op(&format!("rsqrt {v} : {kept}"));
        let m = wide(self, &mean);
        let d = self.op(&format!("subtract {x}, {m} : {rows}"));
        let r = wide(self, &r);
        let y = self.op(&format!("multiply {d}, {r} : {rows}"));
        let w = self.weight(&format!("{name}.weight"), &format!("tensor<{width}xf32>"));
        let w = self.row_vector(&w, width, &rows);
        let y = self.op(&format!("multiply {y}, {w} : {rows}"));
        let b = self.weight(&format!("{name}.bias"), &format!("tensor<{width}xf32>"));
        let b = self.row_vector(&b, width, &rows);
        self.op(&format!("add {y}, {b} : {rows}"))
    }

    fn gelu(&mut self, x: &str, width: usize) -> String {
        let rows = self.rows(width);
        let [half, one, root] = ["0.5", "1.0", "0.70710678"].map(|value| self.number(value, &rows));
        let a = self.op(&format!("multiply {x}, {root} : {rows}"));
        let e = self.op(&format!("erf {a} : {rows}"));
        let e = self.op(&format!("add {e}, {one} : {rows}"));
        let h = self.op(&format!("multiply {x}, {half} : {rows}"));
        self.op(&format!("multiply {h}, {e} : {rows}"))
    }

    fn layer(&mut self, layer: usize, x: &str) -> String {
        let (rows, width) = (self.rows(self.width), self.width);
        let a = self.attention(&format!("layer.{layer}.attention"), x);
        let a = self.op(&format!("add {a}, {x} : {rows}"));
        let a = self.norm(&format!("layer.{layer}.norm1"), &a);
        let h = self.linear(&format!("layer.{layer}.up"), &a, width, 4 * width);
        let h = self.gelu(&h, 4 * width);
        let y = self.linear(&format!("layer.{layer}.down"), &h, 4 * width, width);
        let y = self.op(&format!("add {y}, {a} : {rows}"));
        self.norm(&format!("layer.{layer}.norm2"), &y)
    }
}
