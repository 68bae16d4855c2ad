//! Transposes square tiles in shuffles that are one instruction each on x86-64.
//!
//! First within parts of 128 bits, where `unpack` instructions interleave the elements of two
//! vectors; then whole parts are exchanged. That is `n log2(n)` shuffles for `n` vectors of `n`
//! lanes.
use super::Lowering;
use crate::{
    Error,
    emit::{Emitted, Val, lanes_of},
};
use disc_ir::Inst;

/// Bits of the parts in which vectors are shuffled at no extra cost.
const PART_BITS: u32 = 128;

impl<'c> Lowering<'_, 'c> {
    pub(super) fn transpose_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let rows = self.operands(inst)?;
        let (dtype, lanes) = self.vector_type(self.function.operands(inst)[0])?;
        let columns = match lanes {
            1 => rows,
            _ => self.transposed(&rows, (PART_BITS / dtype.bits().max(8)).min(lanes) as usize)?,
        };
        for (&result, column) in self.function.results_of(inst).iter().zip(columns) {
            self.bind(result, column);
        }
        Ok(())
    }

    /// Separates the even lanes of two vectors from the odd ones.
    pub(super) fn unzip_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let both = self.operands(inst)?;
        let (_, lanes) = self.vector_type(self.function.operands(inst)[0])?;
        for (first, &result) in self.function.results_of(inst).iter().enumerate() {
            let picked = match lanes {
                1 => both[first],
                _ => self.shuffled(both[0], both[1], (0..lanes as usize).map(|lane| 2 * lane + first))?,
            };
            self.bind(result, picked);
        }
        Ok(())
    }

    /// Interleaves the lanes of two vectors.
    pub(super) fn zip_lanes(&mut self, inst: Inst) -> Result<(), Error> {
        let both = self.operands(inst)?;
        let (_, lanes) = self.vector_type(self.function.operands(inst)[0])?;
        let lanes = lanes as usize;
        for (half, &result) in self.function.results_of(inst).iter().enumerate() {
            let picked = match lanes {
                1 => both[half],
                _ => self.shuffled(both[0], both[1], (0..lanes).map(|lane| half * lanes / 2 + lane / 2 + lane % 2 * lanes))?,
            };
            self.bind(result, picked);
        }
        Ok(())
    }

    /// Returns the columns of a square, whose parts hold `part` elements.
    fn transposed(&self, rows: &[Val<'c>], part: usize) -> Result<Vec<Val<'c>>, Error> {
        let mut columns = rows.to_vec();
        // For each place within a part, the vectors that hold it: one for each `part` rows.
        let mut by_place: Vec<Vec<Val<'c>>> = vec![Vec::new(); part];
        for group in rows.chunks(part) {
            for (place, vector) in self.within_parts(group, 1)?.into_iter().enumerate() {
                by_place[place].push(vector);
            }
        }
        for (place, vectors) in by_place.iter().enumerate() {
            for (number, column) in self.across_parts(vectors, part)?.into_iter().enumerate() {
                columns[number * part + place] = column;
            }
        }
        Ok(columns)
    }

    /// Transposes the small squares that `rows` have in each part; `width` elements stay together.
    fn within_parts(&self, rows: &[Val<'c>], width: usize) -> Result<Vec<Val<'c>>, Error> {
        if rows.len() == 1 {
            return Ok(rows.to_vec());
        }
        let (mut low, mut high) = (Vec::new(), Vec::new());
        let part = rows.len() * width;
        for pair in rows.chunks(2) {
            low.push(self.unpacked(pair[0], pair[1], part, width, 0)?);
            high.push(self.unpacked(pair[0], pair[1], part, width, part / 2)?);
        }
        let mut all = self.within_parts(&low, 2 * width)?;
        all.extend(self.within_parts(&high, 2 * width)?);
        Ok(all)
    }

    /// Interleaves, in each part, `width` elements of `a` and of `b`, from the half of the part
    /// that starts at `from`.
    fn unpacked(&self, a: Val<'c>, b: Val<'c>, part: usize, width: usize, from: usize) -> Emitted<'c> {
        let lanes = lanes_of(a) as usize;
        let source = |lane: usize| {
            let (base, within) = (lane / part * part, lane % part);
            let (turn, offset) = (within / width, within % width);
            base + from + turn / 2 * width + offset + if turn % 2 == 1 { lanes } else { 0 }
        };
        self.shuffled(a, b, (0..lanes).map(source))
    }

    /// Returns the vector of all first parts of `vectors`, of all second parts, ...
    fn across_parts(&self, vectors: &[Val<'c>], part: usize) -> Result<Vec<Val<'c>>, Error> {
        if vectors.len() == 1 {
            return Ok(vectors.to_vec());
        }
        let lanes = lanes_of(vectors[0]) as usize;
        let picked = |first: usize| -> Result<Vec<Val<'c>>, Error> {
            let source = |lane: usize| (2 * (lane / part) + first) * part + lane % part;
            vectors.chunks(2).map(|pair| self.shuffled(pair[0], pair[1], (0..lanes).map(source))).collect()
        };
        let (even, odd) = (self.across_parts(&picked(0)?, part)?, self.across_parts(&picked(1)?, part)?);
        Ok(even.into_iter().zip(odd).flat_map(|(e, o)| [e, o]).collect())
    }

    /// Shuffles the lanes of `a` followed by `b` into the order of `sources`.
    fn shuffled(&self, a: Val<'c>, b: Val<'c>, sources: impl Iterator<Item = usize>) -> Emitted<'c> {
        self.emit.shuffle(a, Some(b), sources.map(|lane| lane as u32))
    }
}
