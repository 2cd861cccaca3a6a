//! From a toolchain's launch line to the session's: the session crate must not see the toolchain crate, so somebody above both translates.

use beam_session::WorkerCommand;
use beam_toolchain::WorkerLaunch;

/// The command that starts a file worker.
#[must_use]
pub fn worker_command(launch: WorkerLaunch) -> WorkerCommand {
    WorkerCommand {
        program: launch.program.as_os_str().to_owned(),
        args: launch.args,
        env: launch.env,
        env_remove: launch.env_remove,
        cwd: launch.cwd,
    }
}
