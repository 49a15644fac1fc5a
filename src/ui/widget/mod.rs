//! Widgets: each draws one kind of thing into an area, from data and a look, and knows nothing of screens.

pub mod acceptance_strip;
pub mod chart;
pub mod footer;
pub mod header;
pub mod help;
pub mod latency_table;
pub mod log_view;
pub mod mode_menu;
pub mod prompt_box;
pub mod sensor_panel;
pub mod stage_bar;
pub mod throughput;
pub mod token_stream;
