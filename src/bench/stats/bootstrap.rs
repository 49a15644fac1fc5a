//! The cluster bootstrap: prompts are drawn again, then the repeats within each.

use super::percentile;

/// Draws of a comparison that is kept.
pub const DRAWS: usize = 10_000;

/// SplitMix64 (Steele, Lea, Flood 2014). A generator of our own, because an interval in a file must come out the same
/// with every version of every library.
#[derive(Debug, Clone)]
pub struct Rng(u64);

impl Rng {
    /// A generator; the same seed gives the same numbers.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Evenly from `0..n`, by the high half of a product; the bias is below n / 2⁶⁴. `n` must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.bits()) * n as u128) >> 64) as usize
    }

    /// Evenly from [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Percentile interval of the mean over clusters (each cluster counts once, as the mean of its values), and the
/// two-sided p-value of mean = 0: twice the smaller share of draws on either side of 0, one draw added to both so that
/// no finite number of draws claims p = 0 (Davison and Hinkley 1997, 4.2.5). Absent below two clusters that hold
/// anything, or without draws.
pub fn cluster_bootstrap(clusters: &[Vec<f64>], draws: usize, seed: u64, confidence: f64) -> Option<([f64; 2], f64)> {
    let clusters: Vec<&[f64]> = clusters.iter().map(Vec::as_slice).filter(|values| !values.is_empty()).collect();
    if clusters.len() < 2 || draws == 0 {
        return None;
    }
    let mut rng = Rng::new(seed);
    let mut means: Vec<f64> = (0..draws)
        .map(|_| {
            let sum: f64 = (0..clusters.len())
                .map(|_| {
                    let values = clusters[rng.below(clusters.len())];
                    (0..values.len()).map(|_| values[rng.below(values.len())]).sum::<f64>() / values.len() as f64
                })
                .sum();
            sum / clusters.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    let tail = (1.0 - confidence) / 2.0 * 100.0;
    let interval = [percentile(&means, tail)?, percentile(&means, 100.0 - tail)?];
    let at_most = means.partition_point(|mean| *mean <= 0.0);
    let at_least = draws - means.partition_point(|mean| *mean < 0.0);
    let p = 2.0 * (at_most.min(at_least) + 1) as f64 / (draws + 1) as f64;
    Some((interval, p.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // First outputs for seed 1234567, as in the published reference implementation's test vector.
        let mut rng = Rng::new(1_234_567);
        assert_eq!(rng.bits(), 6_457_827_717_110_365_317);
        assert_eq!(rng.bits(), 3_203_168_211_198_807_973);
        assert_eq!(rng.bits(), 9_817_491_932_198_370_423);
    }

    #[test]
    fn draws_are_even_and_in_range() {
        let mut rng = Rng::new(1);
        let mut counts = [0; 6];
        for _ in 0..60_000 {
            counts[rng.below(6)] += 1;
            assert!((0.0..1.0).contains(&rng.unit()));
        }
        assert!(counts.iter().all(|count| (9_500..10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn too_few_clusters_give_no_interval() {
        assert_eq!(cluster_bootstrap(&[vec![1.0], vec![]], 100, 1, 0.95), None);
        assert_eq!(cluster_bootstrap(&[vec![1.0], vec![1.0]], 0, 1, 0.95), None);
        assert!(cluster_bootstrap(&[vec![1.0], vec![1.0]], 100, 1, 0.95).is_some());
    }

    #[test]
    fn a_clear_difference_has_the_least_p() {
        let clusters: Vec<Vec<f64>> = (0..10).map(|i| vec![0.5 + 0.01 * i as f64; 3]).collect();
        let (interval, p) = cluster_bootstrap(&clusters, 1_000, 7, 0.95).unwrap();
        assert!(interval[0] > 0.5 && interval[1] < 0.6);
        assert_eq!(p, 2.0 / 1_001.0);
    }
}
