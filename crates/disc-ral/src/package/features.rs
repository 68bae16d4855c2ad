//! Asks this processor for features by name, and picks the best code of a package that it can run.

use super::{fault, manifest::TargetInfo};
use crate::error::{Error, code};

/// Returns true if this processor and operating system have a feature, in the words of
/// `std::arch`. An unknown one is not there.
#[cfg(target_arch = "x86_64")]
fn has_feature(name: &str) -> bool {
    disc_abi::has_x86_feature!(name)
}

#[cfg(not(target_arch = "x86_64"))]
fn has_feature(_: &str) -> bool {
    false
}

impl TargetInfo {
    /// Returns true if this processor can run the code.
    pub fn runs_here(&self) -> bool {
        self.missing().is_some_and(|missing| missing.is_empty())
    }

    /// Returns the features that this processor lacks; `None` if it is of another architecture.
    fn missing(&self) -> Option<Vec<&str>> {
        let features = self.features.iter().map(String::as_str);
        (self.arch == std::env::consts::ARCH).then(|| features.filter(|name| !has_feature(name)).collect())
    }
}

/// Picks the code to run: that of the target `asked`, else the one that needs the most features of
/// those that this processor has.
///
/// # Errors
/// No such code, or none that can run here; the message names what the package has.
pub(super) fn pick<'t>(targets: &'t [TargetInfo], asked: Option<&str>) -> Result<&'t TargetInfo, Error> {
    let names = || targets.iter().map(|target| format!("`{}`", target.name)).collect::<Vec<_>>().join(", ");
    let refuse = |message: String| Error::new(code::PACKAGE_TARGET, "", message);
    if targets.is_empty() {
        return Err(fault(super::manifest::MANIFEST, "the package has code for no target"));
    }
    let Some(asked) = asked else {
        let best = targets.iter().filter(|target| target.runs_here()).max_by_key(|target| target.features.len());
        return best.ok_or_else(|| refuse(format!("no code of the package runs on this processor: it has {}", names())));
    };
    let level = |target: &TargetInfo| target.name.split('+').next().map(str::to_owned);
    let found = targets.iter().find(|target| target.name == asked);
    let found = found.or_else(|| targets.iter().find(|target| level(target).as_deref() == Some(asked)));
    let Some(target) = found else {
        return Err(refuse(format!("the package has no code for `{asked}`: it has {}", names())));
    };
    match target.missing() {
        None => Err(refuse(format!(
            "code for `{}` is for {}, this processor is {}",
            target.name,
            target.arch,
            std::env::consts::ARCH
        ))),
        Some(missing) if !missing.is_empty() => {
            Err(refuse(format!("code for `{}` needs {}, which this processor lacks", target.name, missing.join(", "))))
        }
        Some(_) => Ok(target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(name: &str, arch: &str, features: &[&str]) -> TargetInfo {
        let features = features.iter().map(ToString::to_string).collect();
        TargetInfo { name: name.into(), arch: arch.into(), features, folder: format!("targets/{name}"), prepared: false }
    }

    #[test]
    fn the_best_code_that_runs_is_picked_and_others_by_name() {
        let here = std::env::consts::ARCH;
        let targets =
            [target("low", here, &[]), target("high+more", here, &["no-such-feature"]), target("strange", "pdp11", &[])];
        assert_eq!(pick(&targets, None).unwrap().name, "low");
        assert_eq!(pick(&targets, Some("low")).unwrap().name, "low");
        let refused = |asked| pick(&targets, Some(asked)).unwrap_err().message;
        assert!(refused("high").contains("needs no-such-feature"));
        assert!(refused("strange").contains("is for pdp11"));
        assert!(refused("other").contains("no code for `other`: it has `low`, `high+more`, `strange`"));
        assert!(pick(&targets[1..], None).unwrap_err().message.contains("no code of the package runs"));
    }
}
