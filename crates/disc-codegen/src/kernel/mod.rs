//! Provides the builder that schedules write kernels with, and the passes that make the code cheap,
//! so that LLVM has only to select instructions.
mod builder;
pub mod cost;
mod cse;
pub(crate) mod expand_math;
mod index;
pub(crate) mod lanes;
mod licm;
pub mod monoid;
mod open_blocks;
mod precision;
mod site;
mod tile_ops;

pub use builder::KernelBuilder;
pub use index::{Index, linear};
pub use open_blocks::{OpenElse, OpenFor, OpenIf, OpenWhile};
pub use precision::{accumulator_dtype, compute_dtype};
pub use site::Site;

use disc_ir::Function;

/// Cleans up a kernel: computes equal values once, hoists loop-invariant ops and drops unused ones.
pub fn optimize(kernel: &mut Function) {
    licm::run(kernel);
    cse::run(kernel);
    cse::remove_unused(kernel);
}

#[cfg(test)]
mod tests {
    use super::optimize;

    /// The body of the kernel `text`, optimised.
    fn after(text: &str) -> String {
        let mut module = disc_ir::text::parse(text).expect("the kernel is well-formed");
        optimize(&mut module.functions[0]);
        module.functions[0].to_string()
    }

    fn position(text: &str, part: &str) -> usize {
        text.find(part).unwrap_or_else(|| panic!("no `{part}` in {text}"))
    }

    /// Rare numbers take two more steps; both branches are the same.
    const BRANCHES: &str = "kernel @k(%x: buffer<64xf32>, %y: buffer<64xf32>, %begin: i64, %end: i64) {
      %one = constant dense<1> : i64
      %i = constant dense<0> : i64
      %limit = constant dense<8.0> : vector<8xf32>
      for %begin, %end, %one : i64 do(%n: i64) {
        %v = load %x[%n] : (buffer<64xf32>, i64) -> vector<8xf32>
        %large = compare LT, %limit, %v : (vector<8xf32>, vector<8xf32>) -> vector<8xi1>
        %any = reduce_lanes or, %large : (vector<8xi1>) -> i1
        %a = if %any : (i1) -> vector<8xf32> then {
          %k = constant dense<0.5> : vector<8xf32>
          %h = multiply %v, %k : vector<8xf32>
          %s = sqrt %h : vector<8xf32>
          return %s : vector<8xf32>
        } else {
          return %v : vector<8xf32>
        }
        %b = if %any : (i1) -> vector<8xf32> then {
          %k1 = constant dense<0.5> : vector<8xf32>
          %h1 = multiply %v, %k1 : vector<8xf32>
          %s1 = sqrt %h1 : vector<8xf32>
          return %s1 : vector<8xf32>
        } else {
          return %v : vector<8xf32>
        }
        %sum = add %a, %b : vector<8xf32>
        store %y[%n], %sum : (buffer<64xf32>, i64, vector<8xf32>)
        return
      }
      return
    }";

    #[test]
    fn vectors_of_a_branch_stay_in_it_and_equal_branches_are_one() {
        let text = after(BRANCHES);
        assert_eq!((text.matches("= if ").count(), text.matches("sqrt").count()), (1, 1), "{text}");
        assert!(position(&text, "= if ") < position(&text, "multiply"), "{text}");
    }

    #[test]
    fn what_no_turn_of_a_loop_changes_leaves_its_branches_too() {
        let text = after(&BRANCHES.replace("multiply %v, %k :", "multiply %limit, %k :"));
        assert!(position(&text, "multiply") < position(&text, "for "), "{text}");
    }
}
