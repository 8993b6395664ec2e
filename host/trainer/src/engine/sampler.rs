//! Choosing a token for each row of logits, with what is recorded of it.
//!
//! Uniform numbers come from the caller and are sent through the inverse of the distribution function, so that a
//! token depends on its request's own stream and on its own row alone.
#![allow(non_snake_case)]

use gymkhana_rollout::Sampling;
use tch::{Kind, TchError, Tensor};

use crate::loss::entropies;

/// How a row's token is chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub sampling: Sampling,
    /// A number in [0, 1); of no meaning for greedy choices.
    pub uniform: f64,
}

/// A chosen token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Chosen {
    pub token: u32,
    /// Under the untruncated distribution that it was drawn from; that at temperature 1 for a greedy choice.
    pub log_prob: f32,
    /// Of that distribution, in nats.
    pub entropy: f32,
}

/// Chooses a token for each row of `[R, V]`; as many choices as rows.
pub(super) fn choose(logits_RV: &Tensor, choices: &[Choice]) -> Result<Vec<Chosen>, TchError> {
    let logits_RV = &tempered(logits_RV, choices)?;
    let log_probs_RV = logits_RV.f_log_softmax(-1, Kind::Float)?;
    let mut tokens_R = log_probs_RV.f_argmax(-1, false)?;
    if choices.iter().any(|choice| choice.sampling != Sampling::Greedy) {
        let drawn_R = draw(logits_RV, choices)?;
        let greedy: Vec<bool> = choices.iter().map(|choice| choice.sampling == Sampling::Greedy).collect();
        let greedy_R = Tensor::f_from_slice(&greedy)?.f_to_device(logits_RV.device())?;
        tokens_R = tokens_R.f_where_self(&greedy_R, &drawn_R)?;
    }
    let chosen_R = log_probs_RV.f_gather(-1, &tokens_R.f_unsqueeze(-1)?, false)?.f_squeeze_dim(-1)?;
    let entropies_R = entropies(&log_probs_RV);
    // One copy back to the host for the whole step.
    let columns = [&tokens_R, &chosen_R, &entropies_R].map(|column| column.to_kind(Kind::Double));
    let flat = Vec::<f64>::try_from(Tensor::f_cat(&columns, 0)?)?;
    let (tokens, rest) = flat.split_at(choices.len());
    let (log_probs, entropies) = rest.split_at(choices.len());
    let rows = tokens.iter().zip(log_probs).zip(entropies);
    Ok(rows
        .map(|((token, log_prob), entropy)| Chosen {
            token: *token as u32,
            log_prob: *log_prob as f32,
            entropy: *entropy as f32,
        })
        .collect())
}

/// The logits over each row's temperature: of what tokens are drawn from, and of what is recorded of them.
fn tempered(logits_RV: &Tensor, choices: &[Choice]) -> Result<Tensor, TchError> {
    let temperatures: Vec<f32> = choices
        .iter()
        .map(|choice| match choice.sampling {
            Sampling::Greedy => 1.0,
            Sampling::Temperature(temperature) => temperature,
        })
        .collect();
    if temperatures.iter().all(|temperature| *temperature == 1.0) {
        return Ok(logits_RV.shallow_clone());
    }
    let temperatures_R1 = Tensor::f_from_slice(&temperatures)?.f_unsqueeze(-1)?.f_to_device(logits_RV.device())?;
    logits_RV.f_div(&temperatures_R1)
}

fn draw(logits_RV: &Tensor, choices: &[Choice]) -> Result<Tensor, TchError> {
    let uniforms: Vec<f64> = choices.iter().map(|choice| choice.uniform).collect();
    let uniforms_R1 = Tensor::f_from_slice(&uniforms)?.f_unsqueeze(-1)?.f_to_device(logits_RV.device())?;
    let probabilities_RV = logits_RV.f_softmax(-1, Kind::Float)?;
    let summed_RV = probabilities_RV.f_cumsum(-1, Kind::Double)?;
    // The sum is 1 but for rounding; the last token is never passed by.
    let vocabulary = logits_RV.size()[1];
    let goals_R1 = uniforms_R1.f_mul(&summed_RV.f_narrow(1, vocabulary - 1, 1)?)?;
    let drawn_R1 = goals_R1.f_searchsorted::<&Tensor>(&summed_RV, false, true, "right", None)?;
    drawn_R1.f_clamp_max(vocabulary - 1)?.f_squeeze_dim(-1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_episode::Seed;

    fn row(probabilities: &[f32]) -> Tensor {
        Tensor::from_slice(probabilities).log().unsqueeze(0)
    }

    fn at(uniform: f64, temperature: f32) -> [Choice; 1] {
        [Choice { sampling: Sampling::Temperature(temperature), uniform }]
    }

    #[test]
    fn uniform_numbers_meet_their_share_of_the_distribution() {
        let logits = row(&[0.0, 0.5, 0.25, 0.25]);
        for (uniform, token) in [(0.0, 1), (0.499, 1), (0.501, 2), (0.749, 2), (0.751, 3), (0.999_999_999, 3)] {
            let chosen = choose(&logits, &at(uniform, 1.0)).expect("a row")[0];
            assert_eq!(chosen.token, token, "{uniform}");
            assert!((chosen.log_prob - [0.0_f32, 0.5, 0.25, 0.25][token as usize].ln()).abs() < 1e-6);
        }
        // At temperature 1/2 probabilities go by their squares: 4 : 1 : 1 of 6.
        assert_eq!(choose(&logits, &at(0.66, 0.5)).expect("a row")[0].token, 1);
        assert_eq!(choose(&logits, &at(0.67, 0.5)).expect("a row")[0].token, 2);
        // What is recorded is of the distribution that was drawn from: its entropy is that of 4 : 1 : 1.
        let logits = row(&[0.5, 0.25, 0.25]);
        let recorded = choose(&logits, &at(0.0, 0.5)).expect("a row")[0];
        assert!((recorded.log_prob - (4.0_f32 / 6.0).ln()).abs() < 1e-6);
        assert!((recorded.entropy - (6.0_f32.ln() - 4.0 / 6.0 * 4.0_f32.ln())).abs() < 1e-6);
        let greedy = Choice { sampling: Sampling::Greedy, uniform: 0.0 };
        let beside = choose(&Tensor::cat(&[&logits, &logits], 0), &[at(0.0, 0.5)[0], greedy]).expect("two rows");
        assert_eq!(beside[0], recorded);
        assert!((beside[1].log_prob - 0.5_f32.ln()).abs() < 1e-6, "greedy choices are recorded at temperature 1");
    }

    #[test]
    fn entropy_is_that_of_the_distribution() {
        let chosen = choose(&row(&[0.25; 4]), &at(0.3, 1.0)).expect("a row")[0];
        assert!((chosen.entropy - 4.0_f32.ln()).abs() < 1e-6);
    }

    #[test]
    fn greedy_takes_the_smallest_of_equals_beside_draws() {
        let logits = Tensor::cat(&[row(&[0.1, 0.4, 0.4, 0.1]), row(&[0.1, 0.4, 0.4, 0.1])], 0);
        let choices = [Choice { sampling: Sampling::Greedy, uniform: 0.0 }, at(0.95, 1.0)[0]];
        let tokens: Vec<u32> = choose(&logits, &choices).expect("two rows").iter().map(|row| row.token).collect();
        assert_eq!(tokens, [1, 3]);
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let (logits, mut stream, mut counts) = (row(&[0.2, 0.3, 0.5]), Seed(3).stream(), [0_u32; 3]);
        for _ in 0..5_000 {
            counts[choose(&logits, &at(stream.unit(), 1.0)).expect("a row")[0].token as usize] += 1;
        }
        // Standard deviations are 28, 32 and 35: five of them on either side.
        for (count, expected) in counts.into_iter().zip([1000_i64, 1500, 2500]) {
            assert!((i64::from(count) - expected).abs() < 177, "{counts:?}");
        }
    }
}
