//! What can go wrong between here and the hub, in words that say what to do next.

/// Why a model of the hub is not at hand.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HubError {
    /// No such repository, or one that this user may not see.
    #[error(
        "{repo} is no file or folder here, and the hub has no such model, or it is private: check the name{}",
        if *.token { " and whether your token may read it" } else { "; for a private model set HF_TOKEN" }
    )]
    NoRepository {
        /// The name.
        repo: String,
        /// A token was sent.
        token: bool,
    },
    /// No such revision.
    #[error("{repo} has no revision {revision}; leave it out for the newest")]
    NoRevision {
        /// The repository.
        repo: String,
        /// The revision.
        revision: String,
    },
    /// A model whose licence has to be accepted first.
    #[error(
        "{repo} is gated: accept its terms on its page on the hub{}",
        if *.token { ", with the account that your token belongs to" } else { ", then set HF_TOKEN to a token of that account" }
    )]
    Gated {
        /// The repository.
        repo: String,
        /// A token was sent.
        token: bool,
    },
    /// The token is not valid.
    #[error("the hub does not accept the token for {repo}: set HF_TOKEN to a valid one, or unset it for public models")]
    BadToken {
        /// The repository.
        repo: String,
    },
    /// Nothing in the repository can be used.
    #[error("{repo}: {problem}")]
    NoFile {
        /// The repository.
        repo: String,
        /// What was looked for, and what there is.
        problem: String,
    },
    /// Offline, and not in the cache.
    #[error(
        "{repo} is no file or folder here and not in the cache ({cache}), and spectop is offline (--offline, HF_HUB_OFFLINE or SPECTOP_OFFLINE): fetch it once with `spectop setup --target {repo}` while online"
    )]
    Offline {
        /// The repository.
        repo: String,
        /// Folder of the cache.
        cache: String,
    },
    /// The hub cannot be reached.
    #[error(
        "{repo} is no file or folder here, and the hub cannot be reached: {problem}; check the network, or give a path to the files"
    )]
    Network {
        /// The repository.
        repo: String,
        /// What the system said.
        problem: String,
    },
    /// A transfer broke off and could not be taken up again.
    #[error("fetching {file} of {repo} broke off: {problem}; what has come is kept, so try again to go on from there")]
    Broken {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// The hub gave another file than it announced.
    #[error("{file} of {repo} came damaged ({problem}) and was removed; try again")]
    Damaged {
        /// The repository.
        repo: String,
        /// The file.
        file: String,
        /// What was found and what was expected.
        problem: String,
    },
    /// Too many requests.
    #[error("the hub asks for a pause before it gives {repo}; try again in a few minutes, or set HF_TOKEN")]
    RateLimited {
        /// The repository.
        repo: String,
    },
    /// Any other answer.
    #[error("the hub answered {status} for {repo}{}; try again later", if .message.is_empty() { String::new() } else { format!(" ({})", .message) })]
    Server {
        /// The repository.
        repo: String,
        /// Status code.
        status: u16,
        /// What it said.
        message: String,
    },
    /// Not enough room.
    #[error(
        "{repo} needs {needed} more in {folder}, but only {free} are free; make room, or set HF_HOME to a folder on another disk"
    )]
    DiskFull {
        /// The repository.
        repo: String,
        /// Bytes, in words.
        needed: String,
        /// Bytes, in words.
        free: String,
        /// Folder of the cache.
        folder: String,
    },
    /// The cache cannot be written.
    #[error(
        "cannot write to the model cache {folder}: {problem}; check who may write there, or set HF_HOME to another folder"
    )]
    Cache {
        /// Folder of the cache.
        folder: String,
        /// What the system said.
        problem: String,
    },
    /// The model is not one that can be run: found out before its weights were fetched.
    #[error("{repo} was not fetched: {problem}")]
    NotLoadable {
        /// The repository.
        repo: String,
        /// Why.
        problem: String,
    },
}

/// Bytes as people say them.
pub fn bytes(n: u64) -> String {
    match n {
        0..1_000 => format!("{n} B"),
        1_000..1_000_000 => format!("{:.0} kB", n as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.0} MB", n as f64 / 1e6),
        _ => format!("{:.1} GB", n as f64 / 1e9),
    }
}
