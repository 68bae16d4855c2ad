//! Lists the conditions that ops impose on sizes, beyond their types: that a slice is inside, that
//! a size is not negative.
//!
//! `infer` refuses conditions that can never hold; conditions that depend on the sizes of a call
//! are here. The interpreter checks them when an op runs, and the compiler proves them, or inserts
//! checks.
//!
//! Invariant: if every condition of an op holds, the op reads and writes inside of its tensors.
use super::{OpKind, Stages};
use crate::{
    attr::Attr,
    dim::{Dim, Solver},
    graph::{Function, Inst},
};

/// `low <= high`, for one dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    pub low: Dim,
    pub high: Dim,
    /// Demanded only if this number of elements is not 0: empty reads need nothing.
    pub count: Option<Dim>,
}

impl Demand {
    fn new(low: &Dim, high: &Dim) -> Self {
        Self { low: low.clone(), high: high.clone(), count: None }
    }

    /// Returns the expression that must not be above 0.
    pub fn excess(&self) -> Dim {
        let difference = &self.low - &self.high;
        match &self.count {
            Some(count) => Dim::min(count, &difference),
            None => difference,
        }
    }

    pub fn is_proved(&self, solver: &Solver) -> bool {
        let zero = Dim::constant(0);
        solver.less_equal(&self.low, &self.high)
            || self.count.as_ref().is_some_and(|count| solver.equal(count, &zero))
            || solver.less_equal(&self.excess(), &zero)
    }

    /// Describes the condition, such as `8 <= S`.
    pub fn describe(&self) -> String {
        match &self.count {
            Some(count) => format!("{} <= {} where {count} is not 0", self.low, self.high),
            None => format!("{} <= {}", self.low, self.high),
        }
    }
}

/// Returns the conditions of an op on tensors, without those that hold for constants.
pub fn demands(function: &Function, inst: Inst) -> Vec<Demand> {
    let asked = Asked { function, inst };
    let mut found = match function.def(inst).stages {
        Stages::Tensor | Stages::Both => asked.of_op(),
        Stages::Kernel | Stages::Only(_) => return Vec::new(),
    };
    let zero = Dim::constant(0);
    for &result in function.results_of(inst) {
        let Some(tensor) = function.ty(result).as_tensor() else { continue };
        let sizes = tensor.dims.iter().filter(|size| size.as_symbol().is_none());
        found.extend(sizes.map(|size| Demand::new(&zero, size)));
    }
    found.retain(|demand| demand.low.as_const().zip(demand.high.as_const()).is_none_or(|(low, high)| low > high));
    found
}

struct Asked<'f> {
    function: &'f Function,
    inst: Inst,
}

impl<'f> Asked<'f> {
    fn attr(&self, name: &str) -> Option<&'f Attr> {
        let data = self.function.inst(self.inst);
        data.kind.def().attr_position(name).and_then(|i| data.attrs[i].as_ref())
    }

    fn dims(&self, name: &str) -> &'f [Dim] {
        if let Some(Attr::Dims(dims)) = self.attr(name) { dims } else { &[] }
    }

    fn shape(&self, operand: usize) -> &'f [Dim] {
        let value = self.function.operands(self.inst).get(operand);
        value.and_then(|&value| self.function.ty(value).as_tensor()).map_or(&[], |tensor| &tensor.dims)
    }

    /// The number of elements of the first result.
    fn count(&self) -> Option<Dim> {
        let result = self.function.results_of(self.inst).first()?;
        Some(self.function.ty(*result).as_tensor()?.element_count())
    }

    fn of_op(&self) -> Vec<Demand> {
        let (zero, one) = (Dim::constant(0), Dim::constant(1));
        match self.function.kind_of(self.inst) {
            OpKind::Slice => {
                let bounds = self.dims("start").iter().zip(self.dims("limit")).zip(self.shape(0));
                let each = |((start, limit), size)| [(&zero, start), (start, limit), (limit, size)];
                bounds.flat_map(each).map(|(low, high)| Demand::new(low, high)).collect()
            }
            OpKind::Gather => {
                let fits = self.fits(self.dims("slice_sizes"), self.shape(0));
                fits.into_iter().map(|demand| Demand { count: self.count(), ..demand }).collect()
            }
            OpKind::DynamicSlice => self.fits(self.dims("sizes"), self.shape(0)),
            OpKind::DynamicUpdateSlice => self.fits(self.shape(1), self.shape(0)),
            OpKind::TopK => match (self.attr("k"), self.shape(0).last()) {
                (Some(Attr::Dim(k)), Some(size)) => {
                    let zero = Dim::constant(0);
                    let skip = if let Some(Attr::Dim(skip)) = self.attr("skip") { skip } else { &zero };
                    vec![Demand::new(&zero, k), Demand::new(&zero, skip), Demand::new(&(k + skip), size)]
                }
                _ => Vec::new(),
            },
            OpKind::ReduceWindow => self.dims("window_dimensions").iter().map(|size| Demand::new(&one, size)).collect(),
            OpKind::Convolution => self.groups(),
            _ => Vec::new(),
        }
    }

    fn fits(&self, sizes: &[Dim], shape: &[Dim]) -> Vec<Demand> {
        let zero = Dim::constant(0);
        let pairs = sizes.iter().zip(shape);
        pairs.flat_map(|(size, whole)| [Demand::new(&zero, size), Demand::new(size, whole)]).collect()
    }

    /// Demands that the sizes that a convolution splits into groups are multiples of their number.
    fn groups(&self) -> Vec<Demand> {
        let int = |name: &str| if let Some(Attr::Int(value)) = self.attr(name) { *value } else { 1 };
        let axis = |operand: usize, name: &str| usize::try_from(int(name)).ok().and_then(|axis| self.shape(operand).get(axis));
        let (features, batches) = (int("feature_group_count"), int("batch_group_count"));
        let made = axis(1, "kernel_output_feature_dimension");
        let split = [(made, features), (made, batches), (axis(0, "input_batch_dimension"), batches)];
        let zero = Dim::constant(0);
        let several = split.into_iter().filter(|(_, count)| *count > 1);
        several.filter_map(|(size, count)| Some(Demand::new(&size?.modulo(&Dim::constant(count)), &zero))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn open(text: &str) -> Vec<String> {
        let module = parse(text).unwrap();
        let function = &module.functions[0];
        let solver = Solver::new(&function.facts);
        let all = function.insts(function.body).iter().flat_map(|&inst| demands(function, inst));
        all.filter(|demand| !demand.is_proved(&solver)).map(|demand| demand.describe()).collect()
    }

    #[test]
    fn a_slice_demands_what_no_fact_says() {
        let slice = |facts: &str| {
            format!(
                "func @f(%x: tensor<[S]xf32>) -> tensor<[S-2]xf32> {facts} {{
                  %y = slice %x [2:S] : (tensor<[S]xf32>) -> tensor<[S-2]xf32>
                  return %y : tensor<[S-2]xf32>
                }}"
            )
        };
        assert_eq!(open(&slice("")), ["2 <= S", "0 <= S-2"]);
        assert_eq!(open(&slice("where S >= 2")), [""; 0]);
    }

    #[test]
    fn nothing_is_demanded_of_a_table_that_nothing_is_read_from() {
        let gather = |ids: &str| {
            format!(
                "func @f(%t: tensor<[V]x4xf32>, %i: tensor<{ids}xi64>) -> tensor<{ids}x4xf32> {{
                  %y = gather %t, %i, offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1, slice_sizes = [1, 4] : (tensor<[V]x4xf32>, tensor<{ids}xi64>) -> tensor<{ids}x4xf32>
                  return %y : tensor<{ids}x4xf32>
                }}"
            )
        };
        assert_eq!(open(&gather("[N]")), ["1 <= V where 4*N is not 0"]);
        assert_eq!(open(&gather("0")), [""; 0]);
        assert_eq!(open(&gather("3")).len(), 1);
    }
}
