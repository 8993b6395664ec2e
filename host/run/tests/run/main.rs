//! The training library: damaged folders, and its example.

mod damage;
