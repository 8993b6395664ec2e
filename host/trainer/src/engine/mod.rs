//! Generation: continuous batching over slots, which keep a conversation's keys and values between its turns.
//!
//! The first tokens of a slot are cached. Slots with more than one uncached token are *prefilled* in padded batches, long ones
//! in portions; slots with exactly one are *decoded* together, one token each. Requests join and leave between steps. New
//! weights clear the caches and running requests are prefilled again, so that keys and values of different weights never mix.
//!
//! The cache has a fixed number of blocks, for which slots compete: those of idle conversations are taken first, the least
//! recently used before others, then those of the request that was started last, whose tokens are computed again later.
//! Requests wait while older ones need the room.
//!
//! **Deterministic** engines assign each conversation the slot of its place, prefill it alone, decode all slots
//! including idle ones, and let masked attention cover the whole cache. Each row of such a batch is computed by the same
//! operations in the same order, independently of the other rows. A prefill leaves the last token to be decoded, so
//! that it makes no difference whether the tokens before it were computed or copied from a slot that computed the same
//! tokens.
#![allow(non_snake_case)]

mod blocks;
mod cache;
mod decode;
mod prefill;
mod room;
mod sampler;
mod slot;

use std::collections::VecDeque;

use gymkhana_policy::{Conversation, Sampling, ScoreRequest};
use gymkhana_record::Sampled;
use tch::{Device, Kind, TchError, Tensor, no_grad_guard};

use crate::loss::token_log_probs;
use crate::model::{LogitsBy, Model, Sight, VisibleKeys, Weights, token_tensor};
use crate::{TrainerError, TrainerSettings, cuda};
use cache::KvCache;
use slot::EngineSlot;

pub(crate) use cache::CacheSize;
pub(crate) use slot::WaitingRequest;

/// Most tokens that are prefilled in one step: other requests get their next tokens in between.
const PORTION: usize = 2048;

/// The engine. It lives on the thread that owns the model.
pub(crate) struct Engine {
    weights: Weights,
    version: u32,
    cache: KvCache,
    slots: Vec<EngineSlot>,
    waiting: VecDeque<WaitingRequest>,
    context: usize,
    deterministic: bool,
    steps: u64,
    /// Number of requests that were started.
    started: u64,
    /// Most tokens of a slot that are prefilled in one step, and of all slots before others get their next tokens.
    portion: usize,
    device: Device,
}

/// A row of a batch: a slot and the positions of its tokens to compute.
#[derive(Clone, Copy)]
struct Row {
    slot: usize,
    first: usize,
    count: usize,
}

/// Inputs of a pass.
struct Fed {
    tokens_RS: Tensor,
    positions_RS: Tensor,
    /// Rows of the cache to write, `[R · S]`.
    targets: Tensor,
    /// Index of each row's last token in `[R · S]`, `[R]`.
    lasts_R: Tensor,
}

/// Cached positions that a step's attention covers.
enum Attended {
    /// Those of each row, read in place.
    InPlace(decode::CachedPositions),
    /// Rows of the cache with the first positions of all rows, `[R · T]`, and a mask for each window of the model's layers,
    /// `[R, 1, S, T]`.
    Masked(Tensor, Vec<(Option<i64>, Tensor)>),
}

impl Engine {
    pub fn new(model: &Model, settings: &TrainerSettings, context: usize, version: u32) -> Result<Self, TrainerError> {
        let contiguous = model.decode_kernels().is_some();
        let size = CacheSize::of(model.config(), settings, context, contiguous);
        Self::with_cache(model, settings, context, version, size)
    }

    /// An engine whose cache has this size.
    fn with_cache(
        model: &Model,
        settings: &TrainerSettings,
        context: usize,
        version: u32,
        size: CacheSize,
    ) -> Result<Self, TrainerError> {
        let _guard = no_grad_guard();
        let cache = KvCache::new(model, size);
        Ok(Self {
            weights: model.inference_weights(),
            version,
            cache: cache.map_err(TrainerError::torch("allocated the key-value cache"))?,
            slots: std::iter::repeat_with(EngineSlot::default).take(settings.max_concurrent_sequences).collect(),
            waiting: VecDeque::new(),
            context,
            deterministic: settings.deterministic,
            steps: 0,
            started: 0,
            portion: PORTION,
            device: model.device(),
        })
    }

    /// Takes over the model's updated weights and clears the caches.
    pub fn update(&mut self, model: &Model, version: u32) {
        let _guard = no_grad_guard();
        self.weights = model.inference_weights();
        self.version = version;
        (0..self.slots.len()).for_each(|slot| self.forget(slot));
    }

    /// Queues a request that fits the context and the vocabulary.
    pub fn submit(&mut self, waiting: WaitingRequest) {
        self.waiting.push_back(waiting);
    }

    /// Releases a conversation's slot. Its cache stays as a possible prefix for others until the slot is needed; a
    /// deterministic engine clears it, so that no conversation depends on earlier ones.
    pub fn release(&mut self, conversation: Conversation) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            if slot.owner != Some(conversation) {
                continue;
            }
            slot.owner = None;
            slot.running = None;
            if self.deterministic {
                slot.cached = 0;
            }
        }
    }

    /// Whether a step has work to do.
    pub fn has_work(&self) -> bool {
        self.slots.iter().any(|slot| slot.running.is_some())
            || self.waiting.iter().any(|waiting| waiting.reply.is_closed() || self.place_for(waiting).is_some())
    }

    /// Starts waiting requests and generates one token for every running request.
    pub fn step(&mut self, model: &Model) -> Result<(), TchError> {
        let _guard = no_grad_guard();
        self.steps += 1;
        self.slots.iter_mut().for_each(EngineSlot::drop_cancelled);
        self.waiting.retain(|waiting| !waiting.reply.is_closed());
        self.admit();
        let mut portions = 0;
        while portions < self.portion || self.deterministic {
            let Some(rows) = self.next_prefill()? else { break };
            portions += rows.iter().map(|row| row.count).sum::<usize>();
            self.prefill(model, &rows)?;
        }
        self.decode(model)
    }

    /// Starts waiting requests in order of arrival, as long as slots are available.
    fn admit(&mut self) {
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else { return };
            match self.place_for(&waiting) {
                Some(index) => {
                    self.started += 1;
                    let slot = &mut self.slots[index];
                    slot.start(waiting, self.context, self.steps, self.started);
                    let kept = slot.cached.max(slot.opening);
                    self.cache.shorten(&mut slot.table, kept);
                }
                None => self.waiting.push_back(waiting),
            }
        }
    }

    /// Slot in which a request can start now: that of its conversation, else a slot without owner, else the least
    /// recently used one whose conversation is idle.
    fn place_for(&self, waiting: &WaitingRequest) -> Option<usize> {
        let conversation = waiting.request.conversation;
        let idle = |slot: &EngineSlot| slot.running.is_none();
        if self.deterministic {
            let index = conversation.place as usize % self.slots.len();
            let slot = &self.slots[index];
            return (idle(slot) && slot.owner.is_none_or(|owner| owner == conversation)).then_some(index);
        }
        if let Some(index) = self.slots.iter().position(|slot| slot.owner == Some(conversation)) {
            return idle(&self.slots[index]).then_some(index);
        }
        let free = (0..self.slots.len()).filter(|index| idle(&self.slots[*index]));
        free.min_by_key(|index| (self.slots[*index].owner.is_some(), self.slots[*index].used))
    }

    fn prefill(&mut self, model: &Model, rows: &[Row]) -> Result<(), TchError> {
        let hidden_RC = self.feed(model, rows)?;
        if self.deterministic {
            rows.iter().for_each(|row| self.slots[row.slot].fill(row.count));
            return Ok(());
        }
        // A portion that is not the last gives no token.
        let ends = |row: &Row| row.count == self.slots[row.slot].pending();
        let (last, places): (Vec<Row>, Vec<i64>) =
            rows.iter().zip(0..).filter(|(row, _)| ends(row)).map(|(row, place)| (*row, place)).unzip();
        for row in rows.iter().filter(|row| !last.iter().any(|last| last.slot == row.slot)) {
            self.slots[row.slot].fill(row.count);
        }
        if last.len() == rows.len() {
            return self.choose(&hidden_RC, rows);
        }
        if last.is_empty() {
            return Ok(());
        }
        let places = Tensor::f_from_slice(&places)?.f_to_device(self.device)?;
        self.choose(&hidden_RC.f_index_select(0, &places)?, &last)
    }

    /// Computes the single uncached token of each running slot that has room, the oldest first.
    fn decode(&mut self, model: &Model) -> Result<(), TchError> {
        let mut ready: Vec<usize> = (0..self.slots.len()).filter(|slot| self.slots[*slot].pending() == 1).collect();
        ready.sort_by_key(|slot| self.slots[*slot].order);
        let next = |slot: usize, engine: &Self| Row { slot, first: engine.slots[slot].cached, count: 1 };
        let mut active = Vec::new();
        for slot in ready {
            // An older one may have taken its blocks.
            if self.slots[slot].pending() == 1 && self.make_room(&next(slot, self))? {
                active.push(slot);
            }
        }
        active.sort_unstable();
        let Some(last) = active.last() else { return Ok(()) };
        let span = if self.deterministic { self.slots.len() } else { last + 1 };
        // Idle rows cost less than a gap in the batch, unless they are the majority.
        let dense = self.deterministic || (!self.reads_in_place(model) && active.len() * 2 > span);
        let fed: Vec<usize> = if dense { (0..span).collect() } else { active.clone() };
        let rows: Vec<Row> = fed
            .into_iter()
            .map(|slot| if active.contains(&slot) { next(slot, self) } else { Row { slot, first: 0, count: 0 } })
            .collect();
        let hidden_RC = self.feed(model, &rows)?;
        self.choose(&hidden_RC, &rows)
    }

    /// Whether single new tokens attend to the cache in place, without a copy or padding.
    fn reads_in_place(&self, model: &Model) -> bool {
        (self.device == Device::Cpu && model.kind() == Kind::Float) || model.decode_kernels().is_some()
    }

    /// Runs tokens through the model and caches their keys and values. Rows are padded to the longest; padding and idle
    /// rows write to the scratch position. Returns the hidden state of each row's last token, `[R, C]`.
    fn feed(&mut self, model: &Model, rows: &[Row]) -> Result<Tensor, TchError> {
        let S = rows.iter().map(|row| row.count).max().unwrap_or(1).max(1);
        let seen = rows.iter().map(|row| row.first + row.count).max().unwrap_or(1);
        let length = if self.deterministic { self.cache.positions() } else { self.cache.bucket(seen.max(1)) };
        let Fed { tokens_RS, positions_RS, targets, lasts_R } = self.fed(rows, S)?;
        if let Some(kernels) = model.decode_kernels().filter(|_| S == 1) {
            let cache = |layer| self.cache.layer(layer);
            return model.decoded(
                kernels,
                &self.weights,
                [&tokens_RS.f_view([-1])?, &positions_RS.f_view([-1])?, &targets],
                cache,
            );
        }
        let attended = if S == 1 && self.reads_in_place(model) {
            let mut seen = decode::CachedPositions::new(self.cache.block());
            rows.iter().for_each(|row| seen.push(self.slots[row.slot].table.blocks(), row.first + row.count));
            Attended::InPlace(seen)
        } else {
            let mask = |window: Option<i64>| {
                Ok((window, visible(&positions_RS, length as i64, window)?.f_to_kind(model.kind())?))
            };
            let windows = model.config().decoder.windows().into_iter();
            let tables = rows.iter().map(|row| &self.slots[row.slot].table);
            let seen = self.cache.rows(tables, length, self.device);
            Attended::Masked(seen, windows.map(mask).collect::<Result<_, TchError>>()?)
        };
        let kv_heads = model.config().num_key_value_heads;
        let angles = model.angles_at(&positions_RS);
        let cache = &mut self.cache;
        let mut failure = None;
        let hidden_1RC =
            model.hidden(&self.weights, &tokens_RS, &angles, Some(&lasts_R), |layer, query, key, value| {
                cache.write(layer, &targets, key, value);
                let sight = Sight::of(model.config(), layer);
                match &attended {
                    Attended::InPlace(seen) => decode::attend(query, cache.layer(layer), seen, kv_heads, sight)
                        .unwrap_or_else(|error| {
                            failure = Some(error);
                            query.zeros_like()
                        }),
                    Attended::Masked(rows, masks) => {
                        let [key, value] = cache.read(layer, rows, length);
                        let mask = masks.iter().find(|(window, _)| *window == sight.window);
                        mask.map_or_else(|| query.zeros_like(), |(_, mask)| attend(query, [&key, &value], mask, sight))
                    }
                }
            });
        if let Some(error) = failure {
            return Err(error);
        }
        hidden_1RC.f_squeeze_dim(0)
    }

    /// Inputs of a pass over rows of up to S tokens, copied to the device at once.
    fn fed(&self, rows: &[Row], S: usize) -> Result<Fed, TchError> {
        let (mut tokens, mut positions, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        let scratch = blocks::Table::default();
        for row in rows {
            for index in 0..S {
                let meant = index < row.count;
                let position = if meant { row.first + index } else { 0 };
                tokens.push(if meant { i64::from(self.slots[row.slot].tokens[position]) } else { 0 });
                positions.push(position as i64);
                let own = meant.then_some(&self.slots[row.slot].table);
                targets.push(self.cache.row(own.unwrap_or(&scratch), position));
            }
        }
        let lasts = rows.iter().zip(0..).map(|(row, at)| (at * S + row.count.max(1) - 1) as i64);
        let numbers: Vec<i64> = [tokens, positions, targets].concat().into_iter().chain(lasts).collect();
        let numbers = Tensor::f_from_slice(&numbers)?.f_to_device(self.device)?;
        let (R, N) = (rows.len() as i64, (rows.len() * S) as i64);
        let part = |index: i64, length: i64| numbers.f_narrow(0, index * N, length);
        Ok(Fed {
            tokens_RS: part(0, N)?.f_view([R, S as i64])?,
            positions_RS: part(1, N)?.f_view([R, S as i64])?,
            targets: part(2, N)?,
            lasts_R: part(3, R)?,
        })
    }

    /// Samples the next token of each computed row.
    fn choose(&mut self, hidden_RC: &Tensor, rows: &[Row]) -> Result<(), TchError> {
        let logits_RV = self.weights.own_logits(hidden_RC);
        let nothing = sampler::RowSampling { sampling: Sampling::GREEDY, uniform: 0.0 };
        let choices: Vec<sampler::RowSampling> = rows
            .iter()
            .map(|row| if row.count > 0 { self.slots[row.slot].next_choice().unwrap_or(nothing) } else { nothing })
            .collect();
        for (row, chosen) in rows.iter().zip(sampler::choose(&logits_RV, &choices)?) {
            if row.count > 0 {
                self.slots[row.slot].accept(chosen, self.version);
                self.slots[row.slot].used = self.steps;
            }
        }
        Ok(())
    }

    /// Log-probability and entropy (nats) of each token of a continuation, computed alone and without the cache.
    pub fn score(&self, model: &Model, request: &ScoreRequest) -> Result<Sampled, TchError> {
        let _guard = no_grad_guard();
        let tokens = [&request.prefix[..], &request.continuation[..]].concat();
        let (first, count) = (request.prefix.len() as i64, request.continuation.len() as i64);
        let fed_1S = token_tensor(&tokens[..tokens.len() - 1]).f_unsqueeze(0)?.f_to_device(self.device)?;
        let targets_N = token_tensor(&request.continuation).f_to_device(self.device)?;
        let hidden_NC = model.causal_hidden(&self.weights, &fed_1S).f_squeeze_dim(0)?.f_narrow(0, first - 1, count)?;
        let (mut log_probs, mut entropies) = (Vec::new(), Vec::new());
        let kernels = cuda::kernels(self.device);
        let by = if kernels.is_some() { LogitsBy::Kernels } else { LogitsBy::Operations };
        for (start, length) in model.logits_chunks(count, by) {
            let hidden_NC = hidden_NC.f_narrow(0, start, length)?;
            let targets_N = targets_N.f_narrow(0, start, length)?;
            let (own_N, entropies_N) = if let Some(kernels) = kernels {
                let numbers = kernels.log_probs(&self.weights.own_logits(&hidden_NC), 1.0, &targets_N)?;
                (numbers.log_probs_N(), Some(numbers.entropies_N()))
            } else {
                token_log_probs(&self.weights.logits(&hidden_NC), &targets_N, true)
            };
            log_probs.extend(Vec::<f32>::try_from(own_N)?);
            if let Some(entropies_N) = entropies_N {
                entropies.extend(Vec::<f32>::try_from(entropies_N)?);
            }
        }
        let versions = vec![self.version; request.continuation.len()];
        Ok(Sampled { tokens: request.continuation.to_vec(), log_probs, entropies, versions })
    }
}

/// Attention mask of each token: 0 at cached positions that it sees, up to its own and within the window, minus infinity at
/// the others, `[R, 1, S, T]`.
fn visible(positions_RS: &Tensor, length: i64, window: Option<i64>) -> Result<Tensor, TchError> {
    let size = positions_RS.size();
    let cached_T = Tensor::f_arange(length, (Kind::Int64, positions_RS.device()))?;
    let own_RS1 = positions_RS.f_unsqueeze(-1)?;
    let later_RST = cached_T.f_gt_tensor(&own_RS1)?;
    let hidden_RST = match window {
        None => later_RST,
        Some(window) => later_RST.f_logical_or(&cached_T.f_le_tensor(&own_RS1.f_sub_scalar(window)?)?)?,
    };
    let mask = Tensor::f_zeros([size[0], 1, size[1], length], (Kind::Float, positions_RS.device()))?;
    mask.f_masked_fill(&hidden_RST.f_unsqueeze(1)?, f64::NEG_INFINITY)
}

/// Attention of `[R, S, H, D]` queries over `[R, K, T, D]` keys and values; returns `[R, S, H, D]`.
fn attend(query_RSHD: &Tensor, [key, value]: [&Tensor; 2], mask_R1ST: &Tensor, sight: Sight) -> Tensor {
    let size = query_RSHD.size();
    let (R, S, H, D) = (size[0], size[1], size[2], size[3]);
    let (group, shown) = (H / key.size()[1], VisibleKeys::Mask(mask_R1ST));
    if S == 1 && group > 1 {
        // The heads of a group see the same keys: with heads as positions, each key is read once.
        let query_RKGD = query_RSHD.reshape([R, H / group, group, D]);
        return sight.attend([&query_RKGD, key, value], shown).reshape([R, S, H, D]);
    }
    sight.attend([&query_RSHD.transpose(1, 2), key, value], shown).transpose(1, 2)
}

#[cfg(test)]
mod tests;
