//! The symbol file: a hash table from names to numbers that the host reads as it is.
//!
//! `2^bits` slots of three little-endian `u32`: two hashes of the name (the first never 0; 0 marks a free slot) and the value.
//! Collisions go to the next slot. The names themselves are not stored; that no two of them share both hashes is checked here.

use std::collections::{HashMap, HashSet};

/// Two names that the table cannot tell apart.
#[derive(Debug, thiserror::Error)]
#[error("two symbols have the same hash, one of them is `{0}`")]
pub struct Collision(pub String);

/// Names and values in order of their first appearance, which decides their slots.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    at: HashMap<String, usize>,
    values: Vec<u32>,
}

impl Symbols {
    /// Sets a value; a name keeps its place.
    pub fn set(&mut self, name: &str, value: u32) {
        match self.at.get(name) {
            Some(&n) => self.values[n] = value,
            None => {
                self.at.insert(name.to_owned(), self.values.len());
                self.values.push(value);
            }
        }
    }

    pub fn get(&self, name: &str) -> Option<u32> {
        self.at.get(name).map(|&n| self.values[n])
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The table's bytes and the binary logarithm of its slots: at most five sevenths are taken.
    pub fn table(&self) -> Result<(Vec<u8>, u32), Collision> {
        let wanted = (self.len() * 7).div_ceil(5).max(2);
        let slots = wanted.next_power_of_two();
        let bits = slots.trailing_zeros();
        let mask = slots - 1;
        let mut table = vec![[0u32; 3]; slots];
        let mut seen = HashSet::with_capacity(self.len());
        let mut names = vec![""; self.len()];
        for (name, &n) in &self.at {
            names[n] = name;
        }
        for (name, &value) in names.iter().zip(&self.values) {
            let (a, b) = hash(name.as_bytes());
            if !seen.insert((a, b)) {
                return Err(Collision((*name).to_owned()));
            }
            let mut i = (a ^ (a >> 15)) as usize & mask;
            while table[i][0] != 0 {
                i = (i + 1) & mask;
            }
            table[i] = [a, b, value];
        }
        let bytes = table.iter().flatten().flat_map(|word| word.to_le_bytes()).collect();
        Ok((bytes, bits))
    }
}

/// 32-bit FNV-1a (0 is replaced by 1) and Bernstein's hash.
fn hash(name: &[u8]) -> (u32, u32) {
    let (mut a, mut b) = (0x811c_9dc5_u32, 5381_u32);
    for &byte in name {
        a = (a ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        b = b.wrapping_mul(33).wrapping_add(u32::from(byte));
    }
    (a.max(1), b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The look-up as the host does it.
    fn look_up(table: &[u8], bits: u32, name: &str) -> u32 {
        let word = |i: usize, k: usize| u32::from_le_bytes(table[4 * (3 * i + k)..][..4].try_into().unwrap());
        let (a, b) = hash(name.as_bytes());
        let mask = (1usize << bits) - 1;
        let mut i = (a ^ (a >> 15)) as usize & mask;
        while word(i, 0) != 0 {
            if (word(i, 0), word(i, 1)) == (a, b) {
                return word(i, 2);
            }
            i = (i + 1) & mask;
        }
        0
    }

    #[test]
    fn every_name_is_found_and_no_other() {
        let mut symbols = Symbols::default();
        for n in 0..5000u32 {
            symbols.set(&format!("l_Lean_{n}"), n + 1);
        }
        symbols.set("l_Lean_7", 99);
        assert_eq!(symbols.len(), 5000);
        let (table, bits) = symbols.table().unwrap();
        assert_eq!(table.len(), 12 << bits);
        assert_eq!(look_up(&table, bits, "l_Lean_7"), 99);
        assert_eq!(look_up(&table, bits, "l_Lean_4999"), 5000);
        assert_eq!(look_up(&table, bits, "l_Lean_5000"), 0);
        assert_eq!(look_up(&table, bits, ""), 0);
    }

    #[test]
    fn an_empty_table_has_free_slots() {
        let (table, bits) = Symbols::default().table().unwrap();
        assert_eq!(look_up(&table, bits, "x"), 0);
    }
}
