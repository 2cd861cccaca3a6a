//! The drift check as a test: the embedded Lean compiles, the native one's library is compared with.

use xtask::{drift, tidy};

#[test]
fn every_symbol_that_a_newer_lean_lacks_is_judged() {
    let lean = beam_embedded::testing::shared_embedded_for_tests(&beam_broker::qualify::Qualifier).lean();
    let root = tidy::repository();
    let found = drift::compare(&root, lean.as_path(), &testkit::native::shared_library()).unwrap();
    assert!(found.needed.len() > 200, "{} symbols are too few to be all of them", found.needed.len());
    let table = std::fs::read_to_string(root.join(drift::TABLE)).unwrap();
    let complaints = drift::complaints(&found, &table);
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
