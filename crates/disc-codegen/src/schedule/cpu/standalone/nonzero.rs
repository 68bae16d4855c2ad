//! Positions of true elements: one pass, in order. Each position is written where the next one found belongs, and stays if its element is
//! true: nothing branches on data.
use crate::{
    kernel::Index,
    schedule::{Group, Scheduled, common::kernel_frame::Draft},
};
use disc_ir::{Dim, Inst};

pub(super) fn schedule(group: &Group<'_>, inst: Inst) -> Scheduled {
    let draft = Draft::new(group, &group.name, 1);
    let (mask, positions) = (group.function.operands(inst)[0], group.function.result(inst));
    let (size, room) = (group.tensor(mask).dims[0].clone(), group.tensor(positions).dims[0].clone());
    let cost = size.clone() + &room;
    draft.units(Dim::constant(1), cost, |draft, _| {
        let kb = &mut draft.kb;
        let (zero, one, none) = (kb.int(0), kb.int(1), kb.int(-1));
        let (size, room) = (kb.dim(&size), kb.dim(&room));
        let mut pass = kb.open_while(&[zero, zero], |kb, carried| {
            let (left, fits) = (kb.compare("LT", carried[0], size), kb.compare("LT", carried[1], room));
            kb.and(left, fits)
        });
        let [i, found] = pass.carried[..] else { panic!("two values are carried") };
        draft.store(group, positions, &[Index::uniform(found)], i);
        let is_true = draft.elements.element(&mut draft.kb, mask, &[Index::uniform(i)]);
        let kb = &mut draft.kb;
        let step = kb.select(is_true, one, zero);
        pass.next = vec![kb.add(i, one), kb.add(found, step)];
        let found = kb.close_while(pass)[1];
        let rest = kb.open_for([found, room, one]);
        draft.store(group, positions, &[Index::uniform(rest.index)], none);
        draft.kb.close_for(rest);
    })
}
