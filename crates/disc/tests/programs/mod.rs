//! Programs that several test binaries compile.

/// The softmax of each row.
pub(crate) const SOFTMAX: &str = "
func @main(%x: tensor<[B]x[S]xf32>) -> tensor<[B]x[S]xf32> {
  %z = constant dense<0.0> : tensor<f32>
  %l = constant dense<-inf> : tensor<f32>
  %t = reduce %x, %l, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies maximum
  %tb = broadcast_in_dim %t, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %d = subtract %x, %tb : tensor<[B]x[S]xf32>
  %e = exponential %d : tensor<[B]x[S]xf32>
  %s = reduce %e, %z, dims = [1] : (tensor<[B]x[S]xf32>, tensor<f32>) -> tensor<[B]xf32> applies add
  %sb = broadcast_in_dim %s, dims = [0] : (tensor<[B]xf32>) -> tensor<[B]x[S]xf32>
  %o = divide %e, %sb : tensor<[B]x[S]xf32>
  return %o : tensor<[B]x[S]xf32>
}";
