//! The bytes that each token stands for.

use std::sync::LazyLock;

/// Bytes of all tokens, and the spelling of control tokens.
#[derive(Debug)]
pub(super) struct TokenTable {
    bytes: Vec<u8>,
    /// Token `i` has the bytes from `ends[i - 1]` to `ends[i]`.
    ends: Vec<u32>,
    /// Sorted by id.
    controls: Vec<(u32, String)>,
}

impl TokenTable {
    pub(super) fn new(tokens: impl IntoIterator<Item = Vec<u8>>, mut controls: Vec<(u32, String)>) -> Self {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        for token in tokens {
            bytes.extend(token);
            ends.push(bytes.len() as u32);
        }
        controls.sort_unstable();
        Self { bytes, ends, controls }
    }

    pub(super) fn bytes(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let Some(&end) = self.ends.get(id) else { return &[] };
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        &self.bytes[start as usize..end as usize]
    }

    pub(super) fn control(&self, id: u32) -> Option<&str> {
        let at = self.controls.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&self.controls[at].1)
    }
}

/// The characters that GPT-2's byte-level vocabularies write bytes as: printable Latin-1 characters stand for
/// themselves, all other bytes for the characters from U+0100 on, in order.
static BYTE_OF_CHAR: LazyLock<Vec<Option<u8>>> = LazyLock::new(|| {
    let mut table = vec![None; 0x144];
    let mut next = 0x100;
    for byte in 0..=255u8 {
        let itself = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let at = if itself { usize::from(byte) } else { next };
        next += usize::from(!itself);
        table[at] = Some(byte);
    }
    table
});

/// Bytes of a byte-level token; one with characters outside the byte alphabet stands for its own text.
pub(super) fn byte_level(token: &str) -> Vec<u8> {
    let bytes = token.chars().map(|c| BYTE_OF_CHAR.get(c as usize).copied().flatten()).collect();
    Option::unwrap_or_else(bytes, || token.as_bytes().to_vec())
}

/// Bytes of a SentencePiece token: `▁` is a space, `<0xXX>` a byte.
pub(super) fn sentence_piece(token: &str) -> Vec<u8> {
    let hex = token.strip_prefix("<0x").and_then(|t| t.strip_suffix('>')).filter(|t| t.len() == 2);
    match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
        Some(byte) => vec![byte],
        None => token.replace('\u{2581}', " ").into_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_byte_alphabet_is_inverted() {
        assert_eq!(byte_level("Ġthe"), b" the");
        assert_eq!(byte_level("Ċ"), b"\n");
        assert_eq!(byte_level("ðŁĺĢ"), "😀".as_bytes());
        assert_eq!(byte_level("ä½ł"), "你".as_bytes());
        assert_eq!(byte_level("日"), "日".as_bytes());
        assert_eq!(BYTE_OF_CHAR.iter().flatten().count(), 256);
    }

    #[test]
    fn sentence_pieces_are_read() {
        assert_eq!(sentence_piece("▁the"), b" the");
        assert_eq!(sentence_piece("<0x0A>"), b"\n");
        assert_eq!(sentence_piece("<0xZZ>"), b"<0xZZ>");
    }

    #[test]
    fn ids_out_of_range_have_no_bytes() {
        let table = TokenTable::new([b"ab".to_vec(), vec![], b"c".to_vec()], vec![(1, "<s>".into())]);
        assert_eq!([0, 1, 2, 3, u32::MAX].map(|id| table.bytes(id)), [b"ab".as_slice(), b"", b"c", b"", b""]);
        assert_eq!(table.control(1), Some("<s>"));
        assert_eq!(table.control(0), None);
    }
}
