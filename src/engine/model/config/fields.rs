//! Typed access to configuration values, with errors that name file and key.

use serde_json::{Map, Value};

use crate::engine::weights::WeightsError;
use crate::engine::weights::gguf::{self, Metadata};

/// No dimension of a real model comes near this; a damaged file must not make us allocate by it.
const MAX_SIZE: u64 = 1 << 24;

/// The objects in which a key is looked up, in order, and the file they come from.
pub(super) struct Fields<'a> {
    pub(super) file: &'a str,
    pub(super) objects: Vec<&'a Map<String, Value>>,
}

impl<'a> Fields<'a> {
    /// The first value that is there and not `null`.
    pub(super) fn get(&self, key: &str) -> Option<&'a Value> {
        self.objects.iter().find_map(|o| o.get(key).filter(|v| !v.is_null()))
    }

    pub(super) fn wrong(&self, problem: impl Into<String>) -> WeightsError {
        WeightsError::config(self.file, problem)
    }

    fn is_not(&self, key: &str, found: &Value, wanted: &str) -> WeightsError {
        self.wrong(format!("{key} is {found}, but it must be {wanted}"))
    }

    fn missing(&self, key: &str) -> WeightsError {
        self.wrong(format!("{key} is missing; the file is incomplete or belongs to another kind of model"))
    }

    /// A size of at least 1.
    pub(super) fn optional_size(&self, key: &str) -> Result<Option<usize>, WeightsError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(n @ 1..=MAX_SIZE) => Ok(Some(n as usize)),
            _ => Err(self.is_not(key, value, "a whole number of at least 1 and of sensible size")),
        }
    }

    pub(super) fn size(&self, key: &str) -> Result<usize, WeightsError> {
        self.optional_size(key)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn optional_float(&self, key: &str) -> Result<Option<f64>, WeightsError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_f64().map(Some).ok_or_else(|| self.is_not(key, value, "a number"))
    }

    pub(super) fn float(&self, key: &str) -> Result<f64, WeightsError> {
        self.optional_float(key)?.ok_or_else(|| self.missing(key))
    }

    pub(super) fn optional_bool(&self, key: &str) -> Result<Option<bool>, WeightsError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.is_not(key, value, "true or false"))
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<&'a str>, WeightsError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.is_not(key, value, "a text"))
    }

    /// A list of whole numbers, or one of them alone.
    pub(super) fn optional_numbers(&self, key: &str) -> Result<Option<Vec<usize>>, WeightsError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let one = std::slice::from_ref(value);
        let list = value.as_array().map_or(one, Vec::as_slice);
        let numbers: Option<Vec<usize>> =
            list.iter().map(|v| v.as_u64().and_then(|n| u32::try_from(n).ok()).map(|n| n as usize)).collect();
        numbers.map(Some).ok_or_else(|| self.is_not(key, value, "a list of whole numbers"))
    }
}

/// GGUF metadata with errors that name file and key.
pub(super) struct Keys<'a> {
    pub(super) file: &'a str,
    pub(super) metadata: &'a Metadata,
    pub(super) arch: &'a str,
}

impl Keys<'_> {
    pub(super) fn wrong(&self, problem: impl Into<String>) -> WeightsError {
        WeightsError::config(self.file, problem)
    }

    pub(super) fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.arch)
    }

    /// A size of at least 1; an array counts when all its elements are the same.
    pub(super) fn optional_size(&self, name: &str) -> Result<Option<usize>, WeightsError> {
        let key = self.key(name);
        let Some(value) = self.metadata.get(&key) else { return Ok(None) };
        let n = match value {
            gguf::Value::Integers(list) if list.windows(2).all(|w| w[0] == w[1]) => {
                list.first().and_then(|&n| u64::try_from(n).ok())
            }
            gguf::Value::Integers(_) => {
                return Err(self.wrong(format!("{key} differs between layers, which is not supported")));
            }
            _ => self.metadata.unsigned(&key),
        };
        match n {
            Some(n @ 1..=MAX_SIZE) => Ok(Some(n as usize)),
            _ => Err(self.wrong(format!("{key} must be a whole number of at least 1 and of sensible size"))),
        }
    }

    pub(super) fn size(&self, name: &str) -> Result<usize, WeightsError> {
        self.optional_size(name)?
            .ok_or_else(|| self.wrong(format!("{} is missing; the file is incomplete: fetch it again", self.key(name))))
    }

    pub(super) fn float(&self, name: &str) -> Option<f64> {
        self.metadata.float(&self.key(name))
    }
}
