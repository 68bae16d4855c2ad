//! Lowers to instructions of AArch64 that LLVM does not find by itself: dot products of words,
//! table look-ups, and masked accesses by predicates of SVE.
//!
//! A vector of more than 128 bits is in a scalable register, which is at least as long: the
//! target's extensions say so.
use super::Lowering;
use crate::{
    Error,
    emit::{Emit, Emitted, Val, lanes_of, vector_of},
};
use disc_codegen::target::{ArmExtension, Target};
use disc_ir::DType;
use inkwell::{
    IntPredicate,
    types::{BasicTypeEnum, ScalableVectorType},
    values::AsValueRef,
};
use llvm_sys::core::LLVMBuildFreeze;

/// Bits of a register of NEON, and of the part that all registers of SVE have.
const BITS: u32 = 128;

impl<'c> Emit<'c> {
    /// Adds the products of the elements of each word to the lanes of `sum`. Returns `None` without
    /// an instruction for these elements.
    pub(super) fn dot_on_arm(
        &self,
        [a_elements, elements]: [DType; 2],
        [a, b, sum]: [Val<'c>; 3],
    ) -> Result<Option<Val<'c>>, Error> {
        let name = match (a_elements, elements) {
            (DType::I8, DType::I8) => "sdot",
            (DType::U8, DType::U8) => "udot",
            _ => return Ok(None),
        };
        let element: BasicTypeEnum<'c> = self.int(elements.bits()).into();
        if 32 * lanes_of(sum) == BITS {
            let held = vector_of(element, BITS / elements.bits());
            let [a, b] = [a, b].map(|word| self.bitcast(word, held));
            let types = [sum.get_type(), held];
            return self.typed_intrinsic(&format!("llvm.aarch64.neon.{name}"), &types, &[sum, a?, b?]).map(Some);
        }
        let held: BasicTypeEnum<'c> = scalable_of(element)?.into();
        let whole = |value: Val<'c>| self.scalable(value, |ty| ty.get_poison().into());
        let [a, b] = [a, b].map(|word| Ok::<_, Error>(self.builder.build_bit_cast(whole(word)?, held, "")?));
        let sums = whole(sum)?;
        let sums = self.typed_intrinsic(&format!("llvm.aarch64.sve.{name}"), &[sums.get_type()], &[sums, a?, b?])?;
        self.fixed(sums, sum.get_type()).map(Some)
    }

    /// Adds the products of two rows and two columns to a block of four sums. Returns `None`
    /// without an instruction for these elements, or for so many lanes.
    pub(super) fn dot_pairs_on_arm(&self, elements: DType, [a, b, sum]: [Val<'c>; 3]) -> Result<Option<Val<'c>>, Error> {
        let (name, element): (_, BasicTypeEnum<'c>) = match elements {
            DType::I8 => ("smmla", self.int(8).into()),
            DType::U8 => ("ummla", self.int(8).into()),
            DType::BF16 => ("bfmmla", self.context.bf16_type().into()),
            _ => return Ok(None),
        };
        if 32 * lanes_of(sum) != BITS {
            return Ok(None);
        }
        let held = vector_of(element, BITS / elements.bits());
        let [a, b] = [a, b].map(|pair| self.bitcast(pair, held));
        // The form for bf16 has one type.
        let types = [sum.get_type(), held];
        let types = if elements == DType::BF16 { &[][..] } else { &types[..] };
        self.typed_intrinsic(&format!("llvm.aarch64.neon.{name}"), types, &[sum, a?, b?]).map(Some)
    }

    /// Picks elements of 32 bits out of two registers, by a table of their bytes.
    pub(super) fn picked_by_table(&self, a: Val<'c>, b: Val<'c>, places: Val<'c>) -> Emitted<'c> {
        let lanes = lanes_of(a);
        let c = |value| self.const_int(32, lanes, value);
        let place = self.and(places, c(i64::from(2 * lanes) - 1))?;
        let bytes = self.add(self.mul(place, c(0x0404_0404))?, c(0x0302_0100))?;
        let held = self.int_ty(8, BITS / 8);
        let [first, second, bytes] = [a, b, bytes].map(|value| self.bitcast(value, held));
        let picked = self.typed_intrinsic("llvm.aarch64.neon.tbl2", &[held], &[first?, second?, bytes?])?;
        self.bitcast(picked, a.get_type())
    }

    /// Returns the type to load a vector as: small elements of a word would be widened one by one.
    pub(super) fn type_to_load(&self, memory: BasicTypeEnum<'c>, dtype: DType) -> BasicTypeEnum<'c> {
        let is_word = |lanes: u32| lanes > 1 && dtype.bits().max(8) * lanes == 32;
        match (&self.target, memory) {
            (Target::AArch64(_), BasicTypeEnum::VectorType(vector)) if is_word(vector.get_size()) => self.int(32).into(),
            _ => memory,
        }
    }

    /// Returns true if vectors have more than 128 bits, in registers of SVE. Of these LLVM fails to
    /// select some instructions: for some numbers of lanes it converts no truth values to floats,
    /// and widens no small elements as it gathers them.
    pub(super) fn has_long_registers(&self) -> bool {
        matches!(&self.target, Target::AArch64(arm) if arm.vector_bytes() * 8 > BITS)
    }

    /// Keeps LLVM from widening the small elements that a gather reads as it reads them.
    pub(super) fn as_gathered(&self, value: Val<'c>, dtype: DType) -> Val<'c> {
        if !self.has_long_registers() || dtype.size() > 2 {
            return value;
        }
        // SAFETY: a value of this context, at the position of the builder; a frozen value has its
        // type.
        unsafe { Val::new(LLVMBuildFreeze(self.builder.as_mut_ptr(), value.as_value_ref(), c"".as_ptr())) }
    }

    /// Returns true if masked accesses are made by predicates here: of longer vectors LLVM does so
    /// by itself.
    fn masks_by_predicates(&self) -> bool {
        matches!(&self.target, Target::AArch64(arm) if arm.has(ArmExtension::Sve) && arm.vector_bytes() * 8 == BITS)
    }

    /// Puts a vector into the first lanes of a scalable one; `rest` gives the others.
    fn scalable(&self, value: Val<'c>, rest: impl Fn(ScalableVectorType<'c>) -> Val<'c>) -> Emitted<'c> {
        let element = value.into_vector_value().get_type().get_element_type();
        let ty = scalable_of(element)?;
        let arguments = [rest(ty), value, self.i64(0).into()];
        self.typed_intrinsic("llvm.vector.insert", &[ty.into(), value.get_type()], &arguments)
    }

    /// Takes the first lanes of a scalable vector.
    fn fixed(&self, value: Val<'c>, ty: BasicTypeEnum<'c>) -> Emitted<'c> {
        self.typed_intrinsic("llvm.vector.extract", &[ty, value.get_type()], &[value, self.i64(0).into()])
    }

    /// Turns the lanes of a mask from `first` on into a predicate for a register of such elements.
    fn predicate(&self, mask: Val<'c>, first: u32, bits: u32) -> Emitted<'c> {
        let (lanes, count) = (lanes_of(mask), BITS / bits);
        let nothing = self.const_int(1, lanes, 0);
        let part = self.shuffle(mask, Some(nothing), (first..first + count).map(|lane| lane.min(lanes)))?;
        let wide = self.scalable(self.resize(part, bits, true)?, |ty| ty.const_zero().into())?.into_scalable_vector_value();
        let zeros = wide.get_type().const_zero();
        Ok(self.builder.build_int_compare(IntPredicate::NE, wide, zeros, "")?.into())
    }
}

/// Returns the scalable vector of 128 bits and more.
fn scalable_of(element: BasicTypeEnum<'_>) -> Result<ScalableVectorType<'_>, Error> {
    match element {
        BasicTypeEnum::IntType(ty) => Ok(ty.scalable_vec_type(BITS / ty.get_bit_width())),
        BasicTypeEnum::FloatType(ty) => Ok(ty.scalable_vec_type(BITS / ty.get_bit_width())),
        _ => Err(Error::Emit("a scalable vector of what is no number".to_owned())),
    }
}

impl<'c> Lowering<'_, 'c> {
    /// Loads a vector under a mask by predicates; `None` where LLVM is to choose.
    pub(super) fn load_by_predicate(
        &self,
        memory: BasicTypeEnum<'c>,
        at: Val<'c>,
        mask: Val<'c>,
        dtype: DType,
    ) -> Result<Option<Val<'c>>, Error> {
        if !self.emit.masks_by_predicates() {
            return Ok(None);
        }
        let (lanes, bits) = (lanes_of(mask), dtype.bits().max(8));
        let count = BITS / bits;
        let element = memory.into_vector_type().get_element_type();
        let (wide, part) = (BasicTypeEnum::from(scalable_of(element)?), self.emit.memory_ty(dtype, count));
        let mut parts = Vec::new();
        for first in (0..lanes).step_by(count as usize) {
            let at = self.emit.element_address(dtype, at.into_pointer_value(), self.emit.i64(first.into()).into())?;
            let arguments = [at, self.emit.predicate(mask, first, bits)?, wide.const_zero()];
            let call = self.emit.call_intrinsic("llvm.masked.load", &[wide, at.get_type()], &arguments)?;
            self.align_argument(call, 0, dtype);
            parts.push(self.emit.fixed(call.try_as_basic_value().expect_basic("a load has a value"), part)?);
        }
        self.emit.joined(parts, lanes).map(Some)
    }

    /// Stores a vector under a mask by predicates. Returns false where LLVM is to choose.
    pub(super) fn store_by_predicate(&self, value: Val<'c>, at: Val<'c>, mask: Val<'c>, dtype: DType) -> Result<bool, Error> {
        if !self.emit.masks_by_predicates() {
            return Ok(false);
        }
        let (lanes, bits) = (lanes_of(mask), dtype.bits().max(8));
        let count = BITS / bits;
        for first in (0..lanes).step_by(count as usize) {
            let at = self.emit.element_address(dtype, at.into_pointer_value(), self.emit.i64(first.into()).into())?;
            let part = self.emit.lanes_from(value, first, count)?;
            let wide = self.emit.scalable(part, |ty| ty.get_poison().into())?;
            let types = [wide.get_type(), at.get_type()];
            let call =
                self.emit.call_intrinsic("llvm.masked.store", &types, &[wide, at, self.emit.predicate(mask, first, bits)?])?;
            self.align_argument(call, 1, dtype);
        }
        Ok(true)
    }
}
