//! Reads the memory limit of this process: the machine's memory, or a smaller limit of its cgroups.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

/// The limit in bytes. Read once.
pub(super) fn machine_bytes() -> u64 {
    static BYTES: AtomicU64 = AtomicU64::new(0);
    match BYTES.load(Ordering::Relaxed) {
        0 => {
            let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
            let bytes = group_bytes(&groups, Path::new("/sys/fs/cgroup")).map_or(physical(), |limit| limit.min(physical()));
            BYTES.store(bytes.max(1), Ordering::Relaxed);
            bytes.max(1)
        }
        known => known,
    }
}

fn physical() -> u64 {
    // SAFETY: plain queries of the system's configuration.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    if pages > 0 && page > 0 { (pages as u64).saturating_mul(page as u64) } else { i64::MAX as u64 }
}

/// Returns the smallest limit of the groups in `groups` (the text of `/proc/self/cgroup`) and of
/// their parents.
fn group_bytes(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        // Version 2 has one line without controllers, version 1 a hierarchy for each.
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        smallest(&root, path, file)
    });
    limits.min()
}

fn smallest(root: &Path, group: &str, file: &str) -> Option<u64> {
    let folder: PathBuf = root.join(group.trim_start_matches('/'));
    // In a container the group's path may be the host's: then only the root exists.
    let folders = folder.ancestors().take_while(|folder| folder.starts_with(root));
    folders.filter_map(|folder| fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_path_counts() {
        let root = std::env::temp_dir().join(format!("disc-limit-{}", std::process::id()));
        let write = |path: &str, text: &str| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/memory.max", "4096000\n");
        write("a/b/memory.max", "max\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/x/memory.limit_in_bytes", "1024000\n");
        assert_eq!(group_bytes("0::/a/b\n", &root), Some(4_096_000));
        assert_eq!(group_bytes("0::/\n", &root), None);
        assert_eq!(group_bytes("5:cpu:/x\n4:hugetlb,memory:/x\n0::/a\n", &root), Some(1_024_000));
        assert_eq!(group_bytes("4:memory:/not/here\n", &root), Some(9_223_372_036_854_771_712));
        assert_eq!(group_bytes("nonsense", &root), None);
        fs::remove_dir_all(root).unwrap();
    }
}
