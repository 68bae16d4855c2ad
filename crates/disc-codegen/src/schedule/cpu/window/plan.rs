//! Plans the window schedule of a convolution in groups or a pooling, from its attributes and
//! shapes.
//!
//! Not every window fits: those of unknown or many elements, of dilated inputs, and of other
//! layouts than NCHW are computed element by element.
use crate::{
    kernel::{accumulator_dtype, compute_dtype},
    schedule::Group,
    target::CpuModel,
};
use disc_ir::{Block, DType, Dim, Inst, OpKind, Value};
use disc_passes::analysis::{depthwise::walks_planes, query::Query};

/// The most input features of a group whose planes fit the cache together.
const MOST_CHANNELS: i64 = 16;
/// The results of a row that one unit computes.
pub(super) const UNIT_COLUMNS: i64 = 1024;
/// The rows of results that are computed at once.
const BLOCK_ROWS: i64 = 4;

/// The way that windows slide along one dimension.
pub(super) struct Slide {
    /// The numbers of elements of the input, and of windows.
    pub(super) size: Dim,
    pub(super) count: Dim,
    pub(super) taps: i64,
    pub(super) step: i64,
    pub(super) dilation: i64,
    pub(super) low: Dim,
}

/// The operation on the elements of a window.
pub(super) enum Form {
    /// They are multiplied by those of a kernel. `axes` are those of the kernel: output features,
    /// input features, then the spatial ones; those run backwards that are `reversed`.
    Products { kernel: Value, axes: Vec<usize>, reversed: Vec<bool>, groups: i64, channels: i64, features: Dim },
    /// They are combined, starting from a value.
    Fold { body: Block, init: Value },
}

pub(super) struct WindowPlan {
    pub(super) inst: Inst,
    pub(super) input: Value,
    pub(super) form: Form,
    pub(super) compute: DType,
    pub(super) lanes: u32,
    /// The slides, from the outermost dimension that windows slide along: one to three.
    pub(super) slides: Vec<Slide>,
    /// The number of dimensions of the result before those.
    pub(super) lead: usize,
    /// The rows, and vectors of each, that are computed at once.
    pub(super) block: [i64; 2],
    /// A flag that is true if the kernel stays in registers, and each vector of the input is read
    /// once for all rows.
    pub(super) holds_kernel: bool,
    /// A flag that is true if a unit is a whole plane, whose results may be in the memory of the
    /// input.
    pub(super) walks: bool,
}

impl WindowPlan {
    /// Plans the one op on windows of a group, or returns the reason why it has no plan.
    pub(super) fn of(group: &Group<'_>) -> Result<Self, String> {
        let function = group.function;
        let is_window = |&inst: &Inst| matches!(function.kind_of(inst), OpKind::Convolution | OpKind::ReduceWindow);
        let mut found = function.insts(function.body).iter().copied().filter(is_window);
        let (Some(inst), None) = (found.next(), found.next()) else { return Err("the group has not one op on windows".into()) };
        let mut plan = match function.kind_of(inst) {
            OpKind::Convolution => Self::of_convolution(group, inst)?,
            _ => Self::of_pooling(group, inst)?,
        };
        let taps: i64 = plan.slides.iter().map(|slide| slide.taps).product();
        if !(1..=CpuModel::MOST_TAPS).contains(&taps) {
            return Err(format!("windows of {taps} elements"));
        }
        plan.lanes = group.target.lanes(plan.compute.bits());
        plan.choose_block(group, taps);
        let model = CpuModel::of(group.target).expect("a schedule of CPUs");
        plan.walks = walks_planes(function, &group.solver, function.body, inst, &model);
        Ok(plan)
    }

    fn choose_block(&mut self, group: &Group<'_>, taps: i64) {
        let many = group.target.vector_registers() > 16;
        let held = if many { 16 } else { 9 };
        let alone = !matches!(&self.form, Form::Products { channels, .. } if *channels > 1);
        self.holds_kernel = alone && (taps <= held || matches!(self.form, Form::Fold { .. }));
        let rows = match &self.slides[..] {
            [.., rows, _] => rows.count.as_const().unwrap_or(BLOCK_ROWS).clamp(1, BLOCK_ROWS),
            _ => 1,
        };
        let vectors = if self.holds_kernel { BLOCK_ROWS / rows } else { 2 * BLOCK_ROWS / rows };
        self.block = [rows, vectors.max(1)];
    }

    fn of_convolution(group: &Group<'_>, inst: Inst) -> Result<Self, String> {
        let function = group.function;
        let [input, kernel] = function.operands(inst)[..] else { return Err("a convolution has two operands".into()) };
        let number = |name: &str| function.int(inst, name) as usize;
        let rank = group.tensor(input).rank();
        let order = |side: &str| -> Vec<usize> {
            let first = ["batch", "feature"].map(|role| number(&format!("{side}_{role}_dimension")));
            first.into_iter().chain(function.axes(inst, &format!("{side}_spatial_dimensions"))).collect()
        };
        let straight: Vec<usize> = (0..rank).collect();
        let plain = order("input") == straight && order("output") == straight && function.int(inst, "batch_group_count") <= 1;
        let result = group.tensor(function.result(inst));
        let compute = accumulator_dtype(result.dtype);
        if !plain || !compute.is_float() {
            return Err("another layout, or integers".into());
        }
        let roles = ["kernel_output_feature_dimension", "kernel_input_feature_dimension"];
        let axes: Vec<usize> = roles.map(number).into_iter().chain(function.axes(inst, "kernel_spatial_dimensions")).collect();
        let (sizes, shape) = (&group.tensor(kernel).dims, &group.tensor(input).dims);
        let groups = function.int(inst, "feature_group_count").max(1);
        let channels = sizes[axes[1]].as_const().filter(|channels| (1..=MOST_CHANNELS).contains(channels));
        let channels = channels.ok_or("many input features in a group")?;
        let flags = function.ints(inst, "window_reversal");
        let form = Form::Products {
            kernel,
            reversed: (0..rank - 2).map(|i| flags.get(i).is_some_and(|&flag| flag != 0)).collect(),
            groups,
            channels,
            features: sizes[axes[0]].floor_div(&Dim::constant(groups)),
            axes: axes.clone(),
        };
        let windows: Vec<Dim> = axes[2..].iter().map(|&axis| sizes[axis].clone()).collect();
        let slides = slides(group, inst, &shape[2..], &windows, &result.dims[2..], ["lhs_dilation", "rhs_dilation"])?;
        Self::with(inst, input, form, compute, slides, 2)
    }

    fn of_pooling(group: &Group<'_>, inst: Inst) -> Result<Self, String> {
        let function = group.function;
        let [input, init] = function.operands(inst)[..] else { return Err("several tensors are pooled".into()) };
        let (shape, result) = (&group.tensor(input).dims, group.tensor(function.result(inst)));
        let compute = compute_dtype(result.dtype);
        if compute.size() < 4 {
            return Err("a narrow type".into());
        }
        let windows = function.dims(inst, "window_dimensions").to_vec();
        let all = slides(group, inst, shape, &windows, &result.dims, ["base_dilations", "window_dilations"])?;
        let is_still = |slide: &Slide| slide.taps == 1 && slide.step == 1 && slide.low.is_const(0) && slide.size == slide.count;
        let lead = all.iter().take_while(|slide| is_still(slide)).count().min(all.len().saturating_sub(1));
        let slides: Vec<Slide> = all.into_iter().skip(lead).collect();
        let form = Form::Fold { body: function.inst(inst).regions[0], init };
        Self::with(inst, input, form, compute, slides, lead)
    }

    fn with(inst: Inst, input: Value, form: Form, compute: DType, slides: Vec<Slide>, lead: usize) -> Result<Self, String> {
        if !(1..=3).contains(&slides.len()) {
            return Err(format!("windows over {} dimensions", slides.len()));
        }
        Ok(Self { inst, input, form, compute, lanes: 1, slides, lead, block: [1, 1], holds_kernel: false, walks: false })
    }

    pub(super) fn columns(&self) -> &Slide {
        self.slides.last().expect("windows slide along a dimension")
    }

    pub(super) fn rows(&self) -> Option<&Slide> {
        self.slides.len().checked_sub(2).map(|i| &self.slides[i])
    }

    pub(super) fn layers(&self) -> Option<&Slide> {
        self.slides.len().checked_sub(3).map(|i| &self.slides[i])
    }

    /// The rows of the input that the rows of a unit read, in one plane of it.
    pub(super) fn held_rows(&self) -> i64 {
        self.rows().map_or(1, |rows| rows_read(rows, CpuModel::UNIT_ROWS))
    }

    /// The rows of the input above the row of a result that it depends on, if a unit walks a plane.
    pub(super) fn rows_above(&self) -> i64 {
        self.rows().and_then(|rows| rows.low.as_const()).expect("a walk knows the rows above")
    }

    /// The planes in task memory: those of all layers of a window, for each input feature of a
    /// group.
    pub(super) fn held_planes(&self) -> i64 {
        let layers = self.layers().map_or(1, |layers| layers.taps);
        match &self.form {
            Form::Products { channels, .. } => channels * layers,
            Form::Fold { .. } => layers,
        }
    }

    /// The elements of one phase of a row in task memory: those that windows read whose numbers
    /// have one remainder by the step.
    pub(super) fn phase(&self) -> Dim {
        let (columns, lanes) = (self.columns(), i64::from(self.lanes));
        let at_once = if self.walks { columns.count.clone() } else { Dim::min(&columns.count, &Dim::constant(UNIT_COLUMNS)) };
        let wide = at_once.ceil_div(&Dim::constant(lanes)) * lanes;
        let reach = (columns.taps - 1) * columns.dilation / columns.step;
        (wide + reach).ceil_div(&Dim::constant(lanes)) * lanes
    }
}

/// The rows that `count` neighbouring windows read.
pub(super) fn rows_read(rows: &Slide, count: i64) -> i64 {
    (count - 1) * rows.step + (rows.taps - 1) * rows.dilation + 1
}

/// The slides of windows of constant sizes over an input that is not dilated.
fn slides(
    group: &Group<'_>,
    inst: Inst,
    shape: &[Dim],
    windows: &[Dim],
    counts: &[Dim],
    [spread, dilations]: [&str; 2],
) -> Result<Vec<Slide>, String> {
    let function = group.function;
    if function.ints(inst, spread).iter().any(|&factor| factor != 1) {
        return Err("the input is spread".into());
    }
    let listed = |name: &str, i: usize| function.ints(inst, name).get(i).copied().unwrap_or(1);
    let slide = |i: usize| {
        let taps = windows[i].as_const().ok_or("windows of unknown size")?;
        let low = function.dims(inst, "padding_low").get(i).cloned().unwrap_or(Dim::constant(0));
        let (step, dilation) = (listed("window_strides", i), listed(dilations, i));
        Ok(Slide { size: shape[i].clone(), count: counts[i].clone(), taps, step, dilation, low })
    };
    (0..shape.len()).map(slide).collect()
}
