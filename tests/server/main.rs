//! The server over real loopback sockets, with a scripted engine behind it.

mod control;
mod errors;
mod fuzz;
mod generation;
mod guard;
mod hang_up;
mod lifecycle;
mod prometheus;
mod scripted;
mod telemetry;
