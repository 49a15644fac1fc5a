//! What can be wrong with a checkpoint, in words that say what to do next.

/// What can be wrong with a checkpoint: names file, tensor and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// The file or folder is not there, or cannot be read.
    #[error("cannot read {file}: {problem}")]
    Io {
        /// Path.
        file: String,
        /// What the system said, and what to try.
        problem: String,
    },
    /// The file is not what its name says, or is cut short.
    #[error("{file} is not usable: {problem}")]
    Format {
        /// Path.
        file: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// One tensor is wrong.
    #[error("{file}: tensor {tensor}: {problem}")]
    Tensor {
        /// Path.
        file: String,
        /// Tensor name.
        tensor: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A tensor that the model needs is not in the file.
    #[error(
        "{file} has no tensor {tensor}; it is another kind of model than its configuration says, or the file is incomplete"
    )]
    MissingTensor {
        /// Path.
        file: String,
        /// Tensor name.
        tensor: String,
    },
    /// The configuration is missing, incomplete or asks for something that is not supported.
    #[error("{file}: {problem}")]
    Config {
        /// Path.
        file: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// A drafter that was made for another target.
    #[error("{0}")]
    Mismatch(String),
    /// The device did not take the weights.
    #[error("{0}")]
    Device(String),
}

impl WeightsError {
    /// The system could not read `file`.
    pub(crate) fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        let problem = match error.kind() {
            std::io::ErrorKind::NotFound => "there is no such file or folder; check the path".to_owned(),
            std::io::ErrorKind::PermissionDenied => "permission denied; check who may read it".to_owned(),
            _ => error.to_string(),
        };
        Self::Io { file: file.into(), problem }
    }

    /// `file` has the wrong contents.
    pub(crate) fn format(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Format { file: file.into(), problem: problem.into() }
    }

    /// One tensor of `file` is wrong.
    pub(crate) fn tensor(file: impl Into<String>, tensor: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Tensor { file: file.into(), tensor: tensor.into(), problem: problem.into() }
    }

    /// The configuration in `file` is wrong.
    pub(crate) fn config(file: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Config { file: file.into(), problem: problem.into() }
    }
}
