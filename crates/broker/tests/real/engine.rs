//! The engine's own promises, against real Lean workers: versions, cancellation, edits and closes while a probe is pending, many
//! probes at once, handles and their counts, the barrier, unusual files.

mod engine_documents;
mod engine_requests;
mod support;

use std::process::ExitCode;
use std::sync::Arc;

use engine_documents::*;
use engine_requests::*;
use libtest_mimic::{Arguments, Failed, Trial};
use support::lanes::Lanes;

fn main() -> ExitCode {
    let mut args = Arguments::from_args();
    let lanes = Arc::new(Lanes::new(1));
    args.test_threads = Some(1);
    macro_rules! trials {
        ($($name:ident),* $(,)?) => {
            vec![$({
                let lanes = Arc::clone(&lanes);
                Trial::test(stringify!($name), move || lanes.with($name).map_err(Failed::from))
            }),*]
        };
    }
    let trials = trials![
        a_version_is_the_token_of_every_position,
        a_disk_edit_makes_the_old_version_stale_at_once,
        positions_outside_name_the_limit,
        bad_files_are_named_for_what_they_are,
        a_second_request_with_an_active_id_is_refused,
        a_cancelled_probe_leaves_nothing_running,
        dropping_a_request_cancels_it,
        r3_a_late_cancel_hits_nobody,
        an_edit_ends_pending_probes_and_only_those,
        a_close_ends_pending_probes,
        a_killed_worker_is_replaced_and_told,
        a_reset_forgets_how_many_workers_were_replaced,
        a_changed_header_gets_a_fresh_worker,
        many_probes_share_one_worker,
        handle_counts_return_to_zero,
        malformed_raw_handles_reach_lean_and_are_refused,
        handles_of_another_session_are_stale,
        sync_counts_and_filters_diagnostics,
        r6_readiness_is_leans_verdict,
        sync_after_an_edit_is_about_the_new_text,
        a_missing_import_is_never_clean,
        utf16_crlf_tabs_and_missing_newlines,
        an_empty_file_and_a_byte_order_mark,
        a_line_of_two_megabytes,
        open_documents_know_the_disk,
        statistics_count_what_happened,
        r1_concurrent_updates_settle_on_the_newest_text,
        r4_events_come_before_the_one_answer,
        todo_ranges_kinds_and_refusals,
        code_actions_are_resolved_for_their_own_file_only,
        hover_symbols_and_signature_are_leans_own,
        workspace_selectors_are_checked,
        ensure_reports_the_session,
        goals_with_a_text_are_refused,
        a_version_names_one_text_for_ever,
        a_probe_waits_only_for_the_prefix,
        no_lean_file_is_ever_written,
        definition_and_references_cross_files,
        an_importer_of_a_changed_dependency_is_never_clean,
    ];
    let conclusion = libtest_mimic::run(&args, trials);
    lanes.shut_down();
    if conclusion.has_failed() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
