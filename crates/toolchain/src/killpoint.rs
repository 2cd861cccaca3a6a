//! Named points at which a test can stop a process for good, to see what a kill there leaves behind.
//!
//! Always compiled in, so that what is tested is what ships. Without the variable it is one look-up.

use beam_process::HostEnv;

/// The point to stop at.
const PARK: &str = "LEAN_BEAM_TEST_PARK";
/// A file that is made when the point is reached.
const MARK: &str = "LEAN_BEAM_TEST_PARK_MARK";

/// Stops this thread for ever if the environment names this point, after making the marker file.
pub fn kill_point(env: &HostEnv, name: &str) {
    if env.var(PARK) != Some(name) {
        return;
    }
    if let Some(mark) = env.var_os(MARK) {
        // A test that waits for a marker that cannot be made runs into its own deadline and says so.
        let _ignored = std::fs::write(mark, name);
    }
    loop {
        std::thread::park();
    }
}
