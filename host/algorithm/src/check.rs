//! Refuses values out of range and combinations in which a flag has no effect.

use crate::error::require;
use crate::{
    Aggregation, Algorithm, Baseline, Bounds, Credit, Kl, KlPlace, Mask, Ratio, Replay, RewardScale, Scale,
    SettingError, Surrogate, WeightSchedule, Whiten,
};

type CheckResult = Result<(), SettingError>;

fn share(value: f64) -> bool {
    (0.0..=1.0).contains(&value)
}

fn positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

fn weight(value: f64) -> bool {
    value >= 0.0 && value.is_finite()
}

/// Refuses a key that is set but unused, or missing but required.
fn only(is_set: bool, needed: bool, key: &'static str, when: &'static str) -> CheckResult {
    match (is_set, needed) {
        (true, false) => Err(SettingError::Unused { key, when }),
        (false, true) => Err(SettingError::Missing { key, when }),
        _ => Ok(()),
    }
}

/// Refuses bounds out of order.
fn bounds(bounds: Option<Bounds>, low_key: &'static str, high_key: &'static str, above: &'static str) -> CheckResult {
    let Some(Bounds { low, high }) = bounds else { return Ok(()) };
    require(low.is_finite(), low_key, low, "a number")?;
    require(high > low && high.is_finite(), high_key, high, above)
}

/// Refuses a schedule with a value out of range, or that ends at a negative weight.
fn schedule(schedule: Option<WeightSchedule>, key: &'static str) -> CheckResult {
    let Some(schedule) = schedule else { return Ok(()) };
    schedule.check().map_err(|source| SettingError::Schedule { key, source })?;
    require(schedule.to >= 0.0, key, format!("a schedule to {}", schedule.to), "one whose `to` is at least 0")
}

impl Algorithm {
    /// Refuses values out of range and combinations in which a flag has no effect.
    ///
    /// # Errors
    /// With the key's name.
    pub fn check(&self) -> Result<(), SettingError> {
        self.check_credit()?;
        self.check_baseline()?;
        self.check_weights()?;
        self.check_surrogate()?;
        self.check_penalties()?;
        self.check_replay()?;
        require(self.epochs >= 1, "epochs", self.epochs, "at least 1")?;
        require(self.minibatches >= 1, "minibatches", self.minibatches, "at least 1")
    }

    fn check_credit(&self) -> CheckResult {
        let discount = match self.credit {
            Credit::Returns { discount } | Credit::Rewards { discount, .. } | Credit::Anchors { discount, .. } => {
                discount
            }
            Credit::Episode {}
            | Credit::Outcome {}
            | Credit::Immediate {}
            | Credit::Teacher {}
            | Credit::Turns { .. } => 1.0,
        };
        require(share(discount), "credit.discount", discount, "from 0 to 1")?;
        let weights = match self.credit {
            Credit::Turns { turn_weight, outcome_weight } => {
                vec![("credit.turn_weight", turn_weight), ("credit.outcome_weight", outcome_weight)]
            }
            Credit::Anchors { weight, .. } => vec![("credit.weight", weight)],
            _ => vec![],
        };
        for (key, factor) in weights {
            require(weight(factor), key, factor, "at least 0")?;
        }
        require(weight(self.progress), "progress", self.progress, "at least 0")?;
        let by_turn = !matches!(self.credit, Credit::Episode {} | Credit::Outcome {} | Credit::Teacher {});
        require(
            self.progress == 0.0 || by_turn,
            "progress",
            self.progress,
            "0 unless `credit` is per turn: the sum over an episode does not depend on it",
        )
    }

    fn check_baseline(&self) -> CheckResult {
        let averaged = self.baseline == Baseline::SeatAverage;
        only(self.average_decay.is_some(), averaged, "average_decay", "`baseline` is seat-average")?;
        let decay = self.average_decay.unwrap_or(0.0);
        require((0.0..1.0).contains(&decay), "average_decay", decay, "at least 0 and below 1")?;
        let critic = self.baseline == Baseline::Critic;
        only(self.critic.is_some(), critic, "critic", "`baseline` is critic")?;
        if let Some(critic) = self.critic {
            require(share(critic.discount), "critic.discount", critic.discount, "from 0 to 1")?;
            require(share(critic.lambda), "critic.lambda", critic.lambda, "from 0 to 1")?;
            require(positive(critic.learning_rate), "critic.learning_rate", critic.learning_rate, "above 0")?;
            schedule(critic.schedule, "critic.schedule")?;
            let clip = critic.clip.unwrap_or(1.0);
            require(positive(clip), "critic.clip", clip, "above 0")?;
        }
        let plain = self.credit == Credit::Episode {} && self.scale == Scale::None;
        require(plain || !critic, "credit", "set", "left out, as `scale` is, when `baseline` is critic: it decides")?;
        let compared = self.compares_episodes();
        require(
            compared || self.scale == Scale::None,
            "scale",
            "set",
            "left out unless `baseline` is group-mean or leave-one-out: equal rewards would be divided by 0",
        )?;
        let taught =
            self.credit != Credit::Teacher {} || (self.baseline == Baseline::None && self.scale == Scale::None);
        require(taught, "baseline", "set", "none, without `scale`, when `credit` is a teacher's")?;
        let needs = matches!(self.credit, Credit::Rewards { .. } | Credit::Turns { .. } | Credit::Anchors { .. });
        require(!needs || compared, "baseline", "another", "group-mean or leave-one-out with this `credit`")
    }

    fn check_weights(&self) -> CheckResult {
        if let Some(reward_temperature) = self.reward_temperature {
            require(positive(reward_temperature), "reward_temperature", reward_temperature, "above 0")?;
        }
        if let Some(penalty) = self.length_penalty {
            let fits = penalty.buffer >= 1 && penalty.buffer <= penalty.tokens;
            require(fits, "length_penalty.buffer", penalty.buffer, "from 1 to `length_penalty.tokens`")?;
        }
        require(weight(self.entropy_advantage), "entropy_advantage", self.entropy_advantage, "at least 0")?;
        let quantile = self.entropy_quantile.unwrap_or(0.5);
        require(quantile > 0.0 && quantile < 1.0, "entropy_quantile", quantile, "above 0 and below 1")?;
        let compared = self.compares_episodes();
        let idle = self.masks.contains(&Mask::ZeroVariance) && !compared;
        require(!idle, "masks", "zero-variance", "left out unless `baseline` is group-mean or leave-one-out")?;
        let by_token = match self.critic {
            Some(critic) => critic.level == super::Level::Token,
            None => self.wants_teacher() || self.penalty_in(KlPlace::Tokens).is_some(),
        };
        let turns = self.whiten == Whiten::Turns && by_token;
        require(!turns, "whiten", "turns", "tokens where advantages differ within a turn")?;
        require(weight(self.whiten_floor), "whiten_floor", self.whiten_floor, "at least 0")?;
        if self.whiten_floor > 0.0 && self.whiten == Whiten::None {
            return Err(SettingError::Unused { key: "whiten_floor", when: "`whiten` is set" });
        }
        bounds(self.reward_clip, "reward_clip.low", "reward_clip.high", "above `reward_clip.low`")?;
        bounds(self.advantage_clip, "advantage_clip.low", "advantage_clip.high", "above `advantage_clip.low`")?;
        self.check_idle()?;
        let constant = self.aggregation == Aggregation::Constant;
        only(self.constant_tokens.is_some(), constant, "constant_tokens", "`aggregation` is constant")?;
        let tokens = self.constant_tokens.unwrap_or(1);
        require(tokens >= 1, "constant_tokens", tokens, "at least 1")
    }

    /// Refuses flags that the way of computing advantages ignores.
    fn check_idle(&self) -> CheckResult {
        let set = |there: bool, key: &'static str| (there, key);
        let given = [
            set(self.reward_temperature.is_some(), "reward_temperature"),
            set(self.group_by != super::GroupBy::Seat, "group_by"),
            set(self.whiten != Whiten::None, "whiten"),
            set(self.entropy_advantage > 0.0, "entropy_advantage"),
            set(self.masks(Mask::ZeroAdvantage), "masks"),
            set(self.length_penalty.is_some(), "length_penalty"),
            set(self.replay.is_some(), "replay"),
            set(self.reward_scale != RewardScale::None, "reward_scale"),
            set(self.reward_clip.is_some(), "reward_clip"),
            set(self.advantage_clip.is_some(), "advantage_clip"),
            set(self.covariance_clip.is_some(), "covariance_clip"),
            set(self.penalty().is_some_and(|kl| kl.place != KlPlace::Loss), "kl.place"),
        ];
        let (unused, when): (&[&str], _) = if self.of_whole_episodes() {
            let all = &[
                "reward_temperature",
                "group_by",
                "whiten",
                "entropy_advantage",
                "masks",
                "length_penalty",
                "replay",
                "advantage_clip",
                "covariance_clip",
            ];
            (all, "`surrogate` is neither regression, preference nor unpaired-preference")
        } else if self.distils() {
            let all = &[
                "reward_temperature",
                "group_by",
                "whiten",
                "entropy_advantage",
                "masks",
                "length_penalty",
                "replay",
                "reward_scale",
                "reward_clip",
                "advantage_clip",
                "covariance_clip",
                "kl.place",
            ];
            (all, "`surrogate` is not distillation, which uses no advantages")
        } else if self.critic.is_some() {
            (&["reward_temperature", "group_by"], "`baseline` is not critic")
        } else if self.wants_teacher() {
            let all = &["reward_temperature", "group_by", "length_penalty", "replay", "reward_scale", "reward_clip"];
            (all, "`credit` is not teacher")
        } else {
            return Ok(());
        };
        match given.iter().find(|(there, key)| *there && unused.contains(key)) {
            Some((_, key)) => Err(SettingError::Unused { key, when }),
            None => Ok(()),
        }
    }

    fn check_surrogate(&self) -> CheckResult {
        let bounds = match self.surrogate {
            Surrogate::Clip { low, high, dual, .. } => {
                let dual = dual.unwrap_or(2.0);
                require(dual > 1.0 && dual.is_finite(), "surrogate.dual", dual, "above 1")?;
                Some((low, high))
            }
            Surrogate::Cispo { low, high } => Some((low, high)),
            Surrogate::Regression { .. } | Surrogate::Preference { .. } | Surrogate::UnpairedPreference { .. } => {
                let whole = self.credit == Credit::Episode {} && self.baseline == Baseline::None;
                require(whole, "baseline", "set", "none, without `credit`, when `surrogate` is over whole episodes")?;
                let summed = self.constant_tokens == Some(1);
                require(summed, "aggregation", "another", "constant with `constant_tokens = 1` for whole episodes")?;
                None
            }
            Surrogate::Distillation { top_k, .. } => {
                let plain = self.credit == Credit::Episode {} && self.baseline == Baseline::None;
                require(plain, "baseline", "set", "none, without `credit`, when `surrogate` is distillation")?;
                let top_k = top_k.unwrap_or(2);
                require(top_k >= 2, "surrogate.top_k", top_k, "at least 2")?;
                None
            }
            Surrogate::Importance {} | Surrogate::Plain {} => None,
        };
        let factor = match self.surrogate {
            Surrogate::Regression { eta, .. } => Some(("surrogate.eta", eta)),
            Surrogate::Preference { beta } => Some(("surrogate.beta", beta)),
            Surrogate::UnpairedPreference { beta, desirable, undesirable } => {
                require(weight(desirable), "surrogate.desirable", desirable, "at least 0")?;
                require(weight(undesirable), "surrogate.undesirable", undesirable, "at least 0")?;
                let one = desirable + undesirable > 0.0;
                require(one, "surrogate.undesirable", undesirable, "above 0 if `surrogate.desirable` is 0")?;
                Some(("surrogate.beta", beta))
            }
            _ => None,
        };
        if let Some((key, factor)) = factor {
            require(positive(factor), key, factor, "above 0")?;
        }
        if let Some((low, high)) = bounds {
            require(low > 0.0 && low <= 1.0, "surrogate.low", low, "above 0 and at most 1")?;
            require(positive(high), "surrogate.high", high, "above 0")?;
        }
        let has_ratio = !self.of_whole_episodes() && !self.distils() && self.surrogate != Surrogate::Plain {};
        only(self.ratio.is_some(), has_ratio, "ratio", "`surrogate` has a ratio")?;
        let own_token = !matches!(self.surrogate, Surrogate::Cispo { .. }) || self.ratio == Some(Ratio::Token);
        require(own_token, "ratio", "another", "token when `surrogate` is cispo")?;
        if let Some(correction) = self.off_policy {
            require(positive(correction.cap), "off_policy.cap", correction.cap, "above 0")?;
            let veto = correction.veto.unwrap_or(0.5);
            require(positive(veto), "off_policy.veto", veto, "above 0")?;
        }
        Ok(())
    }

    fn check_penalties(&self) -> CheckResult {
        if let Some(kl) = self.kl {
            require(weight(kl.beta), "kl.beta", kl.beta, "at least 0")?;
            let first = kl.first_turns.unwrap_or(1);
            require(first >= 1, "kl.first_turns", first, "at least 1")?;
            let in_loss = kl.place == KlPlace::Loss || kl.first_turns.is_none();
            require(in_loss, "kl.first_turns", first, "left out unless `kl.place` is loss")?;
            check_weight_of(kl)?;
        }
        self.check_reference()?;
        require(weight(self.entropy_bonus), "entropy_bonus", self.entropy_bonus, "at least 0")?;
        schedule(self.entropy_schedule, "entropy_schedule")?;
        if let Some(band) = self.entropy_band {
            require(weight(band.low), "entropy_band.low", band.low, "at least 0")?;
            require(
                band.high > band.low && band.high.is_finite(),
                "entropy_band.high",
                band.high,
                "above `entropy_band.low`",
            )?;
            require(weight(band.weight), "entropy_band.weight", band.weight, "at least 0")?;
            let bonus = self.entropy_bonus;
            require(bonus > 0.0, "entropy_bonus", bonus, "above 0 with an `entropy_band`: it is the band's weight")?;
        }
        if let Some(clip) = self.covariance_clip {
            require(clip.high > clip.low, "covariance_clip.high", clip.high, "above `covariance_clip.low`")?;
            require(clip.share > 0.0 && clip.share <= 1.0, "covariance_clip.share", clip.share, "above 0, at most 1")?;
        }
        Ok(())
    }

    fn check_reference(&self) -> CheckResult {
        let Some(reference) = self.reference else { return Ok(()) };
        if !self.stage_models().reference {
            return Err(SettingError::Unused { key: "reference", when: "there is a reference policy" });
        }
        let one = reference.every.is_some() != reference.ema.is_some();
        require(one, "reference", "without a single key", "a table with `every` or `ema`")?;
        let every = reference.every.unwrap_or(1);
        require(every >= 1, "reference.every", every, "at least 1")?;
        let decay = reference.ema.unwrap_or(0.5);
        require(decay > 0.0 && decay < 1.0, "reference.ema", decay, "above 0 and below 1")
    }

    fn check_replay(&self) -> CheckResult {
        match self.replay {
            Some(Replay::SelfImitation { capacity, baselines, .. }) => {
                require(capacity >= 1, "replay.capacity", capacity, "at least 1")?;
                require(baselines >= 1, "replay.baselines", baselines, "at least 1")
            }
            Some(Replay::Backfill { capacity, success }) => {
                require(capacity >= 1, "replay.capacity", capacity, "at least 1")?;
                require(success.is_finite(), "replay.success", success, "a number")
            }
            None => Ok(()),
        }
    }
}

/// Refuses courses of the divergence's weight that exclude each other or cannot work.
fn check_weight_of(kl: Kl) -> CheckResult {
    schedule(kl.schedule, "kl.schedule")?;
    let Some(adaptive) = kl.adaptive else { return Ok(()) };
    require(kl.schedule.is_none(), "kl.schedule", "set", "left out with `kl.adaptive`")?;
    require(kl.beta > 0.0, "kl.beta", kl.beta, "above 0 with `kl.adaptive`, which multiplies it")?;
    require(positive(adaptive.target), "kl.adaptive.target", adaptive.target, "above 0")?;
    require(positive(adaptive.horizon), "kl.adaptive.horizon", adaptive.horizon, "above 0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdaptiveKl, Critic, Direction, Estimator, Level, ReferenceUpdate, WeightShape};

    fn kl(beta: f64, place: KlPlace, first_turns: Option<u32>) -> Kl {
        Kl { beta, schedule: None, adaptive: None, estimator: Estimator::K3, place, first_turns }
    }

    fn falls_to(to: f64) -> WeightSchedule {
        WeightSchedule { shape: WeightShape::Linear, to, begin: 0, over: 4, every: None }
    }

    type Spoil = fn(&mut Algorithm);

    #[test]
    fn wrong_values_are_refused_by_name() {
        let wrong: [(&str, Spoil); 33] = [
            ("low", |flags| flags.surrogate = Surrogate::Cispo { low: 1.5, high: 0.2 }),
            ("high", |flags| flags.surrogate = Surrogate::Cispo { low: 0.2, high: f64::NAN }),
            ("beta", |flags| {
                flags.kl = Some(kl(-0.1, KlPlace::Loss, None));
            }),
            ("first_turns", |flags| {
                flags.kl = Some(kl(0.1, KlPlace::Reward, Some(1)));
            }),
            ("entropy_bonus", |flags| flags.entropy_bonus = f64::INFINITY),
            ("epochs", |flags| flags.epochs = 0),
            ("minibatches", |flags| flags.minibatches = 0),
            ("constant_tokens", |flags| flags.constant_tokens = Some(5)),
            ("constant_tokens", |flags| flags.aggregation = Aggregation::Constant),
            ("scale", |flags| (flags.baseline, flags.scale) = (Baseline::None, Scale::GroupStd)),
            ("average_decay", |flags| flags.average_decay = Some(0.9)),
            ("critic", |flags| flags.baseline = Baseline::Critic),
            ("critic", |flags| {
                let critic = Critic {
                    level: Level::Turn,
                    discount: 1.0,
                    lambda: 1.0,
                    learning_rate: 1e-3,
                    schedule: None,
                    warmup_steps: 0,
                    clip: None,
                    bootstrap: false,
                };
                flags.critic = Some(critic);
            }),
            ("whiten_floor", |flags| flags.whiten_floor = 0.1),
            ("whiten_floor", |flags| (flags.whiten, flags.whiten_floor) = (Whiten::Tokens, -0.1)),
            ("ratio", |flags| flags.surrogate = Surrogate::Plain {}),
            ("progress", |flags| flags.progress = 1.0),
            ("masks", |flags| (flags.baseline, flags.masks) = (Baseline::None, vec![Mask::ZeroVariance])),
            ("reward_clip.high", |flags| flags.reward_clip = Some(Bounds { low: 1.0, high: 1.0 })),
            ("advantage_clip.low", |flags| flags.advantage_clip = Some(Bounds { low: f64::NAN, high: 1.0 })),
            ("reward_scale", |flags| {
                (flags.credit, flags.baseline) = (Credit::Teacher {}, Baseline::None);
                flags.reward_scale = RewardScale::Running;
            }),
            ("kl.schedule", |flags| {
                flags.kl = Some(Kl { schedule: Some(falls_to(-0.1)), ..kl(0.1, KlPlace::Loss, None) });
            }),
            ("kl.schedule", |flags| {
                let adaptive = Some(AdaptiveKl { target: 0.1, horizon: 10.0 });
                flags.kl = Some(Kl { schedule: Some(falls_to(0.0)), adaptive, ..kl(0.1, KlPlace::Loss, None) });
            }),
            ("kl.beta", |flags| {
                let adaptive = Some(AdaptiveKl { target: 0.1, horizon: 10.0 });
                flags.kl = Some(Kl { adaptive, ..kl(0.0, KlPlace::Loss, None) });
            }),
            ("kl.adaptive.target", |flags| {
                let adaptive = Some(AdaptiveKl { target: 0.0, horizon: 10.0 });
                flags.kl = Some(Kl { adaptive, ..kl(0.1, KlPlace::Loss, None) });
            }),
            ("ratio", |flags| {
                flags.baseline = Baseline::None;
                flags.surrogate = Surrogate::Distillation { direction: Direction::Reverse, top_k: None };
            }),
            ("baseline", |flags| {
                flags.ratio = None;
                flags.surrogate = Surrogate::Distillation { direction: Direction::Reverse, top_k: None };
            }),
            ("surrogate.top_k", |flags| {
                (flags.ratio, flags.baseline) = (None, Baseline::None);
                flags.surrogate = Surrogate::Distillation { direction: Direction::Forward, top_k: Some(1) };
            }),
            ("kl.place", |flags| {
                (flags.ratio, flags.baseline) = (None, Baseline::None);
                flags.surrogate = Surrogate::Distillation { direction: Direction::Forward, top_k: None };
                flags.kl = Some(kl(0.1, KlPlace::Tokens, None));
            }),
            ("entropy_schedule", |flags| flags.entropy_schedule = Some(WeightSchedule { over: 0, ..falls_to(0.1) })),
            ("reference", |flags| flags.reference = Some(ReferenceUpdate { every: Some(2), ema: None })),
            ("reference", |flags| {
                flags.kl = Some(kl(0.1, KlPlace::Loss, None));
                flags.reference = Some(ReferenceUpdate { every: Some(2), ema: Some(0.9) });
            }),
            ("reference.ema", |flags| {
                flags.kl = Some(kl(0.1, KlPlace::Loss, None));
                flags.reference = Some(ReferenceUpdate { every: None, ema: Some(1.0) });
            }),
        ];
        for (key, spoil) in wrong {
            let mut flags = Algorithm::default();
            spoil(&mut flags);
            assert!(flags.check().expect_err(key).to_string().contains(key), "{key}");
        }
        assert!(toml::from_str::<Algorithm>("baseline = \"none\"\nclip = 0.2").is_err());
    }
}
