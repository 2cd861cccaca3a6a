//! Questions about processes: our user, our pid namespace, whether a recorded pid still runs.
//!
//! Must never decide whether a *daemon* is alive: a pid may belong to another namespace or to a later process (R8).

use rustix::process::{Pid, Signal};

/// Our effective user.
#[must_use]
pub fn our_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The name of our pid namespace, where the platform has them: pids of two namespaces cannot be compared.
#[must_use]
pub fn pid_namespace() -> Option<String> {
    std::fs::read_link("/proc/self/ns/pid").ok().and_then(|p| p.into_os_string().into_string().ok())
}

/// What is known of a recorded pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PidStatus {
    /// A process of that number exists.
    Alive,
    /// None does.
    Dead,
    /// The record has no pid (zero).
    Unknown,
    /// The pid is of another namespace, or of a process that may not be asked about.
    Unavailable,
}

impl PidStatus {
    /// Words for incidents and diagnostics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Dead => "not alive",
            Self::Unknown => "unknown",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The status of a pid that was recorded in `namespace`.
#[must_use]
pub fn pid_status(pid: u32, namespace: Option<&str>) -> PidStatus {
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else {
        return PidStatus::Unknown;
    };
    if namespace != pid_namespace().as_deref() {
        return PidStatus::Unavailable;
    }
    match rustix::process::test_kill_process(known) {
        // Ended, but not waited for: a daemon whose starter still runs, or a container whose first process waits for nobody.
        Ok(()) if is_zombie(pid) => PidStatus::Dead,
        Ok(()) => PidStatus::Alive,
        Err(rustix::io::Errno::SRCH) => PidStatus::Dead,
        Err(_) => PidStatus::Unavailable,
    }
}

fn is_zombie(pid: u32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return false;
    };
    // The name in parentheses may hold anything; the state follows the last one.
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Kills a process that is known to be ours. Errors mean it is gone already.
pub fn kill(pid: u32) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _gone = rustix::process::kill_process(pid, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pids_of_another_namespace_say_nothing() {
        let ours = pid_namespace();
        let me = std::process::id();
        assert_eq!(pid_status(me, ours.as_deref()), PidStatus::Alive);
        assert_eq!(pid_status(0, ours.as_deref()), PidStatus::Unknown);
        assert_eq!(pid_status(me, Some("pid:[1]")), PidStatus::Unavailable);
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        // Ended but not waited for is as dead as waited for.
        while pid_status(pid, ours.as_deref()) == PidStatus::Alive {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert_eq!(pid_status(pid, ours.as_deref()), PidStatus::Dead);
    }
}
