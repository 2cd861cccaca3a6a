//! Questions about processes: our pid namespace, whether a recorded pid still runs.
//!
//! Must never decide whether a *daemon* is alive: a pid may belong to another namespace or to a later process (R8).

#![allow(clippy::disallowed_methods, reason = "reads /proc, which is no disk")]

use std::time::Duration;

use rustix::process::Pid;

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

/// The process that listens on a socket, as the kernel names it, held by a descriptor: its number can be given to nobody else while this
/// is asked or signalled. The only way here to a signal; a pid that was read from a file is for messages.
#[derive(Debug)]
pub struct Listener {
    pid: u32,
    #[cfg(target_os = "linux")]
    fd: std::os::fd::OwnedFd,
}

impl Listener {
    /// Of a connected socket; `None` where the kernel does not say (another pid namespace, another system) and for ourselves.
    ///
    /// The process could have ended between the kernel's word and this. It had not if the connection is found alive afterwards (an
    /// answer comes, or no end does): whoever has the descriptor then has that very process.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn of(stream: &tokio::net::UnixStream) -> Option<Self> {
        let pid = stream.peer_cred().ok()?.pid()?;
        let known = Pid::from_raw(pid).filter(|p| *p != rustix::process::getpid())?;
        let fd = rustix::process::pidfd_open(known, rustix::process::PidfdFlags::empty()).ok()?;
        Some(Self { pid: u32::try_from(pid).ok()?, fd })
    }

    /// Nothing here vouches for a process, so none is signalled.
    #[cfg(not(target_os = "linux"))]
    #[must_use]
    pub fn of(_: &tokio::net::UnixStream) -> Option<Self> {
        None
    }

    /// Its number, for messages.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether it ends within `limit`.
    pub async fn ends(&self, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        while !self.has_ended() {
            if tokio::time::Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        true
    }

    /// A process descriptor can be read from once its process has ended, waited for or not.
    #[cfg(target_os = "linux")]
    fn has_ended(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0)
    }

    #[cfg(not(target_os = "linux"))]
    fn has_ended(&self) -> bool {
        false
    }

    /// Ends it. Errors mean that it is gone already.
    pub fn kill(&self) {
        #[cfg(target_os = "linux")]
        let _gone = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::KILL);
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
