//! GGUF files for tests.

/// Builds GGUF files.
#[derive(Default)]
pub struct Gguf {
    pairs: Vec<u8>,
    pair_count: u64,
    infos: Vec<u8>,
    info_count: u64,
    data: Vec<u8>,
}

impl Gguf {
    /// A length and the bytes.
    pub fn text(out: &mut Vec<u8>, text: &str) {
        out.extend((text.len() as u64).to_le_bytes());
        out.extend(text.as_bytes());
    }
    /// Adds metadata: the value as it lies in the file.
    pub fn pair(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        Self::text(&mut self.pairs, key);
        self.pairs.extend(kind.to_le_bytes());
        self.pairs.extend(value);
        self.pair_count += 1;
        self
    }
    /// Adds a tensor and its bytes; dimensions innermost first.
    pub fn tensor(mut self, name: &str, dims: &[u64], kind: u32, data: &[u8]) -> Self {
        while !self.data.len().is_multiple_of(32) {
            self.data.push(0);
        }
        let offset = self.data.len() as u64;
        self.data.extend(data);
        self.info(name, dims, kind, offset)
    }
    /// Adds the description of a tensor at this offset, without bytes.
    pub fn info(mut self, name: &str, dims: &[u64], kind: u32, offset: u64) -> Self {
        Self::text(&mut self.infos, name);
        self.infos.extend((dims.len() as u32).to_le_bytes());
        for d in dims {
            self.infos.extend(d.to_le_bytes());
        }
        self.infos.extend(kind.to_le_bytes());
        self.infos.extend(offset.to_le_bytes());
        self.info_count += 1;
        self
    }
    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = b"GGUF\x03\0\0\0".to_vec();
        out.extend(self.info_count.to_le_bytes());
        out.extend(self.pair_count.to_le_bytes());
        out.extend(&self.pairs);
        out.extend(&self.infos);
        while !out.len().is_multiple_of(32) {
            out.push(0);
        }
        out.extend(&self.data);
        out
    }
    /// Adds a text.
    pub fn pair_text(self, key: &str, text: &str) -> Self {
        let mut value = vec![];
        Self::text(&mut value, text);
        self.pair(key, 8, &value)
    }
    /// Adds an unsigned number.
    pub fn pair_u32(self, key: &str, n: u32) -> Self {
        self.pair(key, 4, &n.to_le_bytes())
    }
    /// Adds a list of texts.
    pub fn pair_texts(self, key: &str, texts: &[&str]) -> Self {
        let mut value = 8u32.to_le_bytes().to_vec();
        value.extend((texts.len() as u64).to_le_bytes());
        for text in texts {
            Self::text(&mut value, text);
        }
        self.pair(key, 9, &value)
    }
}
