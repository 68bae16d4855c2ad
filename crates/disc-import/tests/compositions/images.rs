//! Lists the recipes of images: windows, resizing, padding.
use super::{
    Given::{Absent, Number, Tensor as T},
    Recipe, dims, ints, recipe, sizes,
};
use disc_ir::Attr;

pub(super) fn images() -> Vec<Recipe> {
    let dilated = |kernel, ceil| [pool(kernel, ceil), vec![("dilations", ints(&[1, 2]))]].concat();
    let counted = |kernel, ceil, counts| [pool(kernel, ceil), vec![("count_padding", Attr::Bool(counts))]].concat();
    let transposed = [filters(2), vec![("output_padding", sizes(&[1]))]].concat();
    let image = [vec![("sizes", sizes(&[5, 4]))], window(&[2, 2])].concat();
    vec![
        recipe("adaptive_max_pool", &[T("N 5 6")], &[("sizes", sizes(&[2, 3]))]),
        recipe("adaptive_pool", &[T("N 5 6")], &[("sizes", sizes(&[3, 1])), ("how", Attr::Enum("mean"))]),
        recipe("adaptive_pool", &[T("N 5")], &[("sizes", sizes(&[2])), ("how", Attr::Enum("maximum"))]),
        recipe("columns_to_image", &[T("N 8 18")], &image),
        recipe("image_to_columns", &[T("N 3 S 4")], &window(&[2, 3])),
        recipe("convolution", &[T("N 4 S"), T("6 2 2"), T("6")], &filters(2)),
        recipe("convolution", &[T("4 S"), T("6 4 1"), Absent], &filters(1)),
        recipe("transposed_convolution", &[T("N 4 3"), T("4 3 2"), T("6")], &transposed),
        recipe("average_pool", &[T("N 3 4 S")], &counted(&[2, 2], false, true)),
        recipe("average_pool", &[T("N 6 6")], &counted(&[3, 2], true, false)),
        recipe("average_pool", &[T("N 6 6")], &counted(&[3, 3], true, true)),
        recipe("max_pool", &[T("N 3 S 4")], &dilated(&[2, 2], false)),
        recipe("max_pool", &[T("N 6 5")], &dilated(&[3, 2], true)),
        recipe("max_pool_places", &[T("N 6 5")], &dilated(&[2, 2], false)),
        recipe("resize_cubic", &[T("N S+1 3")], &resize(&["2*S+3", "5"], "half_pixel")),
        recipe(
            "resize_cubic",
            &[T("N 4"), Number(1.5)],
            &[resize(&["6"], "asymmetric"), vec![("coefficient", Attr::Float(-0.5))]].concat(),
        ),
        recipe("resize_linear", &[T("N S+1 3"), Absent, Number(2.0)], &resize(&["S+2", "6"], "half_pixel")),
        recipe("resize_linear", &[T("N S+1 3")], &resize(&["1", "7"], "align_corners")),
        recipe("resize_linear", &[T("N 5"), Number(1.5)], &resize(&["7"], "centers")),
        recipe("resize_nearest", &[T("N S+1 3"), Absent, Number(3.0)], &nearest(&["S+2", "9"], "asymmetric", "floor")),
        recipe("resize_nearest", &[T("N S+1 3")], &nearest(&["2*S+2", "5"], "half_pixel", "half_down")),
        recipe("resize_nearest", &[T("N 4 3")], &nearest(&["5", "2"], "centers", "ceil")),
        recipe("resize_nearest", &[T("N 4 3")], &nearest(&["5", "2"], "align_corners", "half_up")),
        recipe("affine_grid", &[T("N 2 3")], &[("sizes", dims(&["S", "4"])), ("align_corners", Attr::Bool(true))]),
        recipe("affine_grid", &[T("N 3 4")], &[("sizes", dims(&["2", "S", "3"])), ("align_corners", Attr::Bool(false))]),
        recipe("grid_sample", &[T("N 3 S+1 4"), T("N 2 3 2")], &sampled("linear", "zeros", false)),
        recipe("grid_sample", &[T("N 9 3 4"), T("N S 3 2")], &sampled("linear", "reflection", true)),
        recipe("grid_sample", &[T("N 2 3 4"), T("N S 3 2")], &sampled("cubic", "border", false)),
        recipe("grid_sample", &[T("N 2 9 8"), T("N S 3 2")], &sampled("nearest", "border", true)),
        recipe("pad", &[T("N S+2 3")], &edges("reflect")),
        recipe("pad", &[T("N S+1 4")], &edges("replicate")),
        recipe("pad", &[T("N S+2 4")], &edges("circular")),
    ]
}

/// A window over two axes.
fn window(kernel: &[i64]) -> Vec<(&'static str, Attr)> {
    vec![("kernel", ints(kernel)), ("strides", ints(&[2, 1])), ("padding", ints(&[1, 2])), ("dilations", ints(&[1, 2]))]
}

/// The form of a convolution over one axis.
fn filters(groups: i64) -> Vec<(&'static str, Attr)> {
    let edges = [("padding_low", sizes(&[2])), ("padding_high", sizes(&[3]))];
    let form = [("strides", ints(&[2])), ("dilations", ints(&[2])), ("groups", Attr::Int(groups))];
    edges.into_iter().chain(form).collect()
}

/// The windows of a pool over two axes.
fn pool(kernel: &[i64], ceil: bool) -> Vec<(&'static str, Attr)> {
    let edges = [("padding_low", ints(&[1, 1])), ("padding_high", ints(&[1, 1]))];
    let form = [("kernel", ints(kernel)), ("strides", ints(&[2, 3])), ("ceil", Attr::Bool(ceil))];
    edges.into_iter().chain(form).collect()
}

/// Amounts of padding, of which two crop.
fn edges(edge: &'static str) -> Vec<(&'static str, Attr)> {
    vec![("low", sizes(&[0, 1, -1])), ("high", sizes(&[0, -1, 2])), ("edge", Attr::Enum(edge))]
}

fn resize(sizes: &[&str], coordinates: &'static str) -> Vec<(&'static str, Attr)> {
    vec![("sizes", dims(sizes)), ("coordinates", Attr::Enum(coordinates))]
}

fn nearest(sizes: &[&str], coordinates: &'static str, rounding: &'static str) -> Vec<(&'static str, Attr)> {
    [resize(sizes, coordinates), vec![("rounding", Attr::Enum(rounding)), ("exact", ints(&[1, 2]))]].concat()
}

fn sampled(interpolation: &'static str, beyond: &'static str, align_corners: bool) -> Vec<(&'static str, Attr)> {
    vec![
        ("interpolation", Attr::Enum(interpolation)),
        ("beyond", Attr::Enum(beyond)),
        ("align_corners", Attr::Bool(align_corners)),
    ]
}
