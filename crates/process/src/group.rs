//! Process groups: a child together with all that it starts (`lake env` starts `lean`), so that both can be ended.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, Signal, kill_process_group};

/// The groups of all runs under way in this process, for a program that is interrupted.
static LIVE: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// The process group of a child that was started with `process_group(0)`, so that the child's id is the group's.
///
/// Its number stays taken while the child has not been waited for, even if that has ended. Signals sent after that may reach a
/// stranger; so signal first, wait then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessGroup(Pid);

impl ProcessGroup {
    /// The group led by the child with this process id; `None` for 0, which would be our own group, and for what is no process id.
    #[must_use]
    pub fn led_by(child: u32) -> Option<Self> {
        i32::try_from(child).ok().and_then(Pid::from_raw).map(Self)
    }

    /// Asks every process of the group to end (SIGTERM).
    pub fn terminate(self) {
        self.signal(Signal::TERM);
    }

    /// Ends every process of the group (SIGKILL).
    pub fn kill(self) {
        self.signal(Signal::KILL);
    }

    fn signal(self, signal: Signal) {
        // It fails when nothing of the group is left, which is what was wanted.
        let _gone = kill_process_group(self.0, signal);
    }

    pub(crate) fn leader(self) -> Pid {
        self.0
    }

    pub(crate) fn enlist(self) {
        live().insert(self.0.as_raw_pid());
    }

    pub(crate) fn delist(self) {
        live().remove(&self.0.as_raw_pid());
    }

    /// The groups of all runs under way.
    pub(crate) fn all_live() -> Vec<Self> {
        live().iter().filter_map(|&pid| Pid::from_raw(pid)).map(Self).collect()
    }
}

fn live() -> MutexGuard<'static, BTreeSet<i32>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}
