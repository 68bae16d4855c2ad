//! Servers share packages among threads and move sessions to them.

use disc_ral::{Error, HostTensor, OpenOptions, Package, Session, SessionOptions, Tensor};

const fn is_send<T: Send>() {}
const fn is_shared<T: Send + Sync>() {}

const _: () = {
    is_shared::<Package>();
    is_shared::<OpenOptions>();
    is_shared::<SessionOptions>();
    is_shared::<Error>();
    is_send::<Session>();
    is_send::<Tensor<'static>>();
    is_send::<HostTensor>();
};
