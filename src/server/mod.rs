//! HTTP on top of the engine: OpenAI routes, telemetry, control.
