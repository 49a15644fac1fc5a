//! The tree and GPU screens: what keys do there.

use crate::ui::action::Action;
use crate::ui::playground::walk::Walk;
use crate::ui::rounds::Traced;
use crate::ui::theme::Role;
use crate::ui::tree::layout;

use super::{Effect, Model};

/// Rounds that a page moves by.
const PAGE: isize = 10;

impl Model {
    /// The request whose rounds the tree shows: the one that was chosen, else the newest.
    pub fn tree_rounds(&self) -> Option<&Traced> {
        let traces = &self.shown().traces;
        let chosen = self.walk.request.as_ref().and_then(|id| traces.get(id)).filter(|t| !t.rounds.is_empty());
        chosen.or_else(|| traces.newest())
    }

    pub(super) fn tree_action(&mut self, action: Action) -> Vec<Effect> {
        match action {
            Action::StepBack => self.step_tree(-1),
            Action::StepOn => self.step_tree(1),
            Action::PageUp => self.step_tree(-PAGE),
            Action::PageDown => self.step_tree(PAGE),
            Action::FirstStep => self.step_tree(isize::MIN),
            Action::LastStep => {
                self.walk.at = None;
                self.walk.node = None;
            }
            Action::Up => self.select_node(-1),
            Action::Down => self.select_node(1),
            Action::NextRequest => self.next_request(),
            Action::Newest => self.walk = Walk::default(),
            Action::Zoom => {
                self.zoom.next();
                self.walk.node = None;
                let text = if self.zoom.least > 0.0 {
                    format!("branches below {:.2} of probability are hidden", self.zoom.least)
                } else {
                    "all branches".into()
                };
                self.say(Role::StateOk, text);
            }
            Action::LeftOut => {
                self.zoom.left_out = !self.zoom.left_out;
                self.walk.node = None;
                let word = if self.zoom.left_out { "shown" } else { "hidden" };
                self.say(Role::StateOk, format!("candidates that the budget left out are {word}"));
            }
            Action::Close => {
                self.toast = None;
                if self.walk.node.take().is_none() {
                    self.walk.at = None;
                }
            }
            other => return self.dashboard_action(other),
        }
        Vec::new()
    }

    fn step_tree(&mut self, by: isize) {
        let Some(traced) = self.tree_rounds() else { return };
        let mut walk = self.walk.clone();
        // From here on this request is looked at: a newer one must not take its place in the middle of a walk.
        walk.request = Some(traced.id.clone());
        walk.go(traced, by);
        self.walk = walk;
    }

    fn select_node(&mut self, by: isize) {
        let Some(round) = self.tree_rounds().and_then(|t| self.walk.round(t)) else { return };
        let last = layout(round, self.zoom).places.len().saturating_sub(1);
        // The root says nothing that one does not know: the first step is to the first draft.
        let now = self.walk.node.map_or(if by > 0 { 1 } else { last }, |n| n.saturating_add_signed(by));
        let traced = self.tree_rounds().map(|t| (t.id.clone(), self.walk.index(t)));
        self.walk.node = Some(now.min(last));
        // A tree that is replaced under the cursor cannot be looked at.
        if let Some((id, at)) = traced {
            self.walk.request = Some(id);
            self.walk.at = at;
        }
    }

    fn next_request(&mut self) {
        let ids: Vec<String> =
            self.shown().traces.iter().filter(|t| !t.rounds.is_empty()).map(|t| t.id.clone()).collect();
        let now = self.tree_rounds().and_then(|t| ids.iter().position(|id| *id == t.id));
        let Some(now) = now else {
            self.say(Role::StateWarn, "no requests yet");
            return;
        };
        let next = ids[(now + 1) % ids.len()].clone();
        self.say(Role::StateOk, format!("looking at {next}; f follows the newest"));
        self.walk = Walk { request: Some(next), ..Walk::default() };
    }

    pub(super) fn gpu_action(&mut self, action: Action) -> Vec<Effect> {
        let gpus = crate::ui::widget::sensor_panel::readings(self).0.map_or(0, |s| s.gpus.len());
        match action {
            Action::Up => self.gpu = self.gpu.min(gpus.saturating_sub(1)).saturating_sub(1),
            Action::Down => self.gpu = (self.gpu + 1).min(gpus.saturating_sub(1)),
            Action::Close => self.toast = None,
            other => return self.dashboard_action(other),
        }
        Vec::new()
    }
}
