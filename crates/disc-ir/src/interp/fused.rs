//! Fusion groups: the group's ops, one after another.
use super::{
    call::Call,
    machine::{Evaluated, Machine},
};

pub(super) fn fusion<'a>(machine: &mut Machine<'a>, call: &Call<'a>) -> Evaluated {
    machine.run_block(call.region(0)?, call.args.clone())
}
