//! Executes the instructions of tile registers where this CPU has none: a handler of SIGILL decodes
//! them and does their work, so that tests can run such code anywhere.
//!
//! Encodings and meanings are those of Intel's Software Developer's Manual, "Intel AMX". The
//! handler changes this process, which is a test.
use std::{
    cell::UnsafeCell,
    ffi::c_int,
    sync::{
        Once,
        atomic::{AtomicUsize, Ordering},
    },
};

/// The instructions that were executed.
static EXECUTED: AtomicUsize = AtomicUsize::new(0);

pub(super) fn executed() -> usize {
    EXECUTED.load(Ordering::Relaxed)
}

/// Eight registers of 16 rows of 64 bytes, and their configured sizes.
struct Tiles {
    rows: [u8; 8],
    row_bytes: [u16; 8],
    data: [[[u8; 64]; 16]; 8],
}

thread_local! {
    static TILES: UnsafeCell<Tiles> =
        const { UnsafeCell::new(Tiles { rows: [0; 8], row_bytes: [0; 8], data: [[[0; 64]; 16]; 8] }) };
}

/// Installs the handler, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: the handler touches the interrupted thread's registers and the memory that the
        // instruction names, and no lock.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_illegal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGILL, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_illegal(_: c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context of this thread.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let at = registers[libc::REG_RIP as usize] as *const u8;
    // SAFETY: an instruction is at most 15 bytes long, and code follows it; the tiles are of this
    // thread, which is in this handler.
    let length = unsafe { TILES.with(|tiles| execute(&mut *tiles.get(), std::slice::from_raw_parts(at, 15), registers)) };
    match length {
        Some(length) => {
            EXECUTED.fetch_add(1, Ordering::Relaxed);
            registers[libc::REG_RIP as usize] += length as i64;
        }
        // SAFETY: the process ends.
        None => unsafe {
            let message = b"an illegal instruction that is none of tile registers, or a tile of another shape\n";
            libc::write(2, message.as_ptr().cast(), message.len());
            libc::abort();
        },
    }
}

/// The places of registers among those of a context, by their numbers in instructions.
const PLACES: [c_int; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

/// Memory that an instruction names: an address, the stride of rows, and the bytes of the operand.
struct Memory {
    address: i64,
    stride: i64,
    length: usize,
}

/// Does the work of one instruction. Returns its length; none for another instruction.
///
/// # Safety
/// The memory that the instruction names is that of the interrupted code.
unsafe fn execute(tiles: &mut Tiles, code: &[u8], registers: &[i64]) -> Option<usize> {
    let &[0xC4, first, second, opcode, modrm, ..] = code else { return None };
    let (prefix, vector) = (second & 3, usize::from(!(second >> 3) & 15));
    if first & 31 != 2 || second & 0x84 != 0 {
        return None;
    }
    let (of_registers, reg, rm) = (modrm >> 6 == 3, usize::from(modrm >> 3 & 7), usize::from(modrm & 7));
    match (opcode, prefix, of_registers) {
        (0x49, 0, true) => {
            (tiles.rows, tiles.row_bytes) = ([0; 8], [0; 8]);
            Some(5)
        }
        (0x49, 3, true) => {
            tiles.data[reg] = [[0; 64]; 16];
            Some(5)
        }
        (0x49, 0, false) => {
            let memory = operand(first, &code[4..], registers)?;
            // SAFETY: the instruction reads 64 bytes.
            let bytes = unsafe { std::slice::from_raw_parts(memory.address as *const u8, 64) };
            for tile in 0..8 {
                tiles.rows[tile] = bytes[48 + tile];
                tiles.row_bytes[tile] = u16::from_le_bytes([bytes[16 + 2 * tile], bytes[17 + 2 * tile]]);
            }
            let fits = tiles.rows.iter().all(|&rows| rows <= 16) && tiles.row_bytes.iter().all(|&bytes| bytes <= 64);
            (bytes[0] == 1 && fits).then_some(4 + memory.length)
        }
        (0x4B, 1..=3, false) => {
            let memory = operand(first, &code[4..], registers)?;
            let bytes = usize::from(tiles.row_bytes[reg]);
            for row in 0..usize::from(tiles.rows[reg]) {
                let at = (memory.address + row as i64 * memory.stride) as *mut u8;
                let held = &mut tiles.data[reg][row];
                // SAFETY: the instruction accesses as many bytes of each row.
                unsafe {
                    match prefix {
                        2 => std::ptr::copy_nonoverlapping(held.as_ptr(), at, bytes),
                        _ => std::ptr::copy_nonoverlapping(at, held.as_mut_ptr(), bytes),
                    }
                }
            }
            (bytes > 0).then_some(4 + memory.length)
        }
        (0x5C, 2, true) => multiply(tiles, [reg, rm, vector], bf16),
        (0x5E, _, true) => multiply(tiles, [reg, rm, vector], move |a, b, sum| bytes(a, b, sum, [prefix >= 2, prefix & 1 == 1])),
        _ => None,
    }
}

/// Decodes the operand in memory that starts with its ModRM byte.
fn operand(first: u8, code: &[u8], registers: &[i64]) -> Option<Memory> {
    let (mode, rm) = (code[0] >> 6, code[0] & 7);
    let high = |bit: u8, number: u8| usize::from(number | if first >> bit & 1 == 0 { 8 } else { 0 });
    let value = |number: usize| registers[PLACES[number] as usize];
    let (base, stride, start) = if rm == 4 {
        let (scale, index, base) = (code[1] >> 6, high(6, code[1] >> 3 & 7), high(5, code[1] & 7));
        let stride = if index == 4 { 0 } else { value(index) << scale };
        if base & 7 == 5 && mode == 0 {
            return None;
        }
        (value(base), stride, 2)
    } else {
        (value(high(5, rm)), 0, 1)
    };
    let (shift, length) = match mode {
        0 if rm != 5 => (0, start),
        1 => (i64::from(code[start] as i8), start + 1),
        2 => (i64::from(i32::from_le_bytes(code[start..start + 4].try_into().ok()?)), start + 4),
        _ => return None,
    };
    Some(Memory { address: base + shift, stride, length })
}

/// Adds the products of words of two registers to a third.
fn multiply(tiles: &mut Tiles, [c, a, b]: [usize; 3], add: impl Fn(&[[u8; 4]], &[[u8; 4]], [u8; 4]) -> [u8; 4]) -> Option<usize> {
    let size = |tile: usize| (usize::from(tiles.rows[tile]), usize::from(tiles.row_bytes[tile]) / 4);
    let ((rows, columns), (depth, _)) = (size(c), size(b));
    if c == a || c == b || a == b || size(a) != (rows, depth) || size(b).1 != columns || rows * columns * depth == 0 {
        return None;
    }
    let word = |tile: usize, row: usize, column: usize| -> [u8; 4] {
        tiles.data[tile][row][4 * column..4 * column + 4].try_into().expect("four bytes")
    };
    let mut sums = tiles.data[c];
    for (row, sums) in sums.iter_mut().enumerate().take(rows) {
        let left: Vec<[u8; 4]> = (0..depth).map(|k| word(a, row, k)).collect();
        for column in 0..columns {
            let right: Vec<[u8; 4]> = (0..depth).map(|k| word(b, k, column)).collect();
            sums[4 * column..4 * column + 4].copy_from_slice(&add(&left, &right, word(c, row, column)));
        }
    }
    tiles.data[c] = sums;
    Some(5)
}

/// Sums of the first and of the second elements of words, then of both, with denormals as zeros.
fn bf16(a: &[[u8; 4]], b: &[[u8; 4]], sum: [u8; 4]) -> [u8; 4] {
    let flush = |x: f32| if x.is_subnormal() { 0.0_f32.copysign(x) } else { x };
    let element =
        |word: &[u8; 4], half: usize| flush(f32::from_bits(u32::from_le_bytes([0, 0, word[2 * half], word[2 * half + 1]])));
    let [even, odd] =
        [0, 1].map(|half| a.iter().zip(b).fold(0.0, |sum, (a, b)| flush(element(a, half).mul_add(element(b, half), sum))));
    flush(flush(f32::from_le_bytes(sum)) + flush(even + odd)).to_le_bytes()
}

/// Sums of products of bytes, which wrap.
fn bytes(a: &[[u8; 4]], b: &[[u8; 4]], sum: [u8; 4], [a_signed, b_signed]: [bool; 2]) -> [u8; 4] {
    let number = |byte: u8, signed: bool| if signed { i32::from(byte as i8) } else { i32::from(byte) };
    let products = a.iter().flatten().zip(b.iter().flatten());
    let sum = products.fold(i32::from_le_bytes(sum), |sum, (&a, &b)| sum.wrapping_add(number(a, a_signed) * number(b, b_signed)));
    sum.to_le_bytes()
}
