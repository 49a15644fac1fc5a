//! Attaching to servers, against scripted ones on a loopback port.

mod attach;
mod foreign;
mod native;
mod scripted;
mod snapshot;
