//! Records what `expr!` calls on a builder, and in which order.
use disc_kernel_macros::expr;

/// A builder whose values are numbers of calls.
#[derive(Default)]
struct Recorder {
    calls: Vec<String>,
}

#[derive(Clone, Copy)]
struct Value(usize);

impl Recorder {
    fn record(&mut self, name: &str, arguments: &[&dyn std::fmt::Display]) -> Value {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        self.calls.push(format!("{name}({})", arguments.join(", ")));
        Value(self.calls.len() - 1)
    }

    fn int(&mut self, value: i64) -> Value {
        self.record("int", &[&value])
    }

    fn dim(&mut self, name: &str) -> Value {
        self.record("dim", &[&name])
    }

    fn compare(&mut self, direction: &str, a: Value, b: Value) -> Value {
        self.record("compare", &[&direction, &a, &b])
    }

    fn not(&mut self, mask: Value) -> Value {
        self.record("not", &[&mask])
    }

    fn select(&mut self, mask: Value, a: Value, b: Value) -> Value {
        self.record("select", &[&mask, &a, &b])
    }

    fn convert(&mut self, value: Value, dtype: &str) -> Value {
        self.record("convert", &[&value, &dtype])
    }

    fn leaf(&mut self, name: &str) -> Value {
        self.record("leaf", &[&name])
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "%{}", self.0)
    }
}

macro_rules! binary {
    ($($name:ident)*) => {
        impl Recorder {
            $(fn $name(&mut self, a: Value, b: Value) -> Value {
                self.record(stringify!($name), &[&a, &b])
            })*
        }
    };
}

binary!(add sub mul div rem and or xor min max);

/// Returns the calls that `emit` makes, given the values 100, 101 and 102.
fn calls(emit: impl FnOnce(&mut Recorder, [Value; 3]) -> Value) -> Vec<String> {
    let mut kb = Recorder::default();
    emit(&mut kb, [100, 101, 102].map(Value));
    kb.calls
}

#[test]
fn operands_come_before_their_op_and_from_left_to_right() {
    assert_eq!(calls(|kb, [a, b, c]| expr!(kb, a * b + c)), ["mul(%100, %101)", "add(%0, %102)"]);
    let both = calls(|kb, [a, b, c]| expr!(kb, (a - b) / (b % c)));
    assert_eq!(both, ["sub(%100, %101)", "rem(%101, %102)", "div(%0, %1)"]);
}

#[test]
fn comparisons_name_their_direction() {
    let found = calls(|kb, [a, b, c]| expr!(kb, (a < b) & (b <= c) | (a == c)));
    let expected = ["compare(LT, %100, %101)", "compare(LE, %101, %102)", "and(%0, %1)", "compare(EQ, %100, %102)", "or(%2, %3)"];
    assert_eq!(found, expected);
    let found = calls(|kb, [a, b, c]| expr!(kb, ((a > b) & (b >= c)) & (a != c)));
    let directions = ["compare(GT, %100, %101)", "compare(GE, %101, %102)", "and(%0, %1)", "compare(NE, %100, %102)"];
    assert_eq!(found[..4], directions);
    assert_eq!(calls(|kb, [a, b, c]| expr!(kb, a ^ b ^ c)), ["xor(%100, %101)", "xor(%0, %102)"]);
    assert_eq!(calls(|kb, [a, b, c]| expr!(kb, a & !(b < c))), ["compare(LT, %101, %102)", "not(%0)", "and(%100, %1)"]);
}

#[test]
fn integers_and_host_calls_are_constants_where_they_are_written() {
    let count = 5;
    let found = calls(|kb, [a, ..]| expr!(kb, a * int(count - 2) + dim("rows") - -1));
    let expected = ["int(3)", "mul(%100, %0)", "dim(rows)", "add(%1, %2)", "int(-1)", "sub(%3, %4)"];
    assert_eq!(found, expected);
}

#[test]
fn functions_take_expressions() {
    let found = calls(|kb, [a, b, c]| expr!(kb, select(a < b, min(max(a, 0), c), convert(a + b, "f32"))));
    let expected = [
        "compare(LT, %100, %101)",
        "int(0)",
        "max(%100, %1)",
        "min(%2, %102)",
        "add(%100, %101)",
        "convert(%4, f32)",
        "select(%0, %3, %5)",
    ];
    assert_eq!(found, expected);
}

#[test]
fn other_rust_code_runs_in_its_place_and_sees_no_name_of_the_macro() {
    let value0 = Value(7);
    let found = calls(|kb, [a, b, _]| expr!(kb, a * b + kb.leaf("x") * { kb.leaf("y") } - value0));
    assert_eq!(found, ["mul(%100, %101)", "leaf(x)", "leaf(y)", "mul(%1, %2)", "add(%0, %3)", "sub(%4, %7)"]);
}

#[test]
fn the_builder_is_any_place() {
    struct Frame {
        kb: Recorder,
    }
    let mut frame = Frame { kb: Recorder::default() };
    let pair = [Value(1), Value(2)];
    let sum = expr!(frame.kb, pair[0] + pair[1]);
    assert_eq!((frame.kb.calls, sum.0), (vec!["add(%1, %2)".to_owned()], 0));
    let kb = &mut Recorder::default();
    assert_eq!(expr!(kb, (sum)).0, 0);
    assert!(kb.calls.is_empty());
}
