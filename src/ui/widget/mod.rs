//! Widgets: each draws one kind of thing into an area, from data and a look, and knows nothing of screens.

pub mod acceptance_strip;
pub mod chart;
pub mod difference;
pub mod export_menu;
pub mod footer;
pub mod header;
pub mod help;
pub mod interval_bar;
pub mod latency_table;
pub mod log_view;
pub mod mode_menu;
pub mod palette;
pub mod plan_form;
pub mod plot;
pub mod prompt_box;
pub mod results;
pub mod run_live;
pub mod run_plots;
pub mod run_table;
pub mod sensor_panel;
pub mod stage_bar;
pub mod theme_list;
pub mod throughput;
pub mod token_stream;
