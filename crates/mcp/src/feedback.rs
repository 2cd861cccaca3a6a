//! `beam_feedback_report`: asks what this process knows about one workspace and lets the report be made.
//!
//! Must never start a runtime, and never look at another workspace than the one that is named.

use crate::report::Reporter;
use crate::service::Service;
use crate::tools::{FeedbackCall, OutputLimits, RuntimeContext, ToolError, ToolOutput};

/// Makes the report.
pub(crate) async fn report<S: Service>(
    service: &S,
    call: FeedbackCall,
    limits: &OutputLimits,
    reporter: &mut Reporter,
) -> ToolOutput {
    let mut known = RuntimeContext { runtime_active: service.has_runtime(), ..RuntimeContext::default() };
    if call.confidential() {
        reporter.preparing("preparing a confidential report").await;
    } else {
        reporter.preparing("collecting context").await;
        let id = call.workspace.id();
        known.stats = reporter.watch(service.stats(Some(&id))).await;
        known.open_files = reporter.watch(service.open_docs(&id)).await;
    }
    let limits = *limits;
    // Reads evidence and writes the bundle: not on a thread that serves others.
    let made = tokio::task::spawn_blocking(move || call.finish(known, &limits));
    reporter.watch(made).await.unwrap_or_else(|e| {
        ToolError::invalid_result(format!("the report could not be made: {e}; try again without `bundle`")).into()
    })
}
