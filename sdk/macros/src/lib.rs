//! The procedural macro of gymkhana-sdk.
