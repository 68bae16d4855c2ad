//! Plans a convolution by Winograd's method: its sizes, and the cut of its work.
use super::method::Method;
use crate::{
    kernel::KernelBuilder,
    schedule::{
        Condition::{self, Less},
        Group,
        cpu::matmul::{InterleavedProduct, check_elementwise},
        tile,
    },
};
use disc_ir::{DType, Dim, Inst, OpKind, Value};
use disc_kernel_macros::expr;
use disc_passes::{
    analysis::query::Query,
    fusion::fuse_interleave::{Interleaved, InterleavedPart},
};

/// Blocks of output features of a unit: tiles are transformed anew for each unit.
const CHUNK_BLOCKS: i64 = 11;

pub(super) struct WinogradPlan {
    pub(super) method: Method,
    /// The product that the method computes.
    pub(super) dot: Inst,
    pub(super) product: Value,
    /// The places of the results, if they are stored interleaved with those of other products.
    pub(super) interleaved: Option<InterleavedProduct>,
    pub(super) input: Value,
    /// The transformed kernel, and the original one.
    pub(super) kernel: Value,
    pub(super) weights: Weights,
    pub(super) low: [Dim; 2],
    pub(super) batch: Dim,
    /// Results along the two dimensions, and elements of the input.
    pub(super) height: Dim,
    pub(super) width: Dim,
    pub(super) size: [Dim; 2],
    pub(super) channels: i64,
    pub(super) features: i64,
    /// Blocks of output features, and features of one.
    pub(super) blocks: i64,
    pub(super) rows: i64,
    pub(super) lanes: u32,
    /// Products that the plain version makes at once in a lane.
    word: i64,
    /// Set if a masked store costs no more than another one.
    pub(super) has_masks: bool,
}

impl WinogradPlan {
    /// Plans each such convolution of a group; gives none for a group with other work besides,
    /// except products that are interleaved with them.
    pub(super) fn all(group: &Group<'_>, method: Method) -> Vec<Self> {
        let function = group.function;
        let of_kind =
            |kind: OpKind| function.insts(function.body).iter().copied().filter(move |&inst| function.kind_of(inst) == kind);
        if let (Some(inst), None) = (of_kind(OpKind::Winograd).next(), of_kind(OpKind::Winograd).nth(1))
            && let (Some(dot), None) = (of_kind(OpKind::DotGeneral).next(), of_kind(OpKind::DotGeneral).nth(1))
            && group.outputs().iter().all(|&output| check_elementwise(group, function.operands(inst)[0], output).is_ok())
        {
            return Self::of(group, method, inst, dot, None).into_iter().collect();
        }
        let Some(interleaved) = Interleaved::of(function, &group.solver, function.body) else { return Vec::new() };
        let of_part = |part: &InterleavedPart| {
            let place = InterleavedProduct::of(group, &interleaved, part, 1)?;
            Self::of(group, method, part.winograd?, part.product, Some(place))
        };
        interleaved.parts.iter().filter_map(of_part).collect()
    }

    fn of(group: &Group<'_>, method: Method, inst: Inst, dot: Inst, interleaved: Option<InterleavedProduct>) -> Option<Self> {
        let function = group.function;
        let [product, input, kernel] = function.operands(inst)[..] else { return None };
        let is_input = |value: Value| group.inputs().contains(&value);
        if !is_input(input) || !is_input(kernel) {
            return None;
        }
        let (dims, shape) = (&group.tensor(product).dims, &group.tensor(input).dims);
        let packed: Vec<i64> = group.tensor(kernel).dims.iter().map(Dim::as_const).collect::<Option<_>>()?;
        let tile = tile(group.target, DType::F32);
        // Blocks for another target need not fit the registers.
        let fits = packed[3] <= i64::from(tile.rows) && tile.lanes >= 4;
        let low = function.dims(inst, "padding_low");
        fits.then_some(Self {
            method,
            dot,
            product,
            interleaved,
            input,
            kernel,
            weights: Weights::of(group, dot)?,
            low: [low[0].clone(), low[1].clone()],
            batch: dims[0].clone(),
            height: dims[2].clone(),
            width: dims[3].clone(),
            size: [shape[2].clone(), shape[3].clone()],
            channels: packed[2],
            features: dims[1].as_const()?,
            blocks: packed[0],
            rows: packed[3],
            lanes: tile.lanes,
            word: speed_up(group, dot),
            has_masks: group.target.has_mask_registers(),
        })
    }

    pub(super) fn tile_rows(&self) -> Dim {
        self.height.ceil_div(&Dim::constant(self.method.side()))
    }

    pub(super) fn tile_columns(&self) -> Dim {
        self.width.ceil_div(&Dim::constant(self.method.side()))
    }

    pub(super) fn tiles(&self) -> Dim {
        self.tiles_by(self.method)
    }

    fn tiles_by(&self, method: Method) -> Dim {
        let side = Dim::constant(method.side());
        &self.batch * self.height.ceil_div(&side) * self.width.ceil_div(&side)
    }

    /// Tiles in whole vectors: what is multiplied.
    fn multiplied(&self, method: Method) -> Dim {
        let lanes = i64::from(self.lanes);
        self.tiles_by(method).ceil_div(&Dim::constant(lanes)) * lanes
    }

    /// Estimates the cost of products and transformations, in units of which a sum takes 9 for each
    /// result and feature. A tile has 16 (36) places for each feature; transformations add an
    /// eighth (a sixth) of them, and as much as 128 (504) places for any number of features. Fitted
    /// to times of a Zen 4, for 16 to 512 features.
    fn effort(&self, method: Method) -> Dim {
        let features = self.features.min(self.channels);
        match method {
            Method::Small => self.multiplied(method) * (2 * (9 * features + 64)),
            Method::Large => self.multiplied(method) * (6 * (7 * features + 84)),
        }
    }

    /// Gives the guard of the sizes for which the method pays. Along each dimension there are some
    /// results at least: transformations take a row of tiles at a time.
    pub(super) fn guard(&self) -> Vec<Condition> {
        let results = &self.batch * &self.height * &self.width;
        let own = self.effort(self.method);
        let mut guard = vec![Less(&own * self.word, results * (9 * self.features.min(self.channels)))];
        if self.method == Method::Large {
            guard.push(Less(own, self.effort(Method::Small)));
        }
        let least = Dim::constant(self.method.fewest_results() - 1);
        guard.extend([Less(least.clone(), self.height.clone()), Less(least, self.width.clone())]);
        guard
    }

    /// The most tiles of a unit.
    pub(super) fn block_tiles(&self) -> i64 {
        2 * i64::from(self.lanes)
    }

    pub(super) fn tile_blocks(&self) -> Dim {
        self.tiles().ceil_div(&Dim::constant(self.block_tiles()))
    }

    /// Gives the tiles of a unit: as even as can be, for threads that share them, if that makes few
    /// more vectors of tiles than full blocks.
    pub(super) fn tiles_of_block(&self, kb: &mut KernelBuilder) -> Value {
        let (blocks, lanes) = (self.tile_blocks(), Dim::constant(i64::from(self.lanes)));
        let even = self.tiles().ceil_div(&blocks);
        let more = &blocks * even.ceil_div(&lanes) - self.tiles().ceil_div(&lanes);
        let [more, blocks, even] = [&(more * 4), &blocks, &even].map(|dim| kb.dim(dim));
        expr!(kb, select(more <= blocks, even, int(self.block_tiles())))
    }

    pub(super) fn chunks(&self) -> i64 {
        (self.blocks + CHUNK_BLOCKS - 1) / CHUNK_BLOCKS
    }

    /// Blocks of output features of a chunk: chunks are as even as can be.
    pub(super) fn chunk_blocks(&self) -> i64 {
        (self.blocks + self.chunks() - 1) / self.chunks()
    }

    /// Elements from one input feature's tiles to the next one's. Without cheap masks a vector of
    /// tiles is written as a whole, past the last tile. Places are not a multiple of a page apart,
    /// which would share lines of the cache.
    pub(super) fn tiles_row(&self) -> i64 {
        self.block_tiles() + if self.has_masks { 0 } else { i64::from(self.lanes) }
    }

    pub(super) fn tiles_pitch(&self) -> i64 {
        self.channels * self.tiles_row() + 16
    }

    /// Elements from one output feature's products to the next one's.
    pub(super) fn products_row(&self) -> i64 {
        self.block_tiles()
    }

    pub(super) fn products_pitch(&self) -> i64 {
        self.rows * self.products_row() + 16
    }

    /// Estimated nanoseconds: the products, and a quarter of them again for transformations.
    pub(super) fn cost(&self) -> Dim {
        let products = self.tiles() * (self.method.places() * self.channels * self.blocks * self.rows * 5 / 2);
        products.ceil_div(&Dim::constant(i64::from(self.lanes) * 5))
    }
}

/// The original kernel, as an operand of the product: its dimensions.
pub(super) struct Weights {
    pub(super) value: Value,
    pub(super) batch: usize,
    pub(super) feature: usize,
    /// Input features, and the two dimensions of a window.
    pub(super) sums: Vec<usize>,
}

impl Weights {
    /// Finds the kernel of a product that sums over the input features and the elements of a
    /// window.
    fn of(group: &Group<'_>, dot: Inst) -> Option<Self> {
        let (function, value) = (group.function, *group.function.operands(dot).first()?);
        let (batches, sums) = (function.axes(dot, "lhs_batching_dims"), function.axes(dot, "lhs_contracting_dims"));
        let mut free = (0..group.tensor(value).rank()).filter(|axis| !batches.contains(axis) && !sums.contains(axis));
        match (&batches[..], free.next(), free.next()) {
            (&[batch], Some(feature), None) if sums.len() == 3 => Some(Self { value, batch, feature, sums }),
            _ => None,
        }
    }
}

/// The least speed-up of tile registers over vectors of VNNI groups.
const REGISTER_TILES: i64 = 4;

/// Returns how many times as fast as in f32 a product is computed, if both operands are of one
/// narrow type.
fn speed_up(group: &Group<'_>, dot: Inst) -> i64 {
    let [kernel, patches] = [0, 1].map(|side| group.tensor(group.function.operands(dot)[side]).dtype);
    group.target.word_elements(patches).filter(|&elements| kernel == patches && elements == patches).map_or(1, |elements| {
        let in_tiles = group.target.register_tile(elements).map_or(1, |_| REGISTER_TILES);
        in_tiles * (DType::F32.size() / elements.size()) as i64
    })
}
