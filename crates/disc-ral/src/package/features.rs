//! Asks this processor for features by name, and picks the best code of a package that a device and
//! this processor can run.

use super::{
    fault,
    manifest::{MANIFEST, Manifest, TargetInfo},
};
use crate::{
    device::Device,
    error::{Error, code},
};
use disc_abi::DEVICE_CPU;
use std::collections::BTreeSet;

/// Returns true if this processor and operating system have a feature, in the words of
/// `std::arch`. An unknown one is not there.
#[cfg(target_arch = "x86_64")]
fn has_feature(name: &str) -> bool {
    disc_abi::has_x86_feature!(name)
}

#[cfg(target_arch = "aarch64")]
fn has_feature(name: &str) -> bool {
    disc_abi::has_aarch64_feature!(name)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn has_feature(_: &str) -> bool {
    false
}

impl TargetInfo {
    /// Returns true if this processor can run the code; of that for a device, the host program.
    pub fn runs_here(&self) -> bool {
        self.missing().is_some_and(|missing| missing.is_empty())
    }

    /// Returns the features that this processor lacks; `None` if it is of another architecture.
    fn missing(&self) -> Option<Vec<&str>> {
        let features = self.features.iter().map(String::as_str);
        (self.arch == std::env::consts::ARCH).then(|| features.filter(|name| !has_feature(name)).collect())
    }

    /// Returns true if a name stands for this target: its own, that of its device, that of its
    /// processor, or the level of that one.
    fn is_named(&self, asked: &str) -> bool {
        let processor = self.name.rsplit(' ').next().unwrap_or_default();
        let level = processor.split('+').next().unwrap_or_default();
        [processor, level].contains(&asked) || self.device.as_deref() == Some(asked) || self.is_spelled(asked)
    }

    /// Returns true if a name is that of this target, with its extensions in any order, and with or
    /// without those that others need.
    fn is_spelled(&self, asked: &str) -> bool {
        let same = |ours: &str, asked: &str| parts(ours) == parts(asked);
        match (self.name.rsplit_once(' '), asked.rsplit_once(' ')) {
            (None, None) => same(&self.name, asked),
            (Some((ours, processor)), Some((device, asked))) => ours == device && same(processor, asked),
            _ => false,
        }
    }

    /// Returns the reason why this processor cannot run the code.
    fn refusal(&self) -> Option<String> {
        match self.missing() {
            None => Some(format!("is for {}", self.arch)),
            Some(missing) if !missing.is_empty() => Some(format!("needs {}, which it lacks", missing.join(", "))),
            Some(_) => None,
        }
    }
}

/// Splits the name of a target for a processor into its level and its extensions, with those that
/// they need.
fn parts(name: &str) -> BTreeSet<&str> {
    let with_needed = |part| std::iter::successors(Some(part), |part: &&str| disc_abi::needed_aarch64_feature(part));
    name.split('+').flat_map(with_needed).collect()
}

/// Returns every target of a package, those of processors first.
fn all(manifest: &Manifest) -> impl Iterator<Item = &TargetInfo> {
    manifest.targets.iter().chain(&manifest.device_targets)
}

fn names(manifest: &Manifest) -> String {
    all(manifest).map(|target| format!("`{}`", target.name)).collect::<Vec<_>>().join(", ")
}

/// Describes this processor by what it lacks for the code of some targets.
fn lacking(targets: &[(u32, &TargetInfo)]) -> String {
    let reason = |target: &TargetInfo| Some(format!("`{}` {}", target.name, target.refusal()?));
    let reasons: Vec<String> = targets.iter().filter_map(|(_, target)| reason(target)).collect();
    format!("this processor is {}: {}", std::env::consts::ARCH, reasons.join("; "))
}

fn refused(message: String) -> Error {
    Error::new(code::PACKAGE_TARGET, "", message)
}

/// Picks the code to run on a device: of that which the name `asked` stands for, else of all, that
/// which suits the device best, and of equals the one that needs the most features of those that
/// this processor has.
///
/// # Errors
/// No such code, or none that can run here; the message names what the package has.
pub(super) fn pick<'m>(manifest: &'m Manifest, device: &dyn Device, asked: Option<&str>) -> Result<&'m TargetInfo, Error> {
    if all(manifest).next().is_none() {
        return Err(fault(MANIFEST, "the package has code for no target"));
    }
    let is_cpu = device.kind() == DEVICE_CPU;
    let targets = if is_cpu { &manifest.targets } else { &manifest.device_targets };
    let suits = |target: &TargetInfo| target.device.as_ref().map_or(Some(0), |chip| device.suits(chip));
    let named = |target: &&TargetInfo| match asked {
        // Of several processors of one level, the exact name is that of one.
        Some(asked) if targets.iter().any(|target| target.is_spelled(asked)) => target.is_spelled(asked),
        Some(asked) => target.is_named(asked),
        None => true,
    };
    let suiting: Vec<(u32, &TargetInfo)> = targets.iter().filter(named).filter_map(|t| Some((suits(t)?, t))).collect();
    let running = suiting.iter().filter(|(_, target)| target.runs_here());
    if let Some((_, best)) = running.max_by_key(|(rank, target)| (*rank, target.features.len())) {
        return Ok(best);
    }
    let of = asked.map(|asked| format!(" for `{asked}`")).unwrap_or_default();
    let on = match (is_cpu, device.chip()) {
        (true, _) => String::new(),
        (false, Some(chip)) => format!(" on the device `{}` ({chip})", device.name()),
        (false, None) => format!(" on the device `{}`", device.name()),
    };
    let has = names(manifest);
    Err(refused(match &suiting[..] {
        [] if is_cpu && asked.is_some_and(|asked| manifest.device_targets.iter().any(|target| target.is_named(asked))) => {
            format!("code{of} runs on a device of its own, not on `cpu`: the package has {has}")
        }
        [] if asked.is_some() => format!("the package has no code{of}{on}: it has {has}"),
        [] if !is_cpu => format!("the package has no code that runs{on}: it has {has}"),
        [] => format!("no code of the package runs on this processor: the package has {has}"),
        _ if is_cpu => format!("no code{of} of the package runs on this processor: the package has {has}; {}", lacking(&suiting)),
        _ => format!("no code{of} of the package runs{on} with this processor: the package has {has}; {}", lacking(&suiting)),
    }))
}

/// Returns the target that stands for a package whose device is not known yet: the one that
/// processors run, or if there is none, or another one is `asked` for, one of a device.
///
/// # Errors
/// As [`pick`].
pub(super) fn described<'m>(manifest: &'m Manifest, host: &dyn Device, asked: Option<&str>) -> Result<&'m TargetInfo, Error> {
    let picked = pick(manifest, host, asked);
    if picked.is_ok() {
        return picked;
    }
    let is_other = |target: &&TargetInfo| match asked {
        Some(asked) => target.device.as_deref() == Some(asked) || target.is_spelled(asked),
        None => manifest.targets.is_empty(),
    };
    manifest.device_targets.iter().find(is_other).map_or(picked, Ok)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        device::Queue,
        error::AllocError,
        package::manifest::{EntryInfo, FORMAT_VERSION},
    };
    use std::{collections::BTreeMap, ptr::NonNull};

    fn target(name: &str, arch: &str, features: &[&str]) -> TargetInfo {
        let device = name.split_once(" on ").map(|(device, _)| device.to_owned());
        let features = features.iter().map(ToString::to_string).collect();
        TargetInfo { name: name.into(), device, arch: arch.into(), features, folder: "targets/x".into(), prepared: false }
    }

    fn manifest(targets: Vec<TargetInfo>) -> Manifest {
        let (device_targets, targets) = targets.into_iter().partition(|target| target.device.is_some());
        let (entries, parts): (Vec<EntryInfo>, _) = (Vec::new(), BTreeMap::new());
        Manifest { format_version: FORMAT_VERSION, build: String::new(), entries, targets, device_targets, parts }
    }

    /// A device that runs the code of chips up to a number; 0 is a processor.
    struct Chip(u32);

    impl Device for Chip {
        fn kind(&self) -> u8 {
            if self.0 == 0 { DEVICE_CPU } else { disc_abi::DEVICE_CUDA }
        }

        fn name(&self) -> &'static str {
            if self.0 == 0 { "cpu" } else { "gpu:0" }
        }

        fn chip(&self) -> Option<String> {
            (self.0 > 0).then(|| format!("chip_{}", self.0))
        }

        fn suits(&self, target: &str) -> Option<u32> {
            target.strip_prefix("gpu:chip_")?.parse().ok().filter(|&number| number <= self.0)
        }

        fn alloc(&self, _: usize) -> Result<NonNull<u8>, AllocError> {
            Err(AllocError::Size)
        }

        unsafe fn free(&self, _: NonNull<u8>, _: usize) {}

        fn nontemporal_bytes(&self) -> i64 {
            0
        }

        fn queue(&self) -> Box<dyn Queue> {
            unreachable!("nothing runs")
        }
    }

    const HERE: &str = std::env::consts::ARCH;

    #[test]
    fn a_name_is_found_however_its_extensions_are_spelled() {
        let names = ["aarch64-v8+i8mm+sve+sve2", "aarch64-v8+sve+sve256", "gpu:chip_80 on aarch64-v8+bf16+sve+sve256"];
        let targets = names.map(|name| target(name, HERE, &[]));
        let found = |asked: &str| targets.iter().position(|target| target.is_spelled(asked));
        assert_eq!(found("aarch64-v8+sve2+i8mm"), Some(0));
        assert_eq!(found("aarch64-v8+sve256"), Some(1));
        assert_eq!(found("gpu:chip_80 on aarch64-v8+sve256+bf16"), Some(2));
        assert_eq!(found("aarch64-v8+sve"), None);
        assert_eq!(found("gpu:chip_90 on aarch64-v8+sve256+bf16"), None);
        assert_eq!(pick(&manifest(targets.to_vec()), &Chip(0), Some("aarch64-v8+sve256")).unwrap().name, names[1]);
    }

    #[test]
    fn the_best_code_that_runs_is_picked_and_others_by_name() {
        let targets =
            [target("low", HERE, &[]), target("high+more", HERE, &["no-such-feature"]), target("strange", "pdp11", &[])];
        let package = manifest(targets.to_vec());
        let pick = |asked| pick(&package, &Chip(0), asked);
        assert_eq!(pick(None).unwrap().name, "low");
        assert_eq!(pick(Some("low")).unwrap().name, "low");
        let refused = |asked| pick(Some(asked)).unwrap_err().message;
        let lacks = "`high+more` needs no-such-feature, which it lacks";
        let has = "the package has `low`, `high+more`, `strange`; this processor is";
        assert_eq!(refused("high"), format!("no code for `high` of the package runs on this processor: {has} {HERE}: {lacks}"));
        assert!(refused("strange").ends_with(&format!("this processor is {HERE}: `strange` is for pdp11")));
        assert!(refused("other").contains("no code for `other`: it has `low`, `high+more`, `strange`"));
        let others = manifest(targets[1..].to_vec());
        assert_eq!(
            super::pick(&others, &Chip(0), None).unwrap_err().message,
            format!(
                "no code of the package runs on this processor: the package has `high+more`, `strange`; \
                 this processor is {HERE}: {lacks}; `strange` is for pdp11"
            )
        );
    }

    #[test]
    fn the_newest_code_that_a_device_runs_is_picked_with_the_best_host_program() {
        let on = |device: u32, host: &str, feature: &[&str]| target(&format!("gpu:chip_{device} on {host}"), HERE, feature);
        let package = manifest(vec![
            target("low", HERE, &[]),
            on(8, "low", &[]),
            on(9, "low", &[]),
            on(9, "high+more", &["no-such-feature"]),
            on(12, "low", &[]),
        ]);
        let name = |chip: u32, asked: Option<&str>| pick(&package, &Chip(chip), asked).map(|target| target.name.clone());
        let message = |chip: u32, asked: Option<&str>| name(chip, asked).unwrap_err().message;
        assert_eq!(name(0, None).unwrap(), "low");
        assert_eq!(name(8, None).unwrap(), "gpu:chip_8 on low");
        assert_eq!(name(10, None).unwrap(), "gpu:chip_9 on low");
        assert_eq!(name(10, Some("low")).unwrap(), "gpu:chip_9 on low");
        assert_eq!(name(12, Some("gpu:chip_8")).unwrap(), "gpu:chip_8 on low");
        let has = "it has `low`, `gpu:chip_8 on low`, `gpu:chip_9 on low`, `gpu:chip_9 on high+more`, `gpu:chip_12 on low`";
        assert_eq!(message(7, None), format!("the package has no code that runs on the device `gpu:0` (chip_7): {has}"));
        let older = message(10, Some("gpu:chip_12"));
        assert_eq!(older, format!("the package has no code for `gpu:chip_12` on the device `gpu:0` (chip_10): {has}"));
        assert!(message(10, Some("high")).contains("`gpu:chip_9 on high+more` needs no-such-feature"));
        assert!(message(0, Some("gpu:chip_8")).contains("code for `gpu:chip_8` runs on a device of its own, not on `cpu`"));
    }

    #[test]
    fn a_package_without_code_for_processors_is_described_by_another() {
        let gpu = target("gpu:chip_8 on low", HERE, &[]);
        let package = manifest(vec![gpu.clone()]);
        let name = |package: &Manifest, asked| described(package, &Chip(0), asked).map(|target| target.name.clone());
        assert_eq!(name(&package, None).unwrap(), "gpu:chip_8 on low");
        assert_eq!(name(&package, Some("gpu:chip_8")).unwrap(), "gpu:chip_8 on low");
        assert!(
            pick(&package, &Chip(0), None)
                .unwrap_err()
                .message
                .contains("runs on this processor: the package has `gpu:chip_8 on low`")
        );
        let both = manifest(vec![target("low", HERE, &[]), gpu]);
        assert_eq!(name(&both, None).unwrap(), "low");
        assert!(name(&both, Some("other")).unwrap_err().message.contains("no code for `other`"));
    }
}
