//! Safetensors: one file, or several that an index names.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use ::safetensors::{Dtype, SafeTensors};

use super::{DType, Entry, WeightsError};

/// File of a model that fits one file.
pub(crate) const SINGLE: &str = "model.safetensors";
/// File that says which shard holds which tensor.
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Reads the header of one file, which becomes part number `part`, and adds its tensors.
pub(crate) fn parse(
    bytes: &[u8],
    file: &str,
    part: usize,
    tensors: &mut HashMap<String, Entry>,
) -> Result<(), WeightsError> {
    let (header, metadata) = SafeTensors::read_metadata(bytes).map_err(|e| {
        WeightsError::format(
            file,
            format!("{e} ({} bytes); it is cut short, damaged or not a safetensors file: fetch it again", bytes.len()),
        )
    })?;
    let start = header + size_of::<u64>();
    for (name, info) in metadata.tensors() {
        let dtype = dtype_of(info.dtype).map_err(|p| WeightsError::tensor(file, &name, p))?;
        let (from, to) = info.data_offsets;
        let size = dtype.tensor_bytes(&info.shape).map_err(|p| WeightsError::tensor(file, &name, p))?;
        let range = start + from..start + to;
        if range.end > bytes.len() || range.len() != size {
            return Err(WeightsError::tensor(
                file,
                name,
                format!("{size} bytes are expected, but the header gives it {}", range.len()),
            ));
        }
        let entry = Entry { dtype, shape: info.shape.clone(), part, range };
        if tensors.insert(name.clone(), entry).is_some() {
            return Err(WeightsError::tensor(file, name, "is in two files of the model"));
        }
    }
    Ok(())
}

/// Names of the shards in an index, in order.
pub(crate) fn shards(index: &[u8], file: &str) -> Result<Vec<String>, WeightsError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: HashMap<String, String>,
    }
    let index: Index = serde_json::from_slice(index)
        .map_err(|e| WeightsError::format(file, format!("it is not a safetensors index: {e}")))?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    if names.is_empty() {
        return Err(WeightsError::format(file, "it names no files"));
    }
    // A shard is a plain file name: an index must not make us read elsewhere.
    if let Some(bad) = names.iter().find(|n| Path::new(n).file_name().is_none_or(|f| f != n.as_str())) {
        return Err(WeightsError::format(file, format!("{bad:?} is not a plain file name")));
    }
    Ok(names.into_iter().collect())
}

fn dtype_of(dtype: Dtype) -> Result<DType, String> {
    Ok(match dtype {
        Dtype::F32 => DType::F32,
        Dtype::F16 => DType::F16,
        Dtype::BF16 => DType::BF16,
        Dtype::I32 => DType::I32,
        Dtype::I64 => DType::I64,
        Dtype::BOOL => DType::Bool,
        other => return Err(format!("is stored as {other}, which is not read; F32, F16 and BF16 weights are")),
    })
}
