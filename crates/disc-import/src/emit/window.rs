//! Emits ops with windows: `reduce_window` and `convolution`.
use super::Emitter;
use disc_ir::{Attr, DType, Diagnostic, Dim, OpKind, Value};

/// The windows of a reduction: one entry per axis.
#[derive(Clone, Debug)]
pub struct Window {
    pub sizes: Vec<Dim>,
    pub strides: Vec<i64>,
    pub dilations: Vec<i64>,
    /// Elements that change nothing, before and after; at least 0.
    pub padding: Vec<(Dim, Dim)>,
}

/// The form of a convolution: one entry per spatial axis.
#[derive(Clone, Debug)]
pub struct Convolution {
    pub strides: Vec<i64>,
    /// Zeros before and after.
    pub padding: Vec<(Dim, Dim)>,
    /// The distance of the elements of `x`, and of those of `w`.
    pub dilations: (Vec<i64>, Vec<i64>),
    pub groups: i64,
    /// The type of the result, if it is not that of the operands.
    pub dtype: Option<DType>,
}

impl Emitter<'_> {
    /// Combines the elements of each window by `how`.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn reduce_window(&self, x: Value, how: OpKind, window: &Window) -> Result<Value, Diagnostic> {
        let mut attrs =
            vec![("window_dimensions", Attr::Dims(window.sizes.clone())), ("window_strides", Attr::Ints(window.strides.clone()))];
        if window.dilations.iter().any(|&dilation| dilation != 1) {
            attrs.push(("window_dilations", Attr::Ints(window.dilations.clone())));
        }
        if window.padding.iter().any(|(low, high)| !low.is_const(0) || !high.is_const(0)) {
            let (low, high) = window.padding.iter().cloned().unzip();
            attrs.extend([("padding_low", Attr::Dims(low)), ("padding_high", Attr::Dims(high))]);
        }
        let dtype = self.dtype(x);
        let init = self.neutral(how, dtype)?;
        self.combine(OpKind::ReduceWindow, &[x, init], how, dtype, attrs)
    }

    /// Convolves `x`, `[N, C, spatial..]`, by `w`, `[O, C / groups, spatial..]`.
    ///
    /// # Errors
    /// The op's violated constraint.
    pub fn convolution(&self, x: Value, w: Value, form: &Convolution) -> Result<Value, Diagnostic> {
        let spatial: Vec<i64> = (2..self.rank(w) as i64).collect();
        let (low, high) = form.padding.iter().cloned().unzip();
        let mut attrs = vec![
            ("input_batch_dimension", Attr::Int(0)),
            ("input_feature_dimension", Attr::Int(1)),
            ("input_spatial_dimensions", Attr::Ints(spatial.clone())),
            ("kernel_output_feature_dimension", Attr::Int(0)),
            ("kernel_input_feature_dimension", Attr::Int(1)),
            ("kernel_spatial_dimensions", Attr::Ints(spatial.clone())),
            ("output_batch_dimension", Attr::Int(0)),
            ("output_feature_dimension", Attr::Int(1)),
            ("output_spatial_dimensions", Attr::Ints(spatial)),
            ("window_strides", Attr::Ints(form.strides.clone())),
            ("padding_low", Attr::Dims(low)),
            ("padding_high", Attr::Dims(high)),
            ("lhs_dilation", Attr::Ints(form.dilations.0.clone())),
            ("rhs_dilation", Attr::Ints(form.dilations.1.clone())),
            ("feature_group_count", Attr::Int(form.groups)),
        ];
        if let Some(dtype) = form.dtype.filter(|&dtype| dtype != self.dtype(x)) {
            attrs.push(("dtype", Attr::DType(dtype)));
        }
        self.request(OpKind::Convolution, &[x, w], |r| attrs.into_iter().fold(r, |r, (name, attr)| r.attr(name, attr)))
    }
}
