//! The front of the embedded toolchain's installer; with the feature `embedded` off, all that is left of it beside its error.

use beam_toolchain::{Entry, Store};

use crate::context::Context;
use crate::error::CliError;

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
    Err(crate::error::InstallError::LeftOut.into())
}
