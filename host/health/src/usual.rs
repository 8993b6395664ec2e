//! Bounds of the usual ranges, each with its unit and its reason, and sizes of the window that is judged.
//!
//! The bounds are conservative: a run that learns stays within them. Warnings of a run in progress use the same ones.

/// Training steps of a stage that are judged: its last ones. Enough for shares of hundreds of episodes, and few enough that
/// a cured symptom disappears.
pub const WINDOW: usize = 20;

/// Consecutive training steps after which a run in progress warns. The first steps of an untrained policy differ from
/// later ones.
pub const STEPS: u32 = 3;

/// Share of unsolved episodes among all that limits cut short. Harder tasks than that leave too few whole episodes.
pub const CUT_SHORT: f64 = 0.5;

/// Share of episodes with a failure: a quarter of the default of `failures.limit`, at which a run stops.
pub const FAILED: f64 = 0.05;

/// Share of the replies that a limit of tokens cut.
pub const CUT_REPLIES: f64 = 0.25;

/// Share of the written calls that cannot be read or name an unknown function.
pub const MALFORMED: f64 = 0.25;

/// Written calls below which their share is not judged.
pub const LEAST_CALLS: u64 = 20;

/// Share of the messages that look like calls of another format.
pub const LIKE_CALLS: f64 = 0.1;

/// Episodes below which an uncalled function is not judged.
pub const LEAST_OFFERS: u64 = 24;

/// Share of the groups whose rewards are equal and which not all members solve. Dynamic sampling of published recipes
/// replaces up to two of three groups; above this share nearly all work is lost.
pub const WITHOUT_SIGNAL: f64 = 0.8;

/// Groups below which shares of groups are not judged.
pub const LEAST_GROUPS: u64 = 6;

/// Share of the groups that not all members solve, below which their repeats and their variety are not judged: what a good
/// policy still fails at, it fails at in one way.
pub const LEAST_UNSOLVED: f64 = 0.2;

/// Share of the steps that changed no weights, those in which all episodes succeed left out.
pub const WITHOUT_UPDATE: f64 = 0.25;

/// Share of the members after the first of their group that repeat the tokens of an earlier one, in groups that not all
/// members solve. Short replies of a sharp policy repeat often: those of the demo have 0.74.
pub const DUPLICATES: f64 = 0.9;

/// Least share of the members after the first of their group whose sequence of actions no earlier one has, in groups that
/// not all members solve. Groups with one sequence compare nothing.
pub const VARIETY: f64 = 0.1;

/// Mean staleness in training steps without off-policy correction. Published asynchronous recipes need a correction
/// above it.
pub const STALENESS: f64 = 2.0;

/// Mean divergence between the policy that samples and the trainer, in nats per token: half of the default of
/// `policy.max_behaviour_divergence`. Different number formats alone stay below it.
pub const ON_POLICY_DIVERGENCE: f64 = 0.05;

/// Difference between the mean surprise of the sampled tokens and their mean entropy, in nats per token. It is 0 on average
/// if tokens are drawn from the distribution whose log-probabilities are recorded.
pub const SURPRISE: f64 = 0.05;

/// Standard errors that this difference must exceed as well.
pub const SURPRISE_ERRORS: f64 = 5.0;

/// Tokens at a position below which it is not judged.
pub const LEAST_TOKENS: u64 = 100;

/// Time per turn of the slowest episode, as a multiple of the median.
pub const SLOW_TIMES: f64 = 20.0;

/// Time per turn in seconds up to which an episode is not slow, whatever the median.
pub const SLOW_SECONDS: f64 = 5.0;

/// Part of the context that a prompt fills, from which on it is near the end.
pub const NEAR_END: f64 = 0.95;

/// Share of the episodes whose last prompt is near the end of the context.
pub const NEAR_END_SHARE: f64 = 0.1;

/// Share of the demonstrations that exceed the context.
pub const LEFT_OUT: f64 = 0.05;

/// Mean divergence of an optimiser step before it is shortened, as a multiple of the stage's `step_divergence`: lowest and
/// highest. Between them the bound shortens some steps and the weights still move; three steps of `booking.toml` have 103.
pub const STEP_SIZE: (f64, f64) = (1e-3, 1000.0);

/// Entropy of a step, as a part of the step before. A policy that learns loses a few percent in a step.
pub const ENTROPY_PART: f64 = 0.6;

/// Entropy in nats per token below which its fall is not judged. A policy that imitated demonstrations is that sharp: the
/// demo begins with 0.09, and halves it as its success rises.
pub const LEAST_ENTROPY: f64 = 0.2;

/// Steps at the beginning and at the end of a stage whose reward and success are compared.
pub const TREND_STEPS: usize = 5;

/// Standard errors by which the reward must have risen.
pub const TREND_ERRORS: f64 = 3.0;

/// Success from which on it need not rise with the reward.
pub const SOLVED: f64 = 0.9;
