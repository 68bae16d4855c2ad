//! Finds the tile registers of x86-64 processors (AMX), and asks the operating system for them.
//!
//! Linux lets a process use them only after it has asked once, since they take 8 KiB for each
//! thread ("Using XSTATE features in user space applications" in the kernel's documentation). Where
//! the processor or the kernel refuses, the features are not there.

/// An extension of the tile registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Amx {
    Tile = 1,
    Bf16 = 2,
    Int8 = 4,
}

impl Amx {
    /// Returns the extension of a name, in the words of `std::arch`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "amx-tile" => Some(Self::Tile),
            "amx-bf16" => Some(Self::Bf16),
            "amx-int8" => Some(Self::Int8),
            _ => None,
        }
    }

    /// Returns true if this process may use the extension. The first call asks the kernel for the
    /// registers, if the processor has them.
    pub fn is_usable(self) -> bool {
        usable() & self as u8 != 0
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn usable() -> u8 {
    0
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn usable() -> u8 {
    use core::sync::atomic::{AtomicU8, Ordering};
    /// Marks the other bits as known.
    const KNOWN: u8 = 0x80;
    static FOUND: AtomicU8 = AtomicU8::new(0);
    let found = FOUND.load(Ordering::Relaxed);
    if found & KNOWN != 0 {
        return found;
    }
    let extensions = linux::of_processor();
    let found = KNOWN | if extensions != 0 && linux::ask() { extensions } else { 0 };
    FOUND.store(found, Ordering::Relaxed);
    found
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod linux {
    use super::Amx;
    use core::arch::{
        asm,
        x86_64::{__cpuid_count, __get_cpuid_max},
    };

    /// `arch_prctl(ARCH_REQ_XCOMP_PERM, XTILEDATA)`.
    const ARCH_PRCTL: i64 = 158;
    const REQUEST: u64 = 0x1023;
    const TILE_DATA: u64 = 18;

    /// Returns the extensions of the processor, if the operating system keeps their registers.
    pub(super) fn of_processor() -> u8 {
        const OSXSAVE: u32 = 1 << 27;
        /// The bits of XCR0 for the configuration of tiles and for their data.
        const TILES: u64 = 3 << 17;
        if __get_cpuid_max(0).0 < 7 || __cpuid_count(1, 0).ecx & OSXSAVE == 0 || xcr0() & TILES != TILES {
            return 0;
        }
        let features = __cpuid_count(7, 0);
        let has = |bit: u32, extension: Amx| if features.edx >> bit & 1 == 1 { extension as u8 } else { 0 };
        let tile = has(24, Amx::Tile);
        let others = has(22, Amx::Bf16) | has(25, Amx::Int8);
        if tile == 0 { 0 } else { tile | others }
    }

    /// Reads the register that says which registers the operating system keeps.
    fn xcr0() -> u64 {
        let (low, high): (u32, u32);
        // SAFETY: CPUID has said that XGETBV exists; it reads a register and changes nothing.
        unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack, preserves_flags)) };
        u64::from(high) << 32 | u64::from(low)
    }

    /// Asks the kernel for tile registers for all threads of this process.
    pub(super) fn ask() -> bool {
        let status: i64;
        // SAFETY: this system call takes two numbers and touches no memory of the process; it
        // clobbers the registers that are named.
        unsafe {
            asm!("syscall", inlateout("rax") ARCH_PRCTL => status, in("rdi") REQUEST, in("rsi") TILE_DATA,
                lateout("rcx") _, lateout("r11") _, options(nostack));
        }
        status == 0
    }
}
