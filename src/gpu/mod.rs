//! GPU and host sensors.
