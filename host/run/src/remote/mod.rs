//! Trainer on a Tinker server, if the build has the feature `tinker`.

#[cfg(feature = "tinker")]
mod checkpoint;
#[cfg(not(feature = "tinker"))]
mod left_out;
#[cfg(feature = "tinker")]
mod measured;
#[cfg(feature = "tinker")]
mod progress;
#[cfg(feature = "tinker")]
mod trainer;

#[cfg(not(feature = "tinker"))]
pub(crate) use left_out::RemoteTrainer;
#[cfg(feature = "tinker")]
pub(crate) use trainer::RemoteTrainer;
