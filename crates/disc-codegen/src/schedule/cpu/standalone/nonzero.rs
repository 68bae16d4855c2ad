//! Finds positions of true elements: one pass, in order. Each position is written where the next
//! one found belongs, and kept if its element is true: no branch depends on data.
use crate::{
    kernel::Index,
    schedule::{Group, Scheduled, common::kernel_frame::KernelFrame},
};
use disc_ir::{Dim, Inst};
use disc_kernel_macros::expr;

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let frame = KernelFrame::new(group, &group.name, 1);
    let (mask, positions) = (group.function.operands(inst)[0], group.function.result(inst));
    let (size, room) = (group.tensor(mask).dims[0].clone(), group.tensor(positions).dims[0].clone());
    let cost = size.clone() + &room;
    frame.units(Dim::constant(1), cost, |frame, _| {
        let kb = &mut frame.kb;
        let (zero, one, none) = (kb.int(0), kb.int(1), kb.int(-1));
        let (size, room) = (kb.dim(&size), kb.dim(&room));
        let mut pass = kb.open_while(&[zero, zero], |kb, carried| expr!(kb, (carried[0] < size) & (carried[1] < room)));
        let [i, found] = pass.carried[..] else { panic!("two values are carried") };
        frame.store(group, positions, &[Index::uniform(found)], i);
        let is_true = frame.elements.element(&mut frame.kb, mask, &[Index::uniform(i)]);
        let kb = &mut frame.kb;
        let step = kb.select(is_true, one, zero);
        pass.next = vec![expr!(kb, i + one), expr!(kb, found + step)];
        let found = kb.close_while(pass)[1];
        let rest = kb.open_for([found, room, one]);
        frame.store(group, positions, &[Index::uniform(rest.index)], none);
        frame.kb.close_for(rest);
    })
}
