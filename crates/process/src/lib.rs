//! Child processes that run to their end, and how many of them run at a time.
//!
//! Owns: the environment children are started with, the one runner of short-lived children, process groups, stop flags, and the
//! scheduler of jobs that need one another.
//!
//! Must never: know what it runs (no word of Lean, Lake or Node here), or leave a process of a run behind.
//!
//! * **G1** a run ends when its child has ended, was stopped, or is out of time; neither output nor a grandchild makes it longer.
//! * **G2** when a run is over, by whatever way, nothing of its process group is left.

pub mod env;
mod group;
mod interrupt;
mod run;
pub mod schedule;
mod stop;

pub use env::HostEnv;
pub use group::ProcessGroup;
pub use interrupt::{end_on_interrupt, leave_interrupts};
pub use run::{Done, Run, RunError};
pub use stop::{StopFlag, StopOnDrop};
