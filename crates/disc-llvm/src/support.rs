//! Provides hidden `memcpy`, `memmove` and `memset`, for the block operations that code generation
//! turns into calls.
//!
//! Kernels copy with explicit loops; these functions keep a library self-contained where LLVM makes
//! a call all the same. Each function has a section of its own, so that the link drops the unused
//! ones.
use crate::{
    Error,
    machine::{Codegen, Object, Passes},
    text,
};
use disc_codegen::target::{AArch64, Target, X86Level};
use std::sync::OnceLock;

/// Returns the support object of an architecture, made once per process for its oldest CPU. `None`
/// if no code of that target calls it.
pub(crate) fn object(target: &Target) -> Result<Option<Object>, Error> {
    static X86: OnceLock<Object> = OnceLock::new();
    static AARCH64: OnceLock<Object> = OnceLock::new();
    let (cell, oldest) = match target {
        Target::X86(_) => (&X86, Target::x86(X86Level::V2)),
        Target::AArch64(_) => (&AARCH64, Target::AArch64(AArch64::default())),
        Target::Nvptx { .. } | Target::Amdgpu { .. } | Target::Simt { .. } => return Ok(None),
    };
    if let Some(object) = cell.get() {
        return Ok(Some(object.clone()));
    }
    let object = text::object(SOURCE, &oldest, Passes::None, Codegen::Less)?;
    Ok(Some(cell.get_or_init(|| object).clone()))
}

/// Forward copies take words, then bytes; `memmove` copies bytes backward where the ranges overlap
/// that way.
const SOURCE: &str = r#"
define hidden ptr @memcpy(ptr returned %to, ptr %from, i64 %n) #0 section ".text.memcpy" {
entry:
  %whole = and i64 %n, -8
  %any = icmp ne i64 %whole, 0
  br i1 %any, label %words, label %rest
words:
  %i = phi i64 [ 0, %entry ], [ %i.next, %words ]
  %wf = getelementptr i8, ptr %from, i64 %i
  %w = load i64, ptr %wf, align 1
  %wt = getelementptr i8, ptr %to, i64 %i
  store i64 %w, ptr %wt, align 1
  %i.next = add nuw i64 %i, 8
  %i.more = icmp ult i64 %i.next, %whole
  br i1 %i.more, label %words, label %rest
rest:
  %some = icmp ne i64 %whole, %n
  br i1 %some, label %bytes, label %done
bytes:
  %j = phi i64 [ %whole, %rest ], [ %j.next, %bytes ]
  %bf = getelementptr i8, ptr %from, i64 %j
  %b = load i8, ptr %bf, align 1
  %bt = getelementptr i8, ptr %to, i64 %j
  store i8 %b, ptr %bt, align 1
  %j.next = add nuw i64 %j, 1
  %j.more = icmp ult i64 %j.next, %n
  br i1 %j.more, label %bytes, label %done
done:
  ret ptr %to
}

define hidden ptr @memmove(ptr returned %to, ptr %from, i64 %n) #0 section ".text.memmove" {
entry:
  %t = ptrtoint ptr %to to i64
  %f = ptrtoint ptr %from to i64
  %distance = sub i64 %t, %f
  %overlaps = icmp ult i64 %distance, %n
  br i1 %overlaps, label %backward, label %forward
forward:
  %r = call ptr @memcpy(ptr %to, ptr %from, i64 %n)
  ret ptr %to
backward:
  %i = phi i64 [ %n, %entry ], [ %i.next, %backward ]
  %i.next = sub nuw i64 %i, 1
  %bf = getelementptr i8, ptr %from, i64 %i.next
  %b = load i8, ptr %bf, align 1
  %bt = getelementptr i8, ptr %to, i64 %i.next
  store i8 %b, ptr %bt, align 1
  %more = icmp ne i64 %i.next, 0
  br i1 %more, label %backward, label %done
done:
  ret ptr %to
}

define hidden ptr @memset(ptr returned %to, i32 %value, i64 %n) #0 section ".text.memset" {
entry:
  %v = trunc i32 %value to i8
  %any = icmp ne i64 %n, 0
  br i1 %any, label %bytes, label %done
bytes:
  %i = phi i64 [ 0, %entry ], [ %i.next, %bytes ]
  %p = getelementptr i8, ptr %to, i64 %i
  store i8 %v, ptr %p, align 1
  %i.next = add nuw i64 %i, 1
  %more = icmp ult i64 %i.next, %n
  br i1 %more, label %bytes, label %done
done:
  ret ptr %to
}

attributes #0 = { nounwind "no-builtins" }
"#;
