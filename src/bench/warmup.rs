//! When a mode is warm.

/// Rounds of warm-up at least.
pub const LEAST: usize = 3;
/// Rounds of warm-up at most: a machine that does not settle by then never will.
pub const MOST: usize = 8;
/// Rounds whose step times must agree.
const AGREE: usize = 3;
/// How far they may lie apart: (greatest − least) / least.
const SPREAD: f64 = 0.05;
/// Tokens of a warm-up answer: enough steps for a mean.
pub const TOKENS: usize = 48;

/// Step times of one mode's warm-up so far.
#[derive(Debug, Clone, Default)]
pub struct Warmup {
    steps: Vec<Option<f64>>,
}

impl Warmup {
    /// A round ended; its mean time between chunks, where there is one.
    pub fn round(&mut self, step_ms: Option<f64>) {
        self.steps.push(step_ms.filter(|step| step.is_finite() && *step > 0.0));
    }

    /// Whether another round would tell nothing new.
    pub fn is_over(&self) -> bool {
        self.steps.len() >= MOST || self.is_steady()
    }

    /// Whether the last step times agree.
    pub fn is_steady(&self) -> bool {
        if self.steps.len() < LEAST {
            return false;
        }
        let last = &self.steps[self.steps.len() - AGREE..];
        // A server that answers in one piece has no steps, and nothing that could settle.
        if last.iter().all(Option::is_none) {
            return true;
        }
        let Some(last) = last.iter().copied().collect::<Option<Vec<f64>>>() else { return false };
        let least = last.iter().copied().fold(f64::INFINITY, f64::min);
        let most = last.iter().copied().fold(0.0, f64::max);
        most - least < SPREAD * least
    }

    /// Rounds so far.
    pub fn rounds(&self) -> usize {
        self.steps.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds_of(steps: &[Option<f64>]) -> usize {
        let mut warmup = Warmup::default();
        for step in steps {
            if warmup.is_over() {
                break;
            }
            warmup.round(*step);
        }
        warmup.rounds()
    }

    #[test]
    fn it_goes_on_until_the_steps_agree() {
        let some = |steps: &[f64]| rounds_of(&steps.iter().map(|step| Some(*step)).collect::<Vec<_>>());
        assert_eq!(some(&[10.0, 10.1, 10.2, 10.0]), 3);
        assert_eq!(some(&[90.0, 20.0, 10.0, 10.1, 10.2, 10.0]), 5);
        assert_eq!(some(&[10.0, 20.0].repeat(9)), MOST);
        assert_eq!(some(&[10.0, 10.0, 10.5, 10.0, 10.0, 10.0]), 6, "5 % is not below 5 %");
        assert_eq!(rounds_of(&[None; 9]), 3);
        assert_eq!(rounds_of(&[Some(1.0), None, Some(1.0), Some(1.0), Some(1.0)]), 5);
        assert_eq!(rounds_of(&[Some(f64::NAN); 9]), 3);
    }
}
