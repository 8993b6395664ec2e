//! Samples a token for each row of logits and records its log-probability and entropy.
//!
//! The caller supplies uniform numbers, which the inverse of the cumulative distribution maps to tokens. A token
//! therefore depends only on its request's random stream and on its own row.
#![allow(non_snake_case)]

use gymkhana_policy::Sampling;
use tch::{Kind, TchError, Tensor};

use crate::cuda;
use crate::loss::entropies;

/// Sampling settings of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowSampling {
    pub sampling: Sampling,
    /// A number in [0, 1); ignored for greedy sampling.
    pub uniform: f64,
}

/// A sampled token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SampledToken {
    pub token: u32,
    /// Log-probability in nats under the untruncated distribution at the sampling temperature; at temperature 1 for
    /// greedy sampling.
    pub log_prob: f32,
    /// Entropy of that distribution, in nats.
    pub entropy: f32,
}

/// Samples one token per row of `[R, V]`; `choices` has one entry per row.
pub(super) fn choose(logits_RV: &Tensor, choices: &[RowSampling]) -> Result<Vec<SampledToken>, TchError> {
    let Some(kernels) = cuda::kernels(logits_RV.device()) else { return choose_by_operations(logits_RV, choices) };
    let columns_3R = kernels.sample(&logits_RV.f_contiguous()?, &rows_3R(logits_RV, choices)?)?;
    let mut all = read(&columns_3R, choices.len())?;
    // The kernel does not truncate. The other rows' tokens do not depend on these.
    let cutting: Vec<usize> = (0..choices.len()).filter(|row| choices[*row].sampling.cuts()).collect();
    if !cutting.is_empty() {
        let places: Vec<i64> = cutting.iter().map(|row| *row as i64).collect();
        let places = Tensor::f_from_slice(&places)?.f_to_device(logits_RV.device())?;
        let own: Vec<RowSampling> = cutting.iter().map(|row| choices[*row]).collect();
        let chosen = choose_by_operations(&logits_RV.f_index_select(0, &places)?, &own)?;
        cutting.into_iter().zip(chosen).for_each(|(row, chosen)| all[row] = chosen);
    }
    Ok(all)
}

/// [`choose`] by operations of libtorch.
fn choose_by_operations(logits_RV: &Tensor, choices: &[RowSampling]) -> Result<Vec<SampledToken>, TchError> {
    let logits_RV = &tempered(&logits_RV.f_to_kind(Kind::Float)?, choices)?;
    let log_probs_RV = logits_RV.f_log_softmax(-1, Kind::Float)?;
    let mut tokens_R = log_probs_RV.f_argmax(-1, false)?;
    if choices.iter().any(|choice| !choice.sampling.is_greedy()) {
        let drawn_R = draw(logits_RV, choices)?;
        let greedy: Vec<bool> = choices.iter().map(|choice| choice.sampling.is_greedy()).collect();
        let greedy_R = Tensor::f_from_slice(&greedy)?.f_to_device(logits_RV.device())?;
        tokens_R = tokens_R.f_where_self(&greedy_R, &drawn_R)?;
    }
    let chosen_R = log_probs_RV.f_gather(-1, &tokens_R.f_unsqueeze(-1)?, false)?.f_squeeze_dim(-1)?;
    let entropies_R = entropies(&log_probs_RV);
    let columns = [&tokens_R, &chosen_R, &entropies_R].map(|column| column.to_kind(Kind::Double));
    read(&Tensor::f_stack(&columns, 0)?, choices.len())
}

/// Factors of the logits, uniform numbers, and 1 for greedy rows, `[3, R]`, as the kernel expects them.
fn rows_3R(logits_RV: &Tensor, choices: &[RowSampling]) -> Result<Tensor, TchError> {
    let column = |of: fn(&RowSampling) -> f64| choices.iter().map(of);
    let greedy = |choice: &RowSampling| choice.sampling.is_greedy();
    let factors =
        choices.iter().map(|choice| if greedy(choice) { 1.0 } else { f64::from(choice.sampling.temperature).recip() });
    let numbers: Vec<f64> = factors
        .chain(column(|choice| choice.uniform))
        .chain(choices.iter().map(|choice| f64::from(greedy(choice))))
        .collect();
    Tensor::f_from_slice(&numbers)?.f_view([3, choices.len() as i64])?.f_to_device(logits_RV.device())
}

/// Tokens, log-probabilities and entropies, `[3, R]`, in one copy to the host.
fn read(columns_3R: &Tensor, rows: usize) -> Result<Vec<SampledToken>, TchError> {
    let flat = Vec::<f64>::try_from(columns_3R.f_view([-1])?)?;
    let (tokens, rest) = flat.split_at(rows);
    let (log_probs, entropies) = rest.split_at(rows);
    let rows = tokens.iter().zip(log_probs).zip(entropies);
    Ok(rows
        .map(|((token, log_prob), entropy)| SampledToken {
            token: *token as u32,
            log_prob: *log_prob as f32,
            entropy: *entropy as f32,
        })
        .collect())
}

/// Logits divided by each row's temperature (1 for greedy rows): those of the sampling and of the recorded
/// distribution.
fn tempered(logits_RV: &Tensor, choices: &[RowSampling]) -> Result<Tensor, TchError> {
    let temperatures: Vec<f32> = choices
        .iter()
        .map(|choice| if choice.sampling.is_greedy() { 1.0 } else { choice.sampling.temperature })
        .collect();
    if temperatures.iter().all(|temperature| *temperature == 1.0) {
        return Ok(logits_RV.shallow_clone());
    }
    let temperatures_R1 = Tensor::f_from_slice(&temperatures)?.f_unsqueeze(-1)?.f_to_device(logits_RV.device())?;
    logits_RV.f_div(&temperatures_R1)
}

fn draw(logits_RV: &Tensor, choices: &[RowSampling]) -> Result<Tensor, TchError> {
    let uniforms: Vec<f64> = choices.iter().map(|choice| choice.uniform).collect();
    let uniforms_R1 = Tensor::f_from_slice(&uniforms)?.f_unsqueeze(-1)?.f_to_device(logits_RV.device())?;
    let mut probabilities_RV = logits_RV.f_softmax(-1, Kind::Float)?;
    if choices.iter().any(|choice| choice.sampling.cuts()) {
        let least_R1 = least_kept(&probabilities_RV, choices)?;
        let cut_RV = probabilities_RV.f_less_tensor(&least_R1)?;
        probabilities_RV = probabilities_RV.f_masked_fill(&cut_RV, 0.0)?;
    }
    let summed_RV = probabilities_RV.f_cumsum(-1, Kind::Double)?;
    // Rounding makes the sum differ from 1; goals are scaled by it, so that none exceeds it.
    let vocabulary = logits_RV.size()[1];
    let goals_R1 = uniforms_R1.f_mul(&summed_RV.f_narrow(1, vocabulary - 1, 1)?)?;
    let drawn_R1 = goals_R1.f_searchsorted::<&Tensor>(&summed_RV, false, true, "right", None)?;
    drawn_R1.f_clamp_max(vocabulary - 1)?.f_squeeze_dim(-1)
}

/// Number of most probable tokens that are sorted first. A top-p share seldom needs more, and sorting a whole
/// vocabulary takes longer than computing its logits.
const CANDIDATES: i64 = 1024;

/// Least probability that each row keeps, `[R, 1]`; 0 for rows without truncation. A threshold instead of a set of
/// tokens treats equal probabilities alike, whatever the order of sorting, and truncates a row the same in any batch.
fn least_kept(probabilities_RV: &Tensor, choices: &[RowSampling]) -> Result<Tensor, TchError> {
    let vocabulary = probabilities_RV.size()[1];
    let device = probabilities_RV.device();
    let column = |value: &dyn Fn(Sampling) -> f64| {
        let values: Vec<f64> = choices.iter().map(|choice| value(choice.sampling)).collect();
        Tensor::f_from_slice(&values)?.f_unsqueeze(-1)?.f_to_device(device)
    };
    let kept = |sampling: Sampling| match i64::from(sampling.top_k) {
        most if sampling.cuts() && most > 0 => most.min(vocabulary),
        _ => vocabulary,
    };
    let kept_R1 = column(&|sampling| kept(sampling) as f64)?;
    let share_R1 = column(&|sampling| if sampling.cuts() { f64::from(sampling.top_p) } else { 1.0 })?;
    let beside_R1 = column(&|sampling| if sampling.cuts() { f64::from(sampling.min_p) } else { 0.0 })?;
    let all_R1 = probabilities_RV.f_sum_dim_intlist(-1, true, Kind::Double)?;
    let widest = choices.iter().map(|choice| kept(choice.sampling)).filter(|most| *most < vocabulary).max();
    let mut looked_at = widest.unwrap_or(1).max(CANDIDATES).min(vocabulary);
    loop {
        let (sorted_RK, _) = probabilities_RV.f_topk(looked_at, -1, true, true)?;
        let sorted_RK = sorted_RK.f_to_kind(Kind::Double)?;
        let rank_K = Tensor::f_arange(looked_at, (Kind::Double, device))?;
        let outside_RK = rank_K.f_ge_tensor(&kept_R1)?;
        let summed_RK = sorted_RK.f_masked_fill(&outside_RK, 0.0)?.f_cumsum(-1, Kind::Double)?;
        let last_R1 = summed_RK.f_narrow(1, looked_at - 1, 1)?;
        let limited_R1 = kept_R1.f_less(vocabulary as f64)?;
        let goal_R1 = last_R1.f_where_self(&limited_R1, &all_R1)?.f_mul(&share_R1)?;
        let cuts_share_R1 = share_R1.f_less(1.0)?;
        let short_R1 = last_R1.f_less_tensor(&goal_R1)?.f_logical_and(&cuts_share_R1)?;
        if looked_at < vocabulary && bool::try_from(short_R1.f_any()?)? {
            looked_at = vocabulary;
            continue;
        }
        // Index of the last token kept: the one that reaches the share, else the last of the `top_k`.
        let reached_R1 = summed_RK.f_less_tensor(&goal_R1)?.f_sum_dim_intlist(-1, true, Kind::Double)?;
        let of_share_R1 = reached_R1.f_where_self(&cuts_share_R1, &kept_R1.f_sub_scalar(1.0)?)?;
        let place_R1 = of_share_R1.f_minimum(&kept_R1.f_sub_scalar(1.0)?)?;
        let beyond_R1 = place_R1.f_ge(looked_at as f64)?;
        let place_R1 = place_R1.f_clamp_max(looked_at - 1)?.f_to_kind(Kind::Int64)?;
        let least_R1 = sorted_RK.f_gather(-1, &place_R1, false)?.f_masked_fill(&beyond_R1, 0.0)?;
        // A row without truncation also keeps tokens of probability 0.
        let whole_R1 = limited_R1.f_logical_or(&cuts_share_R1)?.f_logical_not()?;
        let least_R1 = least_R1.f_masked_fill(&whole_R1, 0.0)?;
        let largest_R1 = sorted_RK.f_narrow(1, 0, 1)?;
        return least_R1.f_maximum(&largest_R1.f_mul(&beside_R1)?)?.f_to_kind(Kind::Float);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gymkhana_record::Seed;

    fn row(probabilities: &[f32]) -> Tensor {
        Tensor::from_slice(probabilities).log().unsqueeze(0)
    }

    fn at(uniform: f64, temperature: f32) -> [RowSampling; 1] {
        [RowSampling { sampling: Sampling::at(temperature), uniform }]
    }

    #[test]
    fn uniform_numbers_map_to_their_share_of_the_distribution() {
        let logits = row(&[0.0, 0.5, 0.25, 0.25]);
        for (uniform, token) in [(0.0, 1), (0.499, 1), (0.501, 2), (0.749, 2), (0.751, 3), (0.999_999_999, 3)] {
            let chosen = choose(&logits, &at(uniform, 1.0)).expect("a row")[0];
            assert_eq!(chosen.token, token, "{uniform}");
            assert!((chosen.log_prob - [0.0_f32, 0.5, 0.25, 0.25][token as usize].ln()).abs() < 1e-6);
        }
        // At temperature 1/2, probabilities are proportional to their squares: 4 : 1 : 1 of 6.
        assert_eq!(choose(&logits, &at(0.66, 0.5)).expect("a row")[0].token, 1);
        assert_eq!(choose(&logits, &at(0.67, 0.5)).expect("a row")[0].token, 2);
        // The recorded entropy is that of the sampling distribution, 4 : 1 : 1.
        let logits = row(&[0.5, 0.25, 0.25]);
        let recorded = choose(&logits, &at(0.0, 0.5)).expect("a row")[0];
        assert!((recorded.log_prob - (4.0_f32 / 6.0).ln()).abs() < 1e-6);
        assert!((recorded.entropy - (6.0_f32.ln() - 4.0 / 6.0 * 4.0_f32.ln())).abs() < 1e-6);
        let greedy = RowSampling { sampling: Sampling::GREEDY, uniform: 0.0 };
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
    fn greedy_rows_take_the_smallest_of_equal_tokens() {
        let logits = Tensor::cat(&[row(&[0.1, 0.4, 0.4, 0.1]), row(&[0.1, 0.4, 0.4, 0.1])], 0);
        let choices = [RowSampling { sampling: Sampling::GREEDY, uniform: 0.0 }, at(0.95, 1.0)[0]];
        let tokens: Vec<u32> = choose(&logits, &choices).expect("two rows").iter().map(|row| row.token).collect();
        assert_eq!(tokens, [1, 3]);
    }

    #[test]
    fn frequencies_follow_the_probabilities() {
        let (logits, mut stream, mut counts) = (row(&[0.2, 0.3, 0.5]), Seed(3).stream(), [0_u32; 3]);
        for _ in 0..5_000 {
            counts[choose(&logits, &at(stream.unit(), 1.0)).expect("a row")[0].token as usize] += 1;
        }
        // The standard deviations are 28, 32 and 35; the bound is five of them.
        for (count, expected) in counts.into_iter().zip([1000_i64, 1500, 2500]) {
            assert!((i64::from(count) - expected).abs() < 177, "{counts:?}");
        }
    }

    /// Tokens that occur in 1000 samples.
    fn drawn(probabilities: &[f32], sampling: Sampling) -> Vec<u32> {
        let logits = row(probabilities);
        let at = |step: u32| [RowSampling { sampling, uniform: f64::from(step) / 1000.0 }];
        let all = (0..1000).map(|step| choose(&logits, &at(step)).expect("a row")[0].token);
        all.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    }

    #[test]
    fn truncated_tokens_are_never_sampled() {
        let probabilities = [0.05, 0.4, 0.1, 0.25, 0.2];
        let whole = Sampling::at(1.0);
        for (sampling, tokens) in [
            (whole, &[0, 1, 2, 3, 4][..]),
            (Sampling { top_k: 1, ..whole }, &[1]),
            (Sampling { top_k: 3, ..whole }, &[1, 3, 4]),
            (Sampling { top_k: 9, ..whole }, &[0, 1, 2, 3, 4]),
            (Sampling { top_p: 0.3, ..whole }, &[1]),
            (Sampling { top_p: 0.6, ..whole }, &[1, 3]),
            (Sampling { top_p: 0.7, ..whole }, &[1, 3, 4]),
            // Of the three most probable, 0.65 of 0.85 exceeds the share of the first two by 0.0025.
            (Sampling { top_k: 3, top_p: 0.76, ..whole }, &[1, 3]),
            (Sampling { top_k: 3, top_p: 0.77, ..whole }, &[1, 3, 4]),
            (Sampling { min_p: 0.45, ..whole }, &[1, 3, 4]),
            (Sampling { min_p: 0.55, ..whole }, &[1, 3]),
            (Sampling { min_p: 1.0, ..whole }, &[1]),
            (Sampling { top_k: 4, top_p: 0.99, min_p: 0.55, ..whole }, &[1, 3]),
            // At temperature 1/2 the squares count: 0.16, 0.0625, 0.04 … of 0.275.
            (Sampling { top_p: 0.75, temperature: 0.5, ..whole }, &[1, 3]),
            (Sampling { top_k: 2, temperature: 0.0, ..whole }, &[1]),
        ] {
            assert_eq!(drawn(&probabilities, sampling), tokens, "{sampling:?}");
        }
        // Equal probabilities are kept together.
        assert_eq!(drawn(&[0.25; 4], Sampling { top_k: 2, ..whole }), [0, 1, 2, 3]);
    }

    #[test]
    fn kept_tokens_equal_those_of_transformers() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/sampling.json");
        let text = std::fs::read_to_string(path).expect("a golden file");
        let cases: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        for case in cases.as_array().expect("a list") {
            let number = |key: &str| case[key].as_f64().expect("a number") as f32;
            let numbers = |key: &str| -> Vec<f64> {
                case[key].as_array().expect("a list").iter().filter_map(serde_json::Value::as_f64).collect()
            };
            let sampling = Sampling {
                temperature: number("temperature"),
                top_k: number("top_k") as u32,
                top_p: number("top_p"),
                min_p: number("min_p"),
            };
            let choices = [RowSampling { sampling, uniform: 0.0 }];
            let logits = Tensor::from_slice(&numbers("logits")).to_kind(Kind::Float).unsqueeze(0);
            let probabilities = tempered(&logits, &choices).expect("a row").softmax(-1, Kind::Float);
            let least = least_kept(&probabilities, &choices).expect("a row");
            let kept = probabilities.ge_tensor(&least).squeeze_dim(0).nonzero().squeeze_dim(1).to_kind(Kind::Double);
            assert_eq!(Vec::<f64>::try_from(kept).expect("places"), numbers("kept"), "{sampling:?}");
        }
    }

    /// The share of a flat distribution over a large vocabulary needs more tokens than are sorted first.
    #[test]
    fn rows_are_truncated_alike_in_any_batch() {
        let vocabulary = 5000;
        let mut stream = Seed(5).stream();
        let mut logits = |width: f64| {
            let values: Vec<f32> = (0..vocabulary).map(|_| (stream.unit() * width) as f32).collect();
            Tensor::from_slice(&values).unsqueeze(0)
        };
        let rows: Vec<Tensor> = [0.1, 4.0, 12.0, 30.0].into_iter().map(&mut logits).collect();
        let samplings = [
            Sampling { top_p: 0.9, ..Sampling::at(1.0) },
            Sampling { top_k: 1500, top_p: 0.5, ..Sampling::at(0.7) },
            Sampling { min_p: 0.2, ..Sampling::at(1.3) },
            Sampling::at(1.0),
            Sampling::GREEDY,
        ];
        for turn in 0..samplings.len() {
            for uniform in [0.0, 0.3, 0.99] {
                let choices: Vec<RowSampling> = (0..rows.len())
                    .map(|index| RowSampling { sampling: samplings[(turn + index) % samplings.len()], uniform })
                    .collect();
                let together = choose(&Tensor::cat(&rows, 0), &choices).expect("rows");
                for (index, choice) in choices.iter().enumerate() {
                    let alone = choose(&rows[index], &[*choice]).expect("a row");
                    assert_eq!(alone[0], together[index], "row {index}, {:?}", choice.sampling);
                }
            }
        }
        // A share of 0.9 of 5000 nearly equal tokens is more than 4000 tokens.
        let least =
            least_kept(&rows[0].softmax(-1, Kind::Float), &[RowSampling { sampling: samplings[0], uniform: 0.0 }]);
        let kept = rows[0].softmax(-1, Kind::Float).ge_tensor(&least.expect("a row")).sum(Kind::Int64).int64_value(&[]);
        assert!((4400..=4520).contains(&kept), "{kept}");
    }

    #[test]
    fn recorded_numbers_are_of_the_untruncated_distribution() {
        let logits = row(&[0.5, 0.25, 0.25]);
        let cut = Sampling { top_k: 1, ..Sampling::at(1.0) };
        let chosen = choose(&logits, &[RowSampling { sampling: cut, uniform: 0.9 }]).expect("a row")[0];
        assert_eq!(chosen.token, 0);
        assert!((chosen.log_prob - 0.5_f32.ln()).abs() < 1e-6);
        assert!((chosen.entropy - 1.5 * 2.0_f32.ln()).abs() < 1e-6);
    }
}
