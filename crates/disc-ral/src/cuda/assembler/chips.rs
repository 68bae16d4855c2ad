//! Knows which chips a version of CUDA's tools makes code for.
use super::Version;

/// Returns true if CUDA's tools of a version make code for a chip such as `sm_90` or `sm_90a`.
///
/// All of disc's PTX needs CUDA 12: it has version 8.0 at least.
pub(super) fn has_chip(version: Version, chip: &str) -> bool {
    let Some(number) = chip.strip_prefix("sm_") else { return false };
    let (number, is_specific) = number.strip_suffix('a').map_or((number, false), |number| (number, true));
    let Ok(sm) = number.parse::<u32>() else { return false };
    let known = |major, minor| version >= Version { major, minor };
    match sm {
        70 | 72 => known(12, 0) && !known(13, 0) && !is_specific,
        75 | 80 | 86 | 87 | 89 => known(12, 0) && !is_specific,
        90 => known(12, 0),
        100 | 120 => known(12, 8),
        // CUDA 13 has another name for it: sm_110.
        101 => known(12, 8) && !known(13, 0),
        103 | 121 => known(12, 9),
        110 => known(13, 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the chips of a version, as `ptxas --list-arch` names them.
    fn chips(major: u32, minor: u32) -> Vec<String> {
        let all = (0..200).flat_map(|sm| ["", "a"].map(|suffix| format!("sm_{sm}{suffix}")));
        all.filter(|chip| has_chip(Version { major, minor }, chip)).collect()
    }

    #[test]
    fn chips_come_and_go_with_versions() {
        let volta_to_hopper = ["sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_90a"];
        assert!(chips(11, 8).is_empty());
        assert_eq!(chips(12, 0), volta_to_hopper);
        let blackwell = ["sm_100", "sm_100a", "sm_101", "sm_101a", "sm_120", "sm_120a"];
        assert_eq!(chips(12, 8), [&volta_to_hopper[..], &blackwell].concat());
        let later = ["sm_100", "sm_100a", "sm_103", "sm_103a", "sm_110", "sm_110a", "sm_120", "sm_120a", "sm_121", "sm_121a"];
        assert_eq!(chips(13, 0), [&volta_to_hopper[2..], &later].concat());
    }

    #[test]
    fn what_is_no_chip_is_unknown() {
        let version = Version { major: 13, minor: 0 };
        assert!(["", "sm_", "90", "sm_90b", "gfx942", "sm_-90"].iter().all(|chip| !has_chip(version, chip)));
    }
}
