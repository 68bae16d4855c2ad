//! Elements of a tensor as JSON: read from flat or nested lists, written as a flat one.

use disc_ral::{DType, Tensor};
use half::{bf16, f16};
use serde::{
    Serialize, Serializer,
    de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor},
    ser::SerializeSeq,
};
use std::fmt;

/// Reads the elements of a list, and of lists inside, into bytes.
pub(crate) struct Elements<'a> {
    pub(crate) dtype: DType,
    pub(crate) bytes: &'a mut Vec<u8>,
}

impl Elements<'_> {
    fn integer<E: Error>(&mut self, value: i128) -> Result<(), E> {
        macro_rules! push {
            ($type:ty) => {{
                let narrow = <$type>::try_from(value);
                let narrow = narrow.map_err(|_| E::custom(format!("{value} is no {}", self.dtype)))?;
                self.bytes.extend(narrow.to_ne_bytes());
            }};
        }
        match self.dtype {
            DType::I8 => push!(i8),
            DType::U8 => push!(u8),
            DType::I16 => push!(i16),
            DType::U16 => push!(u16),
            DType::I32 => push!(i32),
            DType::U32 => push!(u32),
            DType::I64 => push!(i64),
            DType::U64 => push!(u64),
            DType::I1 if value == 0 || value == 1 => self.bytes.push(value as u8),
            DType::I1 => return Err(E::custom(format!("{value} is no truth value"))),
            DType::F16 | DType::BF16 | DType::F32 | DType::F64 => return self.float(value as f64),
        }
        Ok(())
    }

    fn float<E: Error>(&mut self, value: f64) -> Result<(), E> {
        match self.dtype {
            DType::F16 => self.bytes.extend(f16::from_f64(value).to_ne_bytes()),
            DType::BF16 => self.bytes.extend(bf16::from_f64(value).to_ne_bytes()),
            DType::F32 => self.bytes.extend((value as f32).to_ne_bytes()),
            DType::F64 => self.bytes.extend(value.to_ne_bytes()),
            _ => return Err(E::custom(format!("{value} is no {}", self.dtype))),
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.dtype)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { dtype, bytes } = self;
        while items.next_element_seed(Elements { dtype, bytes: &mut *bytes })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        if self.dtype == DType::I1 { self.integer(value.into()) } else { Err(E::custom(format!("{value} is no {}", self.dtype))) }
    }

    fn visit_i64<E: Error>(mut self, value: i64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_u64<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.integer(value.into())
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.float(value)
    }
}

/// Writes the elements of a tensor as a flat list. JSON has no NaN and no infinities: these are
/// `null`.
pub(crate) struct Data<'a>(pub(crate) &'a Tensor<'static>);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let bytes = self.0.bytes().map_err(serde::ser::Error::custom)?;
        let size = self.0.dtype().size();
        let mut list = to.serialize_seq(Some(bytes.len() / size))?;
        macro_rules! write {
            ($type:ty, $value:expr) => {
                for element in bytes.chunks_exact(size) {
                    let element = <$type>::from_ne_bytes(element.try_into().expect("the size of the type"));
                    list.serialize_element(&$value(element))?;
                }
            };
        }
        match self.0.dtype() {
            DType::F16 => write!(f16, f32::from),
            DType::BF16 => write!(bf16, f32::from),
            DType::F32 => write!(f32, f32::from),
            DType::F64 => write!(f64, f64::from),
            DType::I1 => write!(u8, |byte| byte != 0),
            DType::I8 => write!(i8, i8::from),
            DType::U8 => write!(u8, u8::from),
            DType::I16 => write!(i16, i16::from),
            DType::U16 => write!(u16, u16::from),
            DType::I32 => write!(i32, i32::from),
            DType::U32 => write!(u32, u32::from),
            DType::I64 => write!(i64, i64::from),
            DType::U64 => write!(u64, u64::from),
        }
        list.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use disc_ral::HostTensor;

    fn read(dtype: DType, text: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let mut from = serde_json::Deserializer::from_str(text);
        Elements { dtype, bytes: &mut bytes }.deserialize(&mut from).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    fn round(dtype: DType, sizes: &[i64], text: &str) -> String {
        let bytes = read(dtype, text).unwrap();
        let mut tensor = HostTensor::zeros(dtype, sizes).unwrap();
        tensor.bytes_mut().copy_from_slice(&bytes);
        serde_json::to_string(&Data(&tensor.into())).unwrap()
    }

    #[test]
    fn lists_of_any_nesting_are_read_and_flat_ones_written() {
        assert_eq!(round(DType::F32, &[2, 2], "[[1, 2.5], [-3e0, 0.1]]"), "[1.0,2.5,-3.0,0.1]");
        assert_eq!(round(DType::F16, &[2], "[1, 0.5]"), "[1.0,0.5]");
        assert_eq!(round(DType::BF16, &[1], "[3]"), "[3.0]");
        assert_eq!(round(DType::I64, &[2], "[-9223372036854775808, 7]"), "[-9223372036854775808,7]");
        assert_eq!(round(DType::U64, &[1], "[18446744073709551615]"), "[18446744073709551615]");
        assert_eq!(round(DType::I1, &[3], "[true, false, 1]"), "[true,false,true]");
        assert_eq!(round(DType::F32, &[1], "[1e300]"), "[null]");
        assert_eq!(round(DType::F32, &[], "4"), "[4.0]");
    }

    #[test]
    fn values_of_another_type_are_refused() {
        assert!(read(DType::U8, "[256]").unwrap_err().contains("256 is no u8"));
        assert!(read(DType::I32, "[1.5]").unwrap_err().contains("1.5 is no i32"));
        assert!(read(DType::F32, "[true]").unwrap_err().contains("true is no f32"));
        assert!(read(DType::I1, "[2]").unwrap_err().contains("no truth value"));
        assert!(read(DType::F32, "[\"1\"]").unwrap_err().contains("a list of f32"));
        assert!(read(DType::F32, &"[".repeat(100_000)).unwrap_err().contains("recursion"));
    }
}
