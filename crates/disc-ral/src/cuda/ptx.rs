//! Cuts the PTX of a module into one text per kernel, so that a kernel is assembled when it is
//! first launched, and equal kernels of several modules are assembled once.
//!
//! The text is what LLVM writes: items begin at the start of a line, functions end with a `}`
//! there.

/// A kernel as a module of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KernelPtx {
    pub(super) name: String,
    /// PTX with only this entry, and what it uses.
    pub(super) text: String,
    /// Its parameters, of eight bytes each.
    pub(super) parameters: usize,
    /// A launch says how many bytes its blocks share.
    pub(super) is_sized_at_launch: bool,
    /// It waits for the launch before itself, so that it may begin while that one runs.
    pub(super) waits: bool,
}

impl KernelPtx {
    /// Returns the target of PTX that one chip alone runs, such as `sm_90a`.
    pub(super) fn specific_target(&self) -> Option<&str> {
        let target = self.text.lines().find_map(|line| line.strip_prefix(".target "))?;
        let target = target.split([',', ' ']).next()?;
        target.ends_with(|last: char| last.is_ascii_alphabetic()).then_some(target)
    }
}

/// The name of the shared memory that a launch sizes.
const LAUNCH_SHARED: &str = "disc_shared";
/// The instruction that waits until the launch before has ended.
const WAIT: &str = "griddepcontrol.wait;";
/// Starts a line of a kernel's own text, before its entry.
const SOURCE: &str = "//|";

/// An item at the top of a module.
#[derive(Default)]
struct Item<'t> {
    name: &'t str,
    text: String,
    is_entry: bool,
    parameters: usize,
}

/// Cuts a module into its kernels, in their order.
///
/// # Errors
/// The first line that is no PTX of this form.
pub(super) fn split(module: &str) -> Result<Vec<KernelPtx>, String> {
    let (header, items) = items(module)?;
    let (entries, others): (Vec<&Item<'_>>, Vec<&Item<'_>>) = items.iter().partition(|item| item.is_entry);
    Ok(entries.into_iter().map(|entry| alone(&header, entry, &others)).collect())
}

/// Makes a module of one kernel and what it uses.
fn alone(header: &str, entry: &Item<'_>, others: &[&Item<'_>]) -> KernelPtx {
    let mut used: Vec<bool> = others.iter().map(|item| mentions(&entry.text, item.name)).collect();
    loop {
        let more: Vec<bool> = others
            .iter()
            .map(|item| others.iter().zip(&used).any(|(user, &is_used)| is_used && mentions(&user.text, item.name)))
            .collect();
        let before = used.clone();
        used.iter_mut().zip(more).for_each(|(used, more)| *used |= more);
        if used == before {
            break;
        }
    }
    let kept = others.iter().zip(&used).filter(|&(_, &is_used)| is_used).map(|(item, _)| item);
    let mut text = header.to_owned();
    kept.clone().for_each(|item| text.push_str(&item.text));
    text.push_str(&entry.text);
    KernelPtx {
        name: entry.name.to_owned(),
        text,
        parameters: entry.parameters,
        // disc-llvm puts it before everything else that a kernel does.
        waits: entry.text.lines().any(|line| line.trim() == WAIT),
        is_sized_at_launch: kept.clone().any(|item| item.name == LAUNCH_SHARED),
    }
}

/// Returns true if a text has a name as a word of its own.
fn mentions(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].chars().next_back(), text[at + name.len()..].chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Reads the directives before all items, and the items.
fn items(module: &str) -> Result<(String, Vec<Item<'_>>), String> {
    let (mut header, mut items) = (String::new(), Vec::new());
    let (mut comments, mut open): (String, Option<Item<'_>>) = (String::new(), None);
    for (number, line) in (1..).zip(module.lines()) {
        if let Some(item) = &mut open {
            item.text += line;
            item.text.push('\n');
            item.parameters += usize::from(line.trim_start().starts_with(".param ") && !item.text.contains("\n{"));
            if line == "}" || (line.ends_with(';') && !item.text.contains("\n{")) {
                items.extend(open.take());
            }
            continue;
        }
        match line {
            _ if line.starts_with(SOURCE) => {
                comments += line;
                comments.push('\n');
            }
            _ if line.trim().is_empty() || line.trim_start().starts_with("//") => {}
            _ if [".version", ".target", ".address_size"].iter().any(|directive| line.starts_with(directive)) => {
                header += line;
                header.push('\n');
            }
            _ if line.starts_with('.') => {
                let name = name_of(line).ok_or_else(|| format!("line {number} of the PTX declares nothing: `{line}`"))?;
                let is_entry = line.contains(".entry ");
                let text = format!("{}{line}\n", std::mem::take(&mut comments));
                let item = Item { name, text, is_entry, parameters: 0 };
                match line.ends_with(';') {
                    true => items.push(item),
                    false => open = Some(item),
                }
            }
            _ => return Err(format!("line {number} of the PTX is at no place: `{line}`")),
        }
    }
    match open {
        Some(item) => Err(format!("`{}` of the PTX has no end", item.name)),
        None => Ok((header, items)),
    }
}

/// Returns the name that a line declares: of an entry or a function before its parameters, of a
/// variable before its size, value or end.
fn name_of(line: &str) -> Option<&str> {
    let line = match line.split_once(".func") {
        // The results of a function are in brackets before its name.
        Some((_, rest)) => {
            rest.trim_start().strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or("", |(_, name)| name))
        }
        None => line,
    };
    let end = line.find(['(', '[', '=', ';']).unwrap_or(line.len());
    line[..end].split_whitespace().next_back()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "//
// Generated by LLVM NVPTX Back-End
//

.version 8.0
.target sm_90
.address_size 64

	// .globl	k0
// k0_shared7 has been demoted
.extern .shared .align 16 .b8 disc_shared[];
.func  (.param .b32 func_retval0) helper
(
	.param .b64 helper_param_0
)
;
//|kernel @k0(%x: buffer<4xf32>) grid threads = 32, warp = 32 {
//|}

.visible .entry k0(
	.param .u64 .ptr .align 1 k0_param_0,
	.param .u64 k0_param_1
)
.reqntid 32
{
	.param .b32 local;
	ret;

}
	// .globl	k01
.visible .entry k01(
	.param .u64 k01_param_0
)
{
	mov.b64 	%rd1, disc_shared;
	call.uni (retval0), helper, (param0);
	ret;
}
.func  (.param .b32 func_retval0) helper(
	.param .b64 helper_param_0
)
{
	call.uni inner;
	ret;
}
.func inner()
{
	ret;
}
";

    #[test]
    fn each_kernel_has_what_it_uses_and_no_more() {
        let kernels = split(MODULE).unwrap();
        let [first, second] = &kernels[..] else { panic!("{kernels:?}") };
        assert_eq!((first.name.as_str(), first.parameters, first.is_sized_at_launch), ("k0", 2, false));
        assert_eq!((second.name.as_str(), second.parameters, second.is_sized_at_launch), ("k01", 1, true));
        let header = ".version 8.0\n.target sm_90\n.address_size 64\n";
        assert!(first.text.starts_with(&format!("{header}//|kernel @k0(")), "{}", first.text);
        assert!(!first.text.contains("helper") && !first.text.contains("k01"), "{}", first.text);
        for part in [header, "disc_shared[]", "helper\n(", "helper(\n", ".func inner()", ".entry k01("] {
            assert_eq!(second.text.matches(part).count(), 1, "{part} in {}", second.text);
        }
        assert!(!second.text.contains(".entry k0("), "{}", second.text);
    }

    #[test]
    fn a_kernel_that_waits_is_known() {
        let waits = |text: &str| split(text).unwrap().iter().map(|kernel| kernel.waits).collect::<Vec<_>>();
        assert_eq!(waits(MODULE), [false, false]);
        assert_eq!(waits(&MODULE.replace("\tmov.b64", "\tgriddepcontrol.wait;\n\tmov.b64")), [false, true]);
        // A kernel's own text is a comment.
        assert_eq!(waits(&MODULE.replace("//|}", "//|griddepcontrol.wait;\n//|}")), [false, false]);
    }

    #[test]
    fn code_for_one_chip_alone_is_known_by_its_target() {
        assert_eq!(split(MODULE).unwrap()[0].specific_target(), None);
        let special = split(&MODULE.replace(".target sm_90", ".target sm_90a, debug")).unwrap();
        assert_eq!(special[0].specific_target(), Some("sm_90a"));
    }

    #[test]
    fn what_is_no_ptx_is_named() {
        let error = |text: &str| split(text).unwrap_err();
        assert_eq!(error("ret;"), "line 1 of the PTX is at no place: `ret;`");
        assert_eq!(error(".visible .entry k(\n{\n"), "`k` of the PTX has no end");
        assert_eq!(split("").unwrap(), []);
    }
}
