//! Leaves out tiles of keys that a mask hides from all rows of the tile.
//!
//! The masks are those of `select(mask, scores, -inf)`. A hidden score has the weight 0, so leaving
//! it out changes nothing, unless a value there is not finite: then the tile is not left out.
use super::{
    Attention,
    rows::Keys,
    tile::{Place, Tile},
};
use crate::{
    kernel::KernelBuilder,
    schedule::gpu::frame::{GridFrame, publish, warp_of},
};
use disc_ir::{DType, Dim, Literal, TensorType, Value};
use disc_kernel_macros::expr;

impl Attention<'_> {
    /// Returns the memory in which the warps of a block tell each other what they found.
    pub(super) fn flags(&self, kb: &mut KernelBuilder) -> Value {
        kb.shared(TensorType::new([Dim::constant(self.warps())], DType::I32))
    }

    fn warp(&self) -> u32 {
        warp_of(self.group.target)
    }

    pub(super) fn warps(&self) -> i64 {
        Tile::THREADS / i64::from(self.warp())
    }

    /// Tests if a tile of keys has to be computed: the same for all threads of the block, whose
    /// warps have flags. `is_not_finite` tests the values that the thread reads.
    pub(super) fn is_needed(
        &self,
        frame: &mut GridFrame<'_>,
        place: &Place,
        (flags, warps): (Value, i64),
        keys: &Keys,
        is_not_finite: &mut dyn FnMut(&mut GridFrame<'_>) -> Value,
    ) -> Value {
        let GridFrame { kb, elements, .. } = frame;
        let mut seen = kb.zero(DType::I1, 1);
        for &row in &place.rows {
            for &(key, _) in &keys.own {
                let at = place.at(&[row, key]);
                let masks: Vec<Value> = self.parts.masks.iter().map(|mask| elements.element(kb, mask.value, &at)).collect();
                let shown = masks.iter().skip(1).fold(masks[0], |all, &mask| expr!(kb, all & mask));
                seen = expr!(kb, seen | shown);
            }
        }
        let seen = self.any(kb, (flags, warps), seen);
        let zero = kb.zero(DType::I32, 1);
        let is_hidden = expr!(kb, seen == zero);
        let open = frame.kb.open_if(is_hidden);
        let found = is_not_finite(frame);
        let kb = &mut frame.kb;
        let found = self.any(kb, (flags, warps), found);
        let one = kb.constant(Literal::splat_i64(DType::I32, 1), 1);
        let [needed] = kb.close_if_giving(open, &[found], &[one])[..] else { panic!("one result") };
        expr!(kb, needed != zero)
    }

    /// Tests if a value of a tile that the thread reads is not finite: `value * 0` is not 0 then.
    pub(super) fn is_not_finite(&self, frame: &mut GridFrame<'_>, place: &Place, keys: &Keys) -> Value {
        let kb = &mut frame.kb;
        let start = kb.zero(DType::I1, 1);
        let bounds = self.values_of_tile(kb, keys);
        let mut open = kb.open_for_carrying(bounds, &[start]);
        frame.elements.open_scope();
        let first = expr!(frame.kb, keys.first + open.index);
        let sides = self.value_sides(place, first);
        let found = self.elements_of(frame, place, &self.parts.values, &sides);
        let kb = &mut frame.kb;
        let mut any = open.carried[0];
        let zero = kb.zero(self.sum(), 1);
        for (_, _, value) in found {
            any = expr!(kb, any | (value * zero != zero));
        }
        open.next = vec![any];
        frame.elements.close_scope();
        frame.kb.close_for(open)[0]
    }

    /// Returns a number that is not 0 if any thread of the block found something.
    fn any(&self, kb: &mut KernelBuilder, (flags, warps): (Value, i64), found: Value) -> Value {
        let (one, zero) = (kb.constant(Literal::splat_i64(DType::I32, 1), 1), kb.zero(DType::I32, 1));
        let own = kb.select(found, one, zero);
        let of_warp = kb.reduce_group(own, "or", self.warp());
        let [warp, lane] = ["warp", "lane"].map(|of| kb.place(of));
        let is_first = expr!(kb, lane == 0);
        publish(kb, is_first, |kb| kb.store(flags, warp, of_warp, None));
        (0..warps).fold(zero, |all, warp| {
            let warp = kb.int(warp);
            let found = kb.load(flags, warp, 1, None);
            expr!(kb, all | found)
        })
    }
}
