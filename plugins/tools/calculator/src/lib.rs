//! Exact integer and rational arithmetic.
