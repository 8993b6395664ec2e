//! From the contract's functions and handles to an author's traits.

use std::marker::PhantomData;

use super::{Advice, Environment, Episode, Guidance, Oracle, Picture, Privileged, Render, Snapshot, StateKey, wit};
use crate::bindings::environment::exports::gymkhana::plugin::environment::Guest;
use crate::bindings::{
    environment_guidance as guidance, environment_oracle as oracle, environment_privileged as privileged,
    environment_render as render, environment_snapshot as snapshot, environment_state_key as state_key,
};
use crate::{Content, Error, NamedValue, OptionInfo, Task, handles};

/// What [`crate::plugin!`] exports for an environment.
pub struct Exported<E>(PhantomData<E>);

fn look<E: Environment, R>(episode: u32, look: impl FnOnce(&E) -> R) -> Result<R, Error> {
    handles::with(episode, |episode: &mut Episode<E>| look(episode.environment()))
}

impl<E: Environment> Guest for Exported<E> {
    fn describe() -> wit::Info {
        let info = E::info();
        wit::Info {
            summary: info.summary,
            seats: info.seats,
            options: info.options.iter().map(OptionInfo::to_wit).collect(),
            rewards: info.rewards,
        }
    }

    fn splits(options: Vec<NamedValue>) -> Result<Vec<wit::SplitInfo>, Error> {
        Episode::<E>::splits(options)
    }

    fn start(task: Task, options: Vec<NamedValue>, seed: u64) -> Result<wit::Started, Error> {
        let (episode, started) = Episode::<E>::start(&task, options, seed)?;
        Ok(wit::Started {
            episode: handles::open(episode),
            observations: started.observations,
            functions: started.functions,
            setup: started.setup,
            seat: started.seat,
        })
    }

    fn step(episode: u32, action: wit::Action) -> Result<wit::Stepped, Error> {
        handles::with(episode, |episode: &mut Episode<E>| episode.step(action))?
    }

    fn close(episode: u32) {
        handles::close::<Episode<E>>(episode);
    }
}

impl<E: Snapshot> snapshot::exports::gymkhana::plugin::environment_snapshot::Guest for Exported<E> {
    fn snapshot(episode: u32) -> Result<Vec<u8>, Error> {
        handles::with(episode, |episode: &mut Episode<E>| episode.snapshot())
    }

    fn restore(snapshot: Vec<u8>) -> Result<u32, Error> {
        Ok(handles::open(Episode::<E>::restore(&snapshot)?))
    }
}

impl<E: StateKey> state_key::exports::gymkhana::plugin::environment_state_key::Guest for Exported<E> {
    fn state_key(episode: u32) -> Result<Vec<u8>, Error> {
        look(episode, E::state_key)
    }
}

impl<E: Privileged> privileged::exports::gymkhana::plugin::environment_privileged::Guest for Exported<E> {
    fn privileged(episode: u32) -> Result<Vec<NamedValue>, Error> {
        look(episode, E::privileged)
    }
}

impl<E: Oracle> oracle::exports::gymkhana::plugin::environment_oracle::Guest for Exported<E> {
    fn advise(episode: u32, tools: Vec<String>, results: Vec<String>) -> Result<Advice, Error> {
        look(episode, |environment: &E| environment.advise(&tools, &results))?
    }
}

impl<E: Guidance> guidance::exports::gymkhana::plugin::environment_guidance::Guest for Exported<E> {
    fn guidance(episode: u32) -> Result<Content, Error> {
        look(episode, E::guidance)
    }
}

impl<E: Render> render::exports::gymkhana::plugin::environment_render::Guest for Exported<E> {
    fn render(episode: u32) -> Result<Picture, Error> {
        look(episode, E::render)
    }
}
