//! Lists the kinds of versions, each with the file that declares it.
//!
//! A schedule declares its versions with [`versions!`]: the kernels of each, the sizes that it runs
//! for, and its unit of work. docs/schedules.md shows these in the order of the list; a test
//! compares them.
//!
//! Invariant: a kind is listed once, and no version has a kind that is not listed.

/// The declaration of a kind of version.
#[derive(Clone, Copy, Debug)]
pub struct VersionDef {
    pub kind: VersionKind,
    pub name: &'static str,
    /// The description in one line.
    pub doc: &'static str,
    /// Its kernels, as `disc bench` names them: `kN` stands for the group's number.
    pub kernels: &'static str,
    /// Its guard in words.
    pub sizes: &'static str,
    /// Its unit of work; empty where that is the one of the code without it.
    pub unit: &'static str,
}

/// Declares versions beside their schedule.
macro_rules! versions {
    ($( $(#[doc = $doc:literal])+ $Kind:ident { kernels: $kernels:literal, sizes: $sizes:literal, unit: $unit:literal, } )+) => { $(
        $(#[doc = $doc])+
        #[allow(non_upper_case_globals, reason = "named as the kind, so that the table can list both")]
        pub(in crate::schedule) const $Kind: crate::schedule::VersionDef = crate::schedule::VersionDef {
            kind: crate::schedule::VersionKind::$Kind,
            name: stringify!($Kind),
            doc: concat!($($doc),+),
            kernels: $kernels,
            sizes: $sizes,
            unit: $unit,
        };
    )+ };
}

/// Lists the kinds: makes [`VersionKind`] and the table.
macro_rules! version_table {
    ($( $Kind:ident = $($module:ident)::+; )+) => {
        /// The kind of a version. crates/disc/tests/it/version_cases.rs runs each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum VersionKind { $( $Kind, )+ }

        /// Every kind.
        pub static VERSIONS: &[VersionDef] = &[$( super::$($module)::+::$Kind ),+];

        impl VersionKind {
            /// Every kind.
            pub const ALL: &[Self] = &[$( Self::$Kind ),+];
        }
    };
}

version_table! {
    SplitRows = cpu::reduction::split;
    SplitPhases = cpu::reduction::phases;
    RowsInLanes = cpu::reduction;
    MultiRow = cpu::reduction;
    ShortRows = common::short_rows;
    Tables = common::hoisted_tables;
    Decode = cpu::attention::decode;
    AttentionTiles = cpu::attention::register_tiles;
    Winograd = cpu::winograd::method;
    WinogradSmall = cpu::winograd::method;
    SplitK = cpu::matmul::split_k;
    Keys = cpu::standalone::sort;
    ScanTiles = cpu::standalone::scan;
    Nontemporal = common::nontemporal;
    GridTiles = gpu::transpose;
    GridVectors = gpu::pointwise;
    GridElements = gpu::pointwise;
    GridSplit = gpu::rows::split;
    ThreadRows = gpu::rows;
    SubwarpRows = gpu::rows;
    WarpRowVectors = gpu::rows;
    WarpRows = gpu::rows;
    BlockRowVectors = gpu::rows;
    BlockRows = gpu::rows;
    GridMatmuls = gpu::matmul;
    GridAttentionFew = gpu::attention;
    GridAttentionHeads = gpu::attention;
    GridAttention = gpu::attention;
    ThreadScans = gpu::scan;
    WarpScans = gpu::scan;
    BlockScans = gpu::scan;
    WarpSorts = gpu::ordered;
    BlockSorts = gpu::ordered;
    PartSorts = gpu::ordered;
    DeviceSorts = gpu::ordered;
    RowVectors = gpu::matmul::few_rows;
    FewRowVectors = gpu::matmul::few_rows;
    FewRows = gpu::matmul::few_rows;
    LargeMmaTiles = gpu::matmul::mma;
    MmaTiles = gpu::matmul::mma;
    MmaAttention = gpu::attention::mma;
    SplitPositions = gpu::nonzero;
    BlockPositions = gpu::nonzero;
}

impl VersionKind {
    /// Returns the declaration.
    pub fn def(self) -> &'static VersionDef {
        &VERSIONS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = include_str!("../../../../docs/schedules.md");

    /// Renders the table of docs/schedules.md.
    fn docs() -> String {
        let row = |def: &VersionDef| format!("| {} | {} | {} |\n", def.kernels, def.sizes, def.unit);
        format!("| kernels | runs for | unit of work |\n|---|---|---|\n{}", VERSIONS.iter().map(row).collect::<String>())
    }

    #[test]
    fn the_page_has_the_table() {
        let table = docs();
        assert!(PAGE.contains(&table), "docs/schedules.md, section `Versions of a group`, has to be:\n{table}");
    }

    #[test]
    fn the_table_is_in_the_order_of_the_kinds() {
        for (i, def) in VERSIONS.iter().enumerate() {
            assert_eq!(def.kind as usize, i, "{}", def.name);
            assert_eq!(def.name, format!("{:?}", def.kind));
        }
    }

    #[test]
    fn every_kind_has_kernels_and_a_guard_of_its_own() {
        for column in [|def: &VersionDef| def.kernels, |def: &VersionDef| def.sizes] {
            let mut cells: Vec<&str> = VERSIONS.iter().map(column).collect();
            cells.sort_unstable();
            assert!(cells.windows(2).all(|pair| pair[0] != pair[1]), "{cells:?}");
        }
    }
}
