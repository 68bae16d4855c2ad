//! Counts the operations of every math function: `cargo run -p disc-codegen --example math_cost`.
//! The counts do not depend on a machine's load: one line per function with floating-point
//! operations, divisions and roots among them, integer operations, comparisons and selects; then
//! the additional operations of a rare path, and those of one round of a loop.

use disc_codegen::math::{Emitter, Format, LoopBody, MathFn};

#[derive(Clone, Copy, Default)]
struct Cost {
    float: u32,
    divide: u32,
    integer: u32,
    compare: u32,
    select: u32,
}

impl Cost {
    fn total(self) -> u32 {
        self.float + self.divide + self.integer + self.compare + self.select
    }
}

/// An emitter without values.
struct Counter {
    format: Format,
    usual: Cost,
    rare: Cost,
    rounds: Cost,
}

macro_rules! counted {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $out:ty, $class:ident;)+) => {
        $(fn $name(&mut self, $($arg: $ty),*) -> $out {
            $(let _ = $arg;)*
            self.usual.$class += 1;
        })+
    };
}

impl Emitter for Counter {
    type F = ();
    type I = ();
    type M = ();

    fn format(&self) -> Format {
        self.format
    }
    fn fused(&self) -> bool {
        true
    }
    fn f(&mut self, _: f64) {}
    fn i(&mut self, _: i64) {}
    // Casts of the same bits are free.
    fn bits(&mut self, (): ()) {}
    fn with_bits(&mut self, (): ()) {}
    counted! {
        add(a: (), b: ()) -> (), float;
        sub(a: (), b: ()) -> (), float;
        mul(a: (), b: ()) -> (), float;
        div(a: (), b: ()) -> (), divide;
        fma(a: (), b: (), c: ()) -> (), float;
        neg(a: ()) -> (), integer;
        abs(a: ()) -> (), integer;
        sqrt(a: ()) -> (), divide;
        floor(a: ()) -> (), float;
        round_even(a: ()) -> (), float;
        eq(a: (), b: ()) -> (), compare;
        lt(a: (), b: ()) -> (), compare;
        le(a: (), b: ()) -> (), compare;
        select(m: (), a: (), b: ()) -> (), select;
        iselect(m: (), a: (), b: ()) -> (), select;
        and(a: (), b: ()) -> (), compare;
        or(a: (), b: ()) -> (), compare;
        not(a: ()) -> (), compare;
        to_int(a: ()) -> (), float;
        to_float(a: ()) -> (), float;
        iadd(a: (), b: ()) -> (), integer;
        isub(a: (), b: ()) -> (), integer;
        imul(a: (), b: ()) -> (), integer;
        iand(a: (), b: ()) -> (), integer;
        ior(a: (), b: ()) -> (), integer;
        ixor(a: (), b: ()) -> (), integer;
        shl(a: (), n: u32) -> (), integer;
        lshr(a: (), n: u32) -> (), integer;
        ashr(a: (), n: u32) -> (), integer;
        ieq(a: (), b: ()) -> (), compare;
        ilt(a: (), b: ()) -> (), compare;
    }

    fn loop_while(&mut self, (): (), state: &[()], body: &mut LoopBody<'_, Self>) -> Vec<()> {
        let usual = std::mem::take(&mut self.usual);
        let _ = body(self, state);
        self.rounds = std::mem::replace(&mut self.usual, usual);
        state.to_vec()
    }

    fn where_rare(&mut self, (): (), usual: &[()], rare: &mut dyn FnMut(&mut Self) -> Vec<()>) -> Vec<()> {
        let kept = std::mem::take(&mut self.usual);
        let _ = rare(self);
        self.rare = std::mem::replace(&mut self.usual, kept);
        usual.to_vec()
    }
}

fn main() {
    println!("{:14} {:>20} {:>40}", "function", "f32", "f64");
    for &function in MathFn::ALL {
        let shown: Vec<String> = [Format::F32, Format::F64]
            .into_iter()
            .map(|format| {
                let (usual, rare, rounds) = (Cost::default(), Cost::default(), Cost::default());
                let mut counter = Counter { format, usual, rare, rounds };
                function.emit(&mut counter, &vec![(); function.arity()]);
                let c = counter.usual;
                let parts =
                    format!("{} float, {} div, {} int, {} cmp, {} sel", c.float, c.divide, c.integer, c.compare, c.select);
                let more = [(counter.rare, "rare"), (counter.rounds, "a round")]
                    .map(|(c, what)| if c.total() > 0 { format!(" + {} {what}", c.total()) } else { String::new() });
                format!("{} ({parts}){}", c.total(), more.concat())
            })
            .collect();
        println!("{:14} {} | {}", function.name(), shown[0], shown[1]);
    }
}
