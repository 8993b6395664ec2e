//! The page of recorded runs, asked through its routes: what it shows, whom it refuses, and what hostile content can do.

mod access;
mod browser;
mod fixture;
mod hostile;
mod live;
mod pages;
mod replay;
