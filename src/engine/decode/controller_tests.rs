//! The controller against machines and drafters that are made up.

use super::*;
use crate::engine::decode::costs::Measured;

/// Costs of a machine on which eight rows cost as much as 1.4.
fn flat() -> Measured {
    Measured {
        draft: vec![(8, 0.6)],
        feature: 0.01,
        verify: vec![(1, 5.0), (8, 7.0), (16, 10.0), (32, 20.0)],
        contexts: [64, 1024],
        deep: Vec::new(),
    }
}

/// Costs that rise by nearly a plain step a row.
fn steep() -> Measured {
    Measured { draft: vec![(8, 2.0)], verify: vec![(1, 5.0), (8, 30.0), (16, 60.0)], ..flat() }
}

/// A machine on which a short block pays and a whole one does not.
fn cut() -> Measured {
    Measured { draft: vec![(2, 0.5), (8, 9.0)], verify: vec![(1, 5.0), (2, 5.5), (8, 20.0)], ..flat() }
}

fn controller(measured: Measured) -> Controller {
    Controller::new(Costs::new(measured), 32)
}

const ALONE: Setting = Setting { others: 0, sequences: 1, context: 64 };

fn slots(p: f32, length: usize) -> Slots {
    let mut slots = Slots { k: 2, ..Slots::default() };
    for slot in 0..length as u32 {
        slots.ids.extend([slot * 2, slot * 2 + 1]);
        slots.logprobs.extend([p.ln(), ((1.0 - p) * 0.5).ln()]);
    }
    slots
}

#[test]
fn far_down_a_context_a_node_must_be_surer_to_be_worth_its_row() {
    let mut controller = controller(Measured { deep: vec![(1, 6.0), (32, 52.0)], ..flat() });
    let slots = slots(0.7, 7);
    let near = controller.choose(&Habit::default(), &slots, ALONE).len();
    let far = controller.choose(&Habit::default(), &slots, Setting { context: 4000, ..ALONE }).len();
    assert!(far < near, "{far} nodes at 4000 tokens, {near} at 64");
}

#[test]
fn a_forecast_says_what_is_chosen_and_why() {
    let mut controller = controller(flat());
    assert_eq!(controller.forecast(), None);
    let tree = controller.choose(&Habit::default(), &slots(0.9, 7), ALONE);
    let said = controller.forecast().unwrap().clone();
    assert_eq!((said.off_tok_s, said.nodes, said.pause), (200.0, tree.len(), 0));
    assert!(said.ddtree_tok_s >= said.dflash_tok_s && said.dflash_tok_s > 2.0 * said.off_tok_s, "{said:?}");
    assert_ne!(said.chosen, Mode::Off);
    let mut habit = Habit::expecting(-0.5);
    controller.rested(&mut habit, 0, ALONE);
    let said = controller.forecast().unwrap();
    assert_eq!((said.chosen, said.nodes, said.pause), (Mode::Off, 0, 49));
}

#[test]
fn cheap_rows_and_sure_drafts_make_long_proposals_and_dear_rows_none() {
    let sure = slots(0.95, 7);
    assert!(controller(flat()).choose(&Habit::default(), &sure, ALONE).len() >= 7);
    let doubtful = slots(0.2, 7);
    assert!(controller(steep()).choose(&Habit::default(), &doubtful, ALONE).is_empty());
}

/// A stream of numbers in 0..1.
fn chances() -> impl FnMut() -> f64 {
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Answers `tokens` tokens with a drafter whose every draft is right with probability `truth`, whatever it claims. The
/// machine costs what `real` says, which the controller does not know. Returns the milliseconds.
fn answer(
    controller: &mut Controller,
    habit: &mut Habit,
    real: &mut Costs,
    (claim, truth): (f32, f64),
    tokens: usize,
    chance: &mut impl FnMut() -> f64,
) -> f64 {
    let (mut out, mut ms, mut waiting) = (0, 0.0, 2);
    while out < tokens {
        let Some(block) = controller.slots(habit, 8, waiting, ALONE) else {
            let spent = real.verify_ms(1, 64);
            controller.costs().verified(1, 64, spent);
            waiting += 1;
            controller.rested(habit, waiting, ALONE);
            out += 1;
            ms += spent;
            continue;
        };
        let tree = controller.choose(habit, &slots(claim, block - 1), ALONE);
        // At every depth the first candidate is right with `truth`, the second never.
        let mut path = vec![0];
        let mut node = 0;
        while chance() < truth {
            let depth = if node == 0 { 1 } else { tree.depths[node - 1] + 1 };
            match tree.child(node, (depth as u32 - 1) * 2) {
                Some(child) => {
                    path.push(child);
                    node = child;
                }
                None => break,
            }
        }
        let (draft, verify) = (real.draft_ms(block) + real.catch_up_ms(waiting), real.verify_ms(tree.rows(), 64));
        controller.costs().verified(tree.rows(), 64, verify);
        controller.costs().drafted(block, waiting, draft);
        controller.saw(&tree, &path);
        let round = Drafted { slots: block, waiting, rows: tree.rows(), tokens: path.len(), draft_ms: None };
        controller.earned(habit, &round, ALONE);
        waiting = path.len();
        out += path.len();
        ms += draft + verify;
    }
    ms
}

/// Time of twenty answers against plain decoding (below 1 is faster), after a rehearsal.
fn play(measured: &Measured, real: &Measured, drafter: (f32, f64), tokens: usize) -> f64 {
    let mut controller = controller(measured.clone());
    let mut real = Costs::new(real.clone());
    let mut chance = chances();
    answer(&mut controller, &mut Habit::eager(), &mut real, drafter, 24, &mut chance);
    let mut ms = 0.0;
    for _ in 0..20 {
        let mut habit = controller.habit();
        ms += answer(&mut controller, &mut habit, &mut real, drafter, tokens, &mut chance);
    }
    ms / (20.0 * tokens as f64 * real.verify_ms(1, 64))
}

#[test]
fn a_useless_drafter_costs_next_to_nothing_however_long_answers_are() {
    for (measured, name) in [(steep(), "steep"), (flat(), "flat"), (cut(), "cut")] {
        for tokens in [3, 40, 256, 1_000] {
            let useless = play(&measured, &measured, (0.95, 0.0), tokens);
            assert!(useless < 1.02, "{name}: a useless drafter costs {useless} at {tokens} tokens");
        }
    }
}

#[test]
fn a_machine_other_than_measured_is_found_out() {
    // Rows are three times as dear as the measurement said: what looked like a gain is a loss.
    let real = Measured { verify: vec![(1, 5.0), (2, 12.0), (8, 21.0), (16, 30.0), (32, 60.0)], ..flat() };
    let fooled = play(&flat(), &real, (0.6, 0.5), 256);
    assert!(fooled < 1.03, "{fooled}");
}

#[test]
fn drafting_pays_where_it_can() {
    let good = play(&flat(), &flat(), (0.8, 0.8), 256);
    assert!(good < 0.5, "a good drafter takes {good}");
    let modest = play(&flat(), &flat(), (0.3, 0.7), 256);
    assert!(modest < 0.72, "an understated drafter takes {modest}");
    // Two slots at 0.8 make 1.8 tokens in 6 ms instead of 9; the whole block would take 29 for 4.2.
    let short = play(&cut(), &cut(), (0.8, 0.8), 256);
    assert!(short < 0.75, "a block that is cut takes {short}");
}

#[test]
fn text_that_suits_is_found_after_text_that_does_not() {
    let mut controller = controller(flat());
    let mut real = Costs::new(flat());
    let mut chance = chances();
    answer(&mut controller, &mut Habit::eager(), &mut real, (0.8, 0.0), 24, &mut chance);
    let mut habit = controller.habit();
    let ms = answer(&mut controller, &mut habit, &mut real, (0.8, 0.8), 1_000, &mut chance);
    assert!(ms / 5_000.0 < 0.6, "{}", ms / 5_000.0);
}
