//! Texts of the project that name commands: messages, hints and the README.

mod messages;
mod readme;
