"""The presets' constants, written out here and not read from the presets' files, so that a wrong number in a file shows."""

PPO_CLIP = {"low": 0.2, "high": 0.2}
HIGHER_CLIP = {"low": 0.2, "high": 0.28}
GSPO_CLIP = {"low": 3e-4, "high": 4e-4}
CRITIC = {"discount": 1.0, "lambda": 0.95, "learning_rate": 1e-4, "warmup_steps": 10}

CONSTANTS = {
    "aepo": {"surrogate": HIGHER_CLIP, "entropy_advantage": 0.2},
    "arpo": {"surrogate": PPO_CLIP},
    "cispo": {"surrogate": {"low": 1.0, "high": 3.0}},
    "dapo": {"surrogate": HIGHER_CLIP, "length_penalty": {"tokens": 20480, "buffer": 4096}},
    "dart": {"surrogate": HIGHER_CLIP, "entropy_quantile": 0.2, "off_policy": {"cap": 2.0}, "kl": {"beta": 0.1},
             "replay": {"capacity": 1024, "success": 1.0}},
    "dr-grpo": {"surrogate": PPO_CLIP, "constant_tokens": 256},
    "dr-mas": {"surrogate": PPO_CLIP},
    "epo": {"surrogate": PPO_CLIP, "entropy_bonus": 0.001,
            "entropy_band": {"low": 0.8, "high": 1.2, "weight": 0.1, "mode": "hinge"}},
    "g-ra": {"surrogate": PPO_CLIP},
    "gigpo": {"surrogate": PPO_CLIP, "credit": {"discount": 0.95, "weight": 1.0}, "kl": {"beta": 0.01}},
    "grpo": {"surrogate": PPO_CLIP, "kl": {"beta": 0.04}},
    "grpo-roc": {"surrogate": HIGHER_CLIP},
    "gspo": {"surrogate": GSPO_CLIP},
    "igpo": {"surrogate": PPO_CLIP, "credit": {"discount": 1.0}, "kl": {"beta": 0.001}},
    "lite-ppo": {"surrogate": PPO_CLIP},
    "loop": {"surrogate": PPO_CLIP},
    "mars": {"surrogate": PPO_CLIP | {"dual": 3.0}, "credit": {"discount": 1.0}, "kl": {"beta": 0.2}},
    "mini-o3": {"surrogate": {"low": 0.2, "high": 0.3}},
    "mt-grpo": {"surrogate": PPO_CLIP, "credit": {"turn_weight": 1.0, "outcome_weight": 1.0}, "kl": {"beta": 0.04}},
    "otc": {"surrogate": PPO_CLIP, "kl": {"beta": 0.001}},
    "ppo": {"surrogate": PPO_CLIP, "critic": CRITIC | {"clip": 0.2}, "epochs": 1, "minibatches": 4},
    "reinforce++": {"surrogate": PPO_CLIP, "whiten_floor": 0.1, "kl": {"beta": 0.01}},
    "rise": {"reward_temperature": 1.0},
    "rloo": {"constant_tokens": 1, "kl": {"beta": 0.03}},
    "scalinginter": {"surrogate": PPO_CLIP, "kl": {"beta": 0.001}},
    "score": {"progress": 10.0, "constant_tokens": 1, "kl": {"beta": 0.01}},
    "score-first": {"constant_tokens": 1, "kl": {"beta": 0.1, "first_turns": 1}},
    "simpletir": {"surrogate": HIGHER_CLIP},
    "spear": {"surrogate": HIGHER_CLIP, "covariance_clip": {"low": 2.0, "high": 60.0, "share": 0.02},
              "replay": {"capacity": 2048, "baselines": 10240, "stale_steps": 10, "ramp_steps": 100}},
    "spiral-rae": {"surrogate": PPO_CLIP, "average_decay": 0.95, "constant_tokens": 256},
    "step-ppo": {"surrogate": GSPO_CLIP, "critic": CRITIC},
    "supo": {"surrogate": HIGHER_CLIP},
    "vl-dac": {"surrogate": PPO_CLIP, "critic": CRITIC | {"discount": 0.99}, "kl": {"beta": 0.01}},
}

# Losses over whole episodes.
PREFERENCES = {"dpo": {"surrogate": {"beta": 0.1}}, "kto": {"surrogate": {"beta": 0.1}}}
