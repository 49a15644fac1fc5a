//! Checkpoints with the right headers and nothing in them: sparse files that take no room.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use serde_json::{Map, Value, json};

/// Name and shape of a tensor; everything published is BF16.
pub type Tensor = (String, Vec<usize>);

/// Writes a folder with `config.json` and these tensors, spread over so many shards, with an index when there are
/// several.
pub fn write(folder: &Path, config: &Value, tensors: &[Tensor], shards: usize) {
    fs::create_dir_all(folder).expect("a folder");
    fs::write(folder.join("config.json"), config.to_string()).expect("a configuration");
    let mut map = Map::new();
    let each = tensors.len().div_ceil(shards);
    for (number, part) in tensors.chunks(each).enumerate() {
        let name = match shards {
            1 => "model.safetensors".to_owned(),
            n => format!("model-{:05}-of-{n:05}.safetensors", number + 1),
        };
        shard(&folder.join(&name), part);
        map.extend(part.iter().map(|(tensor, _)| (tensor.clone(), json!(name))));
    }
    if shards > 1 {
        let index = json!({ "metadata": { "total_size": bytes(tensors) }, "weight_map": map });
        fs::write(folder.join("model.safetensors.index.json"), index.to_string()).expect("an index");
    }
}

fn shard(path: &Path, tensors: &[Tensor]) {
    let mut header = Map::new();
    let mut at = 0;
    for tensor in tensors {
        let end = at + bytes(std::slice::from_ref(tensor));
        header.insert(tensor.0.clone(), json!({ "dtype": "BF16", "shape": tensor.1, "data_offsets": [at, end] }));
        at = end;
    }
    let text = Value::Object(header).to_string();
    let mut file = File::create(path).expect("a file");
    file.write_all(&(text.len() as u64).to_le_bytes()).expect("a length");
    file.write_all(text.as_bytes()).expect("a header");
    file.set_len(8 + text.len() as u64 + at).expect("a sparse file");
}

/// Bytes of tensors.
pub fn bytes(tensors: &[Tensor]) -> u64 {
    tensors.iter().map(|(_, shape)| 2 * shape.iter().product::<usize>() as u64).sum()
}
