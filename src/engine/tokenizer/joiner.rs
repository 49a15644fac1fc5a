//! Token bytes to whole characters.

/// Joins token bytes into whole characters.
#[derive(Debug, Clone, Default)]
pub struct TextJoiner {
    /// The beginning of a character: at most three bytes.
    pending: Vec<u8>,
}

impl TextJoiner {
    /// Adds bytes; returns what is whole now. Bytes that can never become valid turn into U+FFFD.
    pub fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::new();
        let mut rest = self.pending.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(valid) => {
                    text.push_str(valid);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (valid, after) = rest.split_at(error.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(valid));
                    rest = after;
                    let Some(bad) = error.error_len() else { break };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = &rest[bad..];
                }
            }
        }
        self.pending = rest.to_vec();
        text
    }

    /// The rest, lossily.
    pub fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn characters_split_at_every_byte_come_out_whole() {
        let text = "héllo 你好 👩‍👩‍👧 🇩🇪!";
        for cut in 0..=text.len() {
            let mut joiner = TextJoiner::default();
            let first = joiner.push(&text.as_bytes()[..cut]);
            let second = joiner.push(&text.as_bytes()[cut..]);
            assert!(text.starts_with(&first));
            assert_eq!(first + &second + &joiner.finish(), text);
        }
    }

    #[test]
    fn bytes_that_cannot_become_valid_are_replaced_at_once() {
        let mut joiner = TextJoiner::default();
        assert_eq!(joiner.push(&[0xff, b'a', 0xf0, 0x9f]), "\u{fffd}a");
        assert_eq!(joiner.push(b"b"), "\u{fffd}b");
        assert_eq!(joiner.push(&[0xe4]), "");
        assert_eq!(joiner.finish(), "\u{fffd}");
        assert_eq!(joiner.finish(), "");
    }

    proptest! {
        #[test]
        fn pieces_give_what_the_whole_gives(pieces in proptest::collection::vec(
            proptest::collection::vec(prop_oneof![any::<u8>(), 0x80..0xc0u8, 0xe0..0xf5u8, Just(b'a')], 0..5), 0..12)) {
            let mut joiner = TextJoiner::default();
            let mut text: String = pieces.iter().map(|p| joiner.push(p)).collect();
            text += &joiner.finish();
            let whole = pieces.concat();
            let expected = String::from_utf8_lossy(&whole);
            prop_assert_eq!(text.as_str(), expected.as_ref());
        }
    }
}
