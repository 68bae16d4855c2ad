//! Schedules for CPUs: work units on threads, vectors in lanes, task memory in caches.
mod attention;
mod matmul;
mod pointwise;
mod reduction;
mod standalone;
mod window;
mod winograd;

pub use attention::{AttentionPlan, schedule as attention};
pub use matmul::{Tile, offer_products, offered, schedule as matmul, split_k, tile};
pub use pointwise::{schedule as pointwise, versions as pointwise_versions};
pub use reduction::{RowPlan, schedule as reduction};
pub use standalone::{schedule as standalone, update};
pub use window::schedule as window;
pub use winograd::schedule as winograd;
