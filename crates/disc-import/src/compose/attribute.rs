//! Gives the types that attributes of compositions have.
use disc_ir::{Attr, DType, Dim, attr::AttrKind};
use std::sync::Arc;

/// A type of attributes: the kind that a declaration shows, and how it is read.
pub trait Attribute: Sized {
    const KIND: AttrKind;
    const REQUIRED: bool = true;

    /// Returns the value; `None` for another kind.
    fn read(attr: &Attr) -> Option<Self>;

    /// The value of an attribute that is absent.
    fn absent() -> Option<Self> {
        None
    }
}

macro_rules! attribute {
    ($ty:ty, $kind:ident) => {
        impl Attribute for $ty {
            const KIND: AttrKind = AttrKind::$kind;

            fn read(attr: &Attr) -> Option<Self> {
                match attr {
                    Attr::$kind(value) => Some(value.clone()),
                    _ => None,
                }
            }
        }
    };
}

attribute!(i64, Int);
attribute!(f64, Float);
attribute!(bool, Bool);
attribute!(DType, DType);
attribute!(Dim, Dim);
attribute!(Arc<str>, Str);
attribute!(Vec<i64>, Ints);
attribute!(Vec<Dim>, Dims);

impl<T: Attribute> Attribute for Option<T> {
    const KIND: AttrKind = T::KIND;
    const REQUIRED: bool = false;

    fn read(attr: &Attr) -> Option<Self> {
        T::read(attr).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }
}

/// Declares an attribute that is one of a list of words, as an enum.
macro_rules! words {
    ($(#[doc = $doc:literal])+ $Name:ident { $( $Word:ident = $word:literal ),+ $(,)? }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Name { $( $Word ),+ }

        impl $crate::compose::attribute::Attribute for $Name {
            const KIND: disc_ir::attr::AttrKind = disc_ir::attr::AttrKind::Enum(&[$( $word ),+]);

            fn read(attr: &disc_ir::Attr) -> Option<Self> {
                match attr {
                    $( disc_ir::Attr::Enum($word) => Some($Name::$Word), )+
                    _ => None,
                }
            }
        }
    };
}
