//! The front of the embedded toolchain's installer; with the feature `embedded` off, all that is left of it.

use beam_toolchain::{Entry, Store};

use crate::context::Context;
use crate::error::CliError;

#[cfg(feature = "embedded")]
pub use beam_embedded::InstallError;

/// Why nothing was installed.
#[cfg(not(feature = "embedded"))]
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    /// This program cannot.
    #[error(
        "this lean-beam was built without the installer of the embedded toolchain (cargo feature `embedded`); build it with that feature, or install Lean with elan"
    )]
    LeftOut,
}

/// Installs the embedded toolchain, or finds it installed.
#[cfg(feature = "embedded")]
pub fn install(ctx: &Context, store: &Store) -> Result<Entry, CliError> {
    beam_process::end_on_interrupt();
    let progress = crate::progress::Drawn::new(&ctx.ui);
    Ok(beam_embedded::install(store, &ctx.env, &beam_broker::qualify::Qualifier, &progress)?)
}

/// Says that this program cannot.
#[cfg(not(feature = "embedded"))]
pub fn install(_: &Context, _: &Store) -> Result<Entry, CliError> {
    Err(InstallError::LeftOut.into())
}
