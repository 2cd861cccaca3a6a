//! `shutdown`: stops the project's daemon. Asking twice is no error.

use beam_broker::daemon::stop::{self, Stopped};
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Ending};
use crate::{connect, render, ui, verbs};

/// Stops the daemon and prints its answer, or that there was none.
pub fn run(ctx: &Context) -> Result<Ending, CliError> {
    let control = ctx.control(&ctx.any_root()?);
    let limit = ctx.lock_limit()?;
    match connect::runtime()?.block_on(stop::shutdown(&control, limit))? {
        Stopped::Answered(response) => {
            verbs::print(ctx, &response)?;
            Ok(if response.outcome.is_ok() { Ending::Done } else { Ending::Refused })
        }
        Stopped::Killed { pid } => {
            ctx.ui.say(&format!("the daemon (pid {pid}) did not respond and was ended by force"));
            ui::answer(&render::pretty(json!({ "result": { "shutdown": true, "reason": "unresponsive" } })))?;
            Ok(Ending::Done)
        }
        Stopped::NotFound => {
            ui::answer(&render::pretty(json!({ "result": { "shutdown": false, "reason": "notFound" } })))?;
            Ok(Ending::Done)
        }
    }
}
