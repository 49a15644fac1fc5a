//! The controller against machines and drafters that are made up.

use super::*;

/// Costs of a machine on which eight rows cost as much as 1.4.
fn flat() -> Costs {
    Costs {
        draft: 0.6,
        verify: vec![(1, 5.0), (8, 7.0), (16, 10.0), (32, 20.0)],
        contexts: [64, 1024],
        deep: Vec::new(),
    }
}

/// Costs that rise by nearly a plain step a row.
fn steep() -> Costs {
    Costs { draft: 2.0, verify: vec![(1, 5.0), (8, 30.0), (16, 60.0)], contexts: [64, 1024], deep: Vec::new() }
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
fn costs_interpolate_and_extrapolate() {
    let costs = flat();
    assert_eq!((costs.verify_ms(1, 64), costs.verify_ms(8, 64), costs.verify_ms(12, 64)), (5.0, 7.0, 8.5));
    assert_eq!(costs.verify_ms(48, 64), 30.0);
    assert!((costs.verify_ms(4, 64) - (5.0 + 3.0 * 2.0 / 7.0)).abs() < 1e-12);
}

#[test]
fn long_contexts_cost_more() {
    let costs = Costs { deep: vec![(1, 6.0), (32, 52.0)], ..flat() };
    assert_eq!(costs.verify_ms(1, 64), 5.0);
    assert_eq!(costs.verify_ms(1, 1024), 6.0);
    assert_eq!(costs.verify_ms(32, 1024 + 960), 84.0);
    // Deep down a node must be surer to be worth its row.
    let slots = slots(0.7, 7);
    let mut controller = Controller::new(costs, 32);
    let near = controller.choose(&Habit::default(), &slots, ALONE).len();
    let far = controller.choose(&Habit::default(), &slots, Setting { context: 4000, ..ALONE }).len();
    assert!(far < near, "{far} nodes at 4000 tokens, {near} at 64");
}

#[test]
fn a_forecast_says_what_is_chosen_and_why() {
    let mut controller = Controller::new(flat(), 32);
    assert_eq!(controller.forecast(), None);
    let tree = controller.choose(&Habit::default(), &slots(0.9, 7), ALONE);
    let said = controller.forecast().unwrap().clone();
    assert_eq!((said.off_tok_s, said.nodes, said.pause), (200.0, tree.len(), 0));
    assert!(said.ddtree_tok_s >= said.dflash_tok_s && said.dflash_tok_s > 2.0 * said.off_tok_s, "{said:?}");
    assert_ne!(said.chosen, Mode::Off);
    controller.rests(12);
    let said = controller.forecast().unwrap();
    assert_eq!((said.chosen, said.nodes, said.pause), (Mode::Off, 0, 12));
}

#[test]
fn a_new_sequence_knows_what_others_have_learnt() {
    let mut controller = Controller::new(steep(), 32);
    assert_eq!(controller.habit(), Habit::default());
    let mut habit = controller.habit();
    for _ in 0..TRIAL {
        let tree = controller.choose(&habit, &slots(0.9, 7), ALONE);
        controller.learn(&mut habit, &tree, &[0], Some(2.0), ALONE);
    }
    assert!(!habit.drafts());
    let mut next = controller.habit();
    assert!(next.drafts());
    let tree = controller.choose(&next, &slots(0.9, 7), ALONE);
    controller.learn(&mut next, &tree, &[0], Some(2.0), ALONE);
    assert_eq!(next.pause(), PAUSE[0] * 2, "one round is enough where drafting lost before");
}

#[test]
fn cheap_rows_and_sure_drafts_make_long_proposals_and_dear_rows_none() {
    let sure = slots(0.95, 7);
    assert!(Controller::new(flat(), 32).choose(&Habit::default(), &sure, ALONE).len() >= 7);
    let doubtful = slots(0.2, 7);
    assert!(Controller::new(steep(), 32).choose(&Habit::default(), &doubtful, ALONE).is_empty());
}

/// Plays rounds of a drafter whose every draft is right with probability `truth`, whatever it claims. Returns the
/// time against plain decoding (below 1 is faster).
fn play(costs: &Costs, claim: f32, truth: f64, tokens: usize) -> f64 {
    let mut controller = Controller::new(costs.clone(), 32);
    let mut habit = Habit::default();
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    let mut chance = move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as f64 / (1u64 << 53) as f64
    };
    let (mut out, mut ms) = (0, 0.0);
    while out < tokens {
        if !habit.drafts() {
            habit.passed();
            out += 1;
            ms += costs.verify_ms(1, 64);
            continue;
        }
        let tree = controller.choose(&habit, &slots(claim, 7), ALONE);
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
        let spent = costs.draft + costs.verify_ms(tree.rows(), 64);
        controller.learn(&mut habit, &tree, &path, Some(costs.draft), ALONE);
        out += path.len();
        ms += spent;
    }
    ms / (out as f64 * costs.verify_ms(1, 64))
}

#[test]
fn never_loses_much_and_wins_where_it_can() {
    // A drafter that claims to be sure and is always wrong.
    let useless = play(&steep(), 0.95, 0.0, 2_000);
    assert!(useless < 1.03, "a useless drafter costs {useless}");
    let useless = play(&flat(), 0.95, 0.0, 2_000);
    assert!(useless < 1.03, "a useless drafter costs {useless}");
    // A good one on a flat machine.
    let good = play(&flat(), 0.8, 0.8, 2_000);
    assert!(good < 0.55, "a good drafter takes {good}");
    // A modest one that understates itself.
    let modest = play(&flat(), 0.3, 0.7, 2_000);
    assert!(modest < 0.72, "an understated drafter takes {modest}");
}

#[test]
fn a_pause_ends_and_grows() {
    let mut habit = Habit::default();
    for _ in 0..TRIAL {
        assert!(habit.drafts());
        habit.earned(-1.0);
    }
    for _ in 0..PAUSE[0] {
        assert!(!habit.drafts());
        habit.passed();
    }
    assert!(habit.drafts());
    for _ in 0..SHORT_TRIAL {
        habit.earned(-1.0);
    }
    assert_eq!(habit.pause, PAUSE[0] * 2);
}
