//! Names element types as the protocol does.

use disc_ral::DType;

const NAMES: [(DType, &str); 13] = [
    (DType::F16, "FP16"),
    (DType::BF16, "BF16"),
    (DType::F32, "FP32"),
    (DType::F64, "FP64"),
    (DType::I1, "BOOL"),
    (DType::I8, "INT8"),
    (DType::U8, "UINT8"),
    (DType::I16, "INT16"),
    (DType::U16, "UINT16"),
    (DType::I32, "INT32"),
    (DType::U32, "UINT32"),
    (DType::I64, "INT64"),
    (DType::U64, "UINT64"),
];

pub(crate) fn name(dtype: DType) -> &'static str {
    NAMES.iter().find(|(known, _)| *known == dtype).map_or("", |(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_element_type_has_a_name_of_its_own() {
        let mut names: Vec<&str> = DType::ALL.into_iter().map(name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), DType::ALL.len());
        assert!(!names.contains(&""));
    }
}
