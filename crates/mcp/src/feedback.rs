//! `beam_feedback_report`: collects what this process knows about one workspace and lets the broker make the report.
//!
//! Must never start a runtime, and never look at another workspace than the one that is named.

use crate::report::Reporter;
use crate::service::Service;
use crate::tools::{FeedbackCall, Limits, ToolOutput};

/// Makes the report.
pub(crate) async fn report<S: Service>(
    _service: &S,
    _call: FeedbackCall,
    _limits: &Limits,
    _reporter: &mut Reporter,
) -> ToolOutput {
    crate::tools::ToolError::invalid_input("pending").into()
}
