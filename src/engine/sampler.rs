//! Choosing tokens: distributions after temperature, top-k and top-p; draws; rejection of sampled drafts. Pure.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::api::Sampling;
use super::backend::cpu::log_sum_exp;

/// A distribution over token ids. Ids that are not listed have probability 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution {
    /// `(id, probability)`, ids rising. Probabilities sum to 1.
    pub entries: Vec<(u32, f32)>,
}

impl Distribution {
    /// Temperature first, then the `top_k` best, softmax, then top-p: a token stays if the probability of those before
    /// it is below `top_p`; then normalised anew (the order of the reference, specification 1.10.1). `name` maps
    /// a column of `logits` to a token id and must rise.
    pub fn new(logits: &[f32], sampling: &Sampling, name: impl Fn(usize) -> u32) -> Self {
        let temperature = sampling.temperature.max(1e-6);
        let mut order: Vec<usize> = (0..logits.len()).filter(|&i| !logits[i].is_nan()).collect();
        let by_logit = |&a: &usize, &b: &usize| logits[b].total_cmp(&logits[a]).then(a.cmp(&b));
        if sampling.top_k > 0 && sampling.top_k < order.len() {
            order.select_nth_unstable_by(sampling.top_k - 1, by_logit);
            order.truncate(sampling.top_k);
        }
        let max = order.iter().fold(f32::NEG_INFINITY, |m, &i| m.max(logits[i]));
        let mut weights: Vec<(usize, f64)> =
            order.into_iter().map(|i| (i, f64::from((logits[i] - max) / temperature).exp())).collect();
        if sampling.top_p < 1.0 {
            let total: f64 = weights.iter().map(|w| w.1).sum();
            weights.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            let limit = f64::from(sampling.top_p) * total;
            let mut before = 0.0;
            let mut keep = 0;
            for w in &weights {
                if keep > 0 && before >= limit {
                    break;
                }
                before += w.1;
                keep += 1;
            }
            weights.truncate(keep);
        }
        weights.sort_unstable_by_key(|w| w.0);
        let total: f64 = weights.iter().map(|w| w.1).sum();
        Self { entries: weights.into_iter().map(|(i, w)| (name(i), (w / total) as f32)).collect() }
    }

    /// Probability of a token.
    pub fn probability(&self, id: u32) -> f32 {
        self.entries.binary_search_by_key(&id, |e| e.0).map_or(0.0, |i| self.entries[i].1)
    }

    /// A draw by `u` from `[0, 1)`.
    pub fn draw(&self, u: f32) -> u32 {
        let total: f64 = self.entries.iter().map(|e| f64::from(e.1)).sum();
        let mut left = f64::from(u) * total;
        for &(id, p) in &self.entries {
            left -= f64::from(p);
            if left < 0.0 {
                return id;
            }
        }
        self.entries.iter().rev().find(|e| e.1 > 0.0).map_or(0, |e| e.0)
    }

    /// `norm(max(0, self − q))`: what is drawn from after a sampled draft was rejected. Where nothing is left
    /// (`q` covers `self`), `self`.
    #[must_use]
    pub fn residual(&self, q: &Distribution) -> Distribution {
        let rest: Vec<(u32, f32)> =
            self.entries.iter().map(|&(id, p)| (id, (p - q.probability(id)).max(0.0))).filter(|e| e.1 > 0.0).collect();
        let total: f32 = rest.iter().map(|e| e.1).sum();
        if total <= 0.0 {
            return self.clone();
        }
        Distribution { entries: rest.into_iter().map(|(id, p)| (id, p / total)).collect() }
    }
}

/// Walks a chain of drafts that were drawn from `q` (specification 1.10.1): accepts draft `j` with probability
/// `min(1, p/q)`; at the first rejection draws from the residual. Returns the accepted count and the bonus token. The
/// outcome is distributed exactly as draws from `p`.
pub fn reject_chain(
    drafts: &[u32],
    q: &[Distribution],
    mut p: impl FnMut(usize) -> Distribution,
    random: &mut StdRng,
) -> (usize, u32) {
    for (j, (&draft, q)) in drafts.iter().zip(q).enumerate() {
        let target = p(j);
        let u: f32 = random.random();
        if u * q.probability(draft) >= target.probability(draft) {
            return (j, target.residual(q).draw(random.random()));
        }
    }
    (drafts.len(), p(drafts.len()).draw(random.random()))
}

/// The random stream of a request.
pub fn stream(seed: Option<u64>) -> StdRng {
    seed.map_or_else(|| StdRng::from_rng(&mut rand::rng()), StdRng::seed_from_u64)
}

/// The `k` greatest entries of a row as `(index, log-probability)`, greatest first, ties to the lower index.
///
/// Only chunks whose greatest value reaches the `k`-th greatest chunk maximum can hold one of them: `k` chunks have a
/// value at least that large. This leaves a handful of chunks of a vocabulary to sort.
pub fn top_k(logits: &[f32], k: usize) -> Vec<(u32, f32)> {
    const CHUNK: usize = 32;
    let k = k.min(logits.len());
    if k == 0 {
        return Vec::new();
    }
    let peak = |chunk: &[f32]| chunk.iter().fold(f32::NEG_INFINITY, |m, &v| m.max(v));
    let peaks: Vec<f32> = logits.chunks(CHUNK).map(peak).collect();
    let mut sorted = peaks.clone();
    let bar = if k < sorted.len() {
        *sorted.select_nth_unstable_by(k - 1, |a, b| b.total_cmp(a)).1
    } else {
        f32::NEG_INFINITY
    };
    let mut order: Vec<u32> = Vec::with_capacity(2 * k * CHUNK);
    for (c, _) in peaks.iter().enumerate().filter(|(_, peak)| **peak >= bar) {
        let from = c * CHUNK;
        let to = (from + CHUNK).min(logits.len());
        order.extend((from..to).filter(|&i| logits[i] >= bar).map(|i| i as u32));
    }
    let by_logit = |&a: &u32, &b: &u32| logits[b as usize].total_cmp(&logits[a as usize]).then(a.cmp(&b));
    if k < order.len() {
        order.select_nth_unstable_by(k - 1, by_logit);
        order.truncate(k);
    }
    order.sort_unstable_by(by_logit);
    // Values that are no numbers (a damaged checkpoint) are never above the bar; callers still get their k entries.
    let missing = (0..logits.len() as u32).filter(|i| logits[*i as usize].is_nan()).take(k - order.len());
    order.extend(missing);
    let norm = log_sum_exp(logits);
    order.into_iter().map(|i| (i, logits[i as usize] - norm)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sampling(temperature: f32, top_k: usize, top_p: f32) -> Sampling {
        Sampling { temperature, top_p, top_k, seed: None }
    }

    #[test]
    fn top_k_and_top_p_follow_the_reference_order() {
        let logits = [0.0f32, 2.0, 1.0, -1.0].map(|p: f32| p);
        let all = Distribution::new(&logits, &sampling(1.0, 0, 1.0), |i| i as u32);
        assert_eq!(all.entries.len(), 4);
        assert!((all.entries.iter().map(|e| e.1).sum::<f32>() - 1.0).abs() < 1e-6);
        let two = Distribution::new(&logits, &sampling(1.0, 2, 1.0), |i| i as u32);
        assert_eq!(two.entries.iter().map(|e| e.0).collect::<Vec<_>>(), [1, 2]);
        // 0.644, 0.237, 0.087, 0.032: the second stays because 0.644 < 0.7, the third goes because 0.881 ≥ 0.7.
        let nucleus = Distribution::new(&logits, &sampling(1.0, 0, 0.7), |i| i as u32);
        assert_eq!(nucleus.entries.iter().map(|e| e.0).collect::<Vec<_>>(), [1, 2]);
        let one = Distribution::new(&logits, &sampling(1.0, 0, 0.01), |i| i as u32);
        assert_eq!(one.entries, [(1, 1.0)]);
    }

    #[test]
    fn ties_go_to_the_lower_index() {
        assert_eq!(top_k(&[1.0, 3.0, 3.0, 0.0], 2).iter().map(|e| e.0).collect::<Vec<_>>(), [1, 2]);
    }

    #[test]
    fn damaged_logits_still_give_k_entries() {
        assert_eq!(top_k(&[f32::NAN; 40], 3).len(), 3);
        assert_eq!(top_k(&[f32::NAN, 1.0, f32::NAN], 2).iter().map(|e| e.0).collect::<Vec<_>>(), [1, 0]);
    }

    proptest! {
        #[test]
        fn top_k_is_a_full_sort(mut x in proptest::collection::vec(-4.0f32..4.0, 1..400), k in 1usize..80, ties in 0usize..50) {
            for i in 0..ties.min(x.len() / 2) {
                let v = x[i];
                let at = x.len() - 1 - i;
                x[at] = v;
            }
            let mut order: Vec<u32> = (0..x.len() as u32).collect();
            order.sort_by(|&a, &b| x[b as usize].total_cmp(&x[a as usize]).then(a.cmp(&b)));
            order.truncate(k);
            let got: Vec<u32> = top_k(&x, k).iter().map(|e| e.0).collect();
            prop_assert_eq!(got, order);
        }

        /// Over many draws, rejection with any `q` reproduces `p`.
        #[test]
        fn rejection_is_lossless(seed in 0u64..1_000_000) {
            let p = Distribution { entries: vec![(0, 0.5), (1, 0.3), (3, 0.2)] };
            let q = Distribution { entries: vec![(0, 0.1), (1, 0.2), (2, 0.6), (3, 0.1)] };
            let mut random = stream(Some(seed));
            let mut counts = [0u32; 4];
            let n = 4000;
            for _ in 0..n {
                let draft = q.draw(random.random());
                let (accepted, bonus) = reject_chain(&[draft], std::slice::from_ref(&q), |_| p.clone(), &mut random);
                counts[if accepted == 1 { draft } else { bonus } as usize] += 1;
            }
            let chi: f64 = [0.5, 0.3, 0.2].iter().zip([counts[0], counts[1], counts[3]])
                .map(|(&p, c)| { let e = p * f64::from(n); (f64::from(c) - e).powi(2) / e }).sum();
            // 2 degrees of freedom; P(chi > 27.6) = 1e-6.
            prop_assert!(chi < 27.6, "{:?}", counts);
            prop_assert_eq!(counts[2], 0);
        }
    }
}
