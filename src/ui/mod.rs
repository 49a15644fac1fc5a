//! The terminal interface: model, update, view. No I/O, no clock.
//!
//! [`app::Model`] is everything the screen knows; [`app::Model::update`] turns a message into effects; [`view::draw`]
//! is a pure function of the model and an area. Whoever owns the terminal (`cli/screen_loop.rs`) feeds messages in and
//! carries the effects out.

pub mod action;
pub mod app;
pub mod ascii;
pub mod color;
pub mod data;
pub mod editor;
pub mod filter;
pub mod format;
pub mod history;
pub mod log;
pub mod mode_switch;
pub mod paint;
pub mod playground;
pub mod race;
pub mod record;
pub mod replay;
pub mod rounds;
pub mod run;
pub mod screen;
pub mod sensors;
pub mod speeds;
pub mod stream;
pub mod svg;
pub mod terminal;
pub mod text;
pub mod theme;
pub mod tree;
pub mod view;
pub mod widget;
pub mod wrap;
