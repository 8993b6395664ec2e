//! Losses over pairs and over labelled episodes.

use gymkhana_algorithm::{RegressionOver, Surrogate};

use super::*;
use crate::whole_episodes::judge;

#[test]
fn preferences_are_those_of_the_formula() {
    let golden = &golden()["pairs"];
    let (mut batch, mut tokens, mut expected) = (Batch::default(), Vec::new(), Vec::new());
    let row = |token: &Value| {
        vec![(Column::Proximal, number(token, "current")), (Column::Reference, number(token, "reference"))]
    };
    for (group, (pair, gradients)) in list(&golden["pairs"]).iter().zip(list(&golden["gradients"])).enumerate() {
        for (side, reward) in [("chosen", 1.0), ("rejected", 0.0)] {
            add(&mut batch, group, reward, list(&pair[side]), row);
            tokens.extend(list(&pair[side]).iter().cloned());
            expected.extend(leaves(&gradients[side]));
        }
    }
    let flags = preset("dpo");
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    near(judge(&mut batch, &episodes, flags.surrogate, 0.0).loss, number(golden, "loss"), 1.0, "loss of pairs");
    all_near(&gradients(&batch, &flags, &tokens, 1.0).1, &expected, "gradient");
}

/// KTO's loss relative to a given reference point. A reward of 0 is undesirable.
#[test]
fn unpaired_preferences_are_those_of_the_formula() {
    for golden in list(&golden()["unpaired"]) {
        let (mut batch, mut tokens, mut expected) = (Batch::default(), Vec::new(), Vec::new());
        let row = |token: &Value| {
            vec![(Column::Proximal, number(token, "current")), (Column::Reference, number(token, "reference"))]
        };
        for (group, episode) in list(&golden["episodes"]).iter().enumerate() {
            add(&mut batch, group, number(episode, "reward"), list(&episode["tokens"]), row);
            tokens.extend(list(&episode["tokens"]).iter().cloned());
            expected.extend(leaves(&episode["gradient"]));
        }
        let mut flags = preset("kto");
        if golden["preset"] != true {
            let [beta, desirable, undesirable] =
                ["beta", "desirable", "undesirable"].map(|constant| number(golden, constant));
            flags.surrogate = Surrogate::UnpairedPreference { beta, desirable, undesirable };
        }
        flags.check().expect("flags that make sense");
        let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
        let judged = judge(&mut batch, &episodes, flags.surrogate, number(golden, "reference_point"));
        near(judged.loss, number(golden, "loss"), 1.0, "loss of labelled episodes");
        all_near(&gradients(&batch, &flags, &tokens, 1.0).1, &expected, "gradient");
        let rewards = ["better_reward", "worse_reward"].map(|name| (name, number(golden, name)));
        assert_eq!(judged.preferences.metrics().iter().count(), 2);
        for (name, expected) in rewards {
            near(judged.preferences.metrics().get(name).expect("a mean"), expected, 1.0, name);
        }
    }
}

/// REBEL's loss over all pairs of a group's episodes.
#[test]
fn regression_is_that_of_the_formula() {
    let golden = &golden()["regression"];
    let (mut batch, mut tokens, mut expected) = (Batch::default(), Vec::new(), Vec::new());
    let row = |token: &Value| {
        vec![(Column::Proximal, number(token, "current")), (Column::Behaviour, number(token, "behaviour"))]
    };
    for episode in list(&golden["episodes"]) {
        let group = episode["group"].as_u64().expect("a number") as usize;
        add(&mut batch, group, number(episode, "reward"), list(&episode["tokens"]), row);
        tokens.extend(list(&episode["tokens"]).iter().cloned());
        expected.extend(leaves(&episode["gradient"]));
    }
    let surrogate = Surrogate::Regression { eta: number(golden, "eta"), over: RegressionOver::Episode };
    let flags = Algorithm { surrogate, ..preset("dpo") };
    flags.check().expect("flags that make sense");
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    near(judge(&mut batch, &episodes, flags.surrogate, 0.0).loss, number(golden, "loss"), 1.0, "loss of pairs");
    all_near(&gradients(&batch, &flags, &tokens, 1.0).1, &expected, "gradient");
}

/// Loss and gradient of a case on the tree of episodes.
fn on_tree(case: &Value, flags: &Algorithm, reference_point: f64) {
    let (mut batch, tokens) = batch(&golden()["fixtures"]["tree"], flags);
    for position in batch.episodes.iter().flat_map(|episode| &episode.contexts).flat_map(|context| &context.positions) {
        let token = &tokens[position.at - 1];
        let own = &mut batch.inputs[position.input].tokens;
        own.set(Column::Proximal, position.token, number(token, "current"));
        own.set(Column::Reference, position.token, number(token, "reference"));
    }
    let episodes: Vec<usize> = (0..batch.episodes.len()).collect();
    let judged = judge(&mut batch, &episodes, flags.surrogate, reference_point);
    near(judged.loss, number(case, "loss"), 1.0, "loss on a tree");
    all_near(&gradients(&batch, flags, &tokens, 1.0).1, &leaves(&case["gradient"]), "gradient on a tree");
}

/// REFUEL's loss on the tree: each pair of a group compares its replies to the prefix that it shares.
#[test]
fn regression_over_replies_is_that_of_the_formula() {
    let case = &golden()["replies"];
    let surrogate = Surrogate::Regression { eta: number(case, "eta"), over: RegressionOver::Reply };
    on_tree(case, &Algorithm { surrogate, ..preset("dpo") }, 0.0);
}

/// An episode's log-ratio is that of its whole path, also in a branch.
#[test]
fn branches_are_whole_episodes() {
    let cases = &golden()["paths"];
    let of = |name: &str, constant: &str| number(&cases[name], constant);
    let surrogate = Surrogate::Regression { eta: of("regression", "eta"), over: RegressionOver::Episode };
    on_tree(&cases["regression"], &Algorithm { surrogate, ..preset("dpo") }, 0.0);
    let surrogate = Surrogate::Preference { beta: of("pairs", "beta") };
    on_tree(&cases["pairs"], &Algorithm { surrogate, ..preset("dpo") }, 0.0);
    let beta = of("unpaired", "beta");
    let surrogate = Surrogate::UnpairedPreference { beta, desirable: 1.0, undesirable: 1.0 };
    on_tree(&cases["unpaired"], &Algorithm { surrogate, ..preset("kto") }, of("unpaired", "reference_point"));
}
