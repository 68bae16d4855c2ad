//! Lowers offers to a library of the device: the words of what is offered, and the answer.
use super::{Lowering, host::grid_number, runtime::abi_code};
use crate::{Error, emit::Val};
use core::mem::offset_of;
use disc_abi::{Activation, LIBRARY_TF32, LibraryConvolution, Runtime};
use disc_ir::{Attr, Inst};
use inkwell::IntPredicate;

impl<'c> Lowering<'_, 'c> {
    /// Lowers the offer of a GEMM: the words of a [`disc_abi::LibraryGemm`].
    pub(super) fn library_gemm(&mut self, inst: Inst) -> Result<(), Error> {
        self.offer(inst, &[0], &["product"], offset_of!(Runtime, library_gemm))
    }

    /// Lowers the offer of a convolution: the words of a [`LibraryConvolution`].
    pub(super) fn library_convolution(&mut self, inst: Inst) -> Result<(), Error> {
        const { assert!(LibraryConvolution::SIZES == 10 + 12 + 9, "the lists are the sizes in order") };
        let bias = if self.function.operands(inst).len() > 3 { 3 } else { 0 };
        self.offer(inst, &[0, 2, bias], &["sizes", "strides", "window"], offset_of!(Runtime, library_convolution))
    }

    /// Writes the words of an offer, with the types of these operands and the sizes of these lists,
    /// and calls the runtime, which writes its answer into the first word.
    fn offer(&mut self, inst: Inst, typed: &[usize], lists: &[&str], function: usize) -> Result<(), Error> {
        self.host(inst)?;
        let kernel = self.launched(inst, "kernel")?;
        let Some(Attr::Enum(word)) = self.attr(inst, "activation") else {
            return Err(self.error(inst, "needs an `activation`".to_owned()));
        };
        let activation = Activation::ALL.into_iter().find(|activation| activation.name() == *word);
        let activation = activation.ok_or_else(|| self.error(inst, format!("`{word}` is no function of a library")))?;
        let buffers = self.operands(inst)?;
        let (&[first, second, result], bias) = buffers.split_first_chunk::<3>().expect("the op has three buffers at least");
        let bias = bias.first().copied().unwrap_or_else(|| self.emit.pointer().const_null().into());
        let flags = if matches!(self.attr(inst, "tf32"), Some(Attr::Bool(true))) { LIBRARY_TF32 } else { 0 };
        let word = |value: u64| -> Val<'c> { self.emit.i64(value as i64).into() };
        let mut words = vec![word(0)];
        for &operand in typed {
            let dtype = self.function.ty(self.function.operands(inst)[operand]).dtype();
            words.push(self.emit.i64(abi_code(dtype)).into());
        }
        let rest = [word(activation.code()), word(flags), word(grid_number(self.program, kernel).into())];
        for name in lists {
            let Some(Attr::Dims(dims)) = self.attr(inst, name) else {
                return Err(self.error(inst, format!("needs `{name}`")));
            };
            for dim in dims {
                words.push(self.dim_value(dim)?);
            }
        }
        words.extend(rest);
        words.extend([first, second, bias, result]);
        let address = self.write_words(&words)?;
        self.call_offer(function, address)?;
        let is_taken = self.emit.load_i64(address, 0)?;
        let is_taken = self.emit.icmp(IntPredicate::NE, is_taken, self.emit.i64(0).into())?;
        self.define(inst, is_taken);
        Ok(())
    }
}
