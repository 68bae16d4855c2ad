//! Random bits: the known answers of Philox, as elements of each width.
use super::*;

fn bits(dtype: &'static str, n: usize, state: &[f64], after: &[f64], wanted: &[f64]) -> Case {
    let (s, o) = (format!("tensor<{}xu64>", state.len()), format!("tensor<{n}x{dtype}>"));
    let ops = format!("%s, %o = rng_bit_generator %x : ({s}) -> ({s}, {o})\nreturn %s, %o : ({s}, {o})");
    let states: &'static str = format!("{}xu64", state.len()).leak();
    let outputs = [(states, after), (format!("{n}x{dtype}").leak() as &'static str, wanted)];
    case("rng_bit_generator", &format!("(%x: {s}) -> ({s}, {o})"), &ops, &[(states, state)], &outputs)
}

pub(super) fn cases() -> Vec<Case> {
    let first = [0x6627_E8D5u32, 0xE169_C58D, 0xBC57_AC4C, 0x9B00_DBD8].map(f64::from);
    let low = [0xD5u8, 0x8D, 0x4C].map(f64::from);
    vec![
        bits("u32", 4, &[0.0, 0.0], &[0.0, 1.0], &first),
        bits("u32", 1, &[0.0, 0.0, 0.0], &[0.0, 1.0, 0.0], &first[..1]),
        bits("u8", 3, &[0.0, 0.0], &[0.0, 1.0], &low),
        bits("u32", 0, &[5.0, 7.0], &[5.0, 7.0], &[]),
    ]
}

#[test]
fn wide_elements_take_two_words_and_the_counter_carries() {
    let text = "func @main(%x: tensor<3xu64>) -> (tensor<3xu64>, tensor<3xu64>) {\n\
        %s, %o = rng_bit_generator %x : (tensor<3xu64>) -> (tensor<3xu64>, tensor<3xu64>)\n\
        return %s, %o : (tensor<3xu64>, tensor<3xu64>)\n}";
    let wide = |state: [u64; 3]| run(&module(text), "main", &[Tensor::from_slice(&[3], &state).unwrap()]).unwrap();
    let found = wide([0, 0, 0]);
    assert_eq!(found[1].to_vec::<u64>().unwrap()[..2], [0xE169_C58D_6627_E8D5, 0x9B00_DBD8_BC57_AC4C]);
    assert_eq!(found[0].to_vec::<u64>().unwrap(), [0, 2, 0]);
    let carried = wide([0, u64::MAX, 4]);
    assert_eq!(carried[0].to_vec::<u64>().unwrap(), [0, 1, 5]);
}
