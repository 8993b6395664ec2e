//! The libtorch model, generation, advantages, losses and checkpoints.
