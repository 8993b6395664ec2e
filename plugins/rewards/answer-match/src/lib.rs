//! Does the last message give the right answer?.
