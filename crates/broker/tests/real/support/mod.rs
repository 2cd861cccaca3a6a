//! What the tests against real Lean share. Each test binary uses its own part of it.
#![allow(dead_code)]

pub mod expect;
pub mod lanes;
pub mod project;
pub mod steps;
