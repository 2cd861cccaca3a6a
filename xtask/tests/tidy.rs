//! The checks as a test, so that `cargo test` alone is enough.

#[test]
fn the_repository_is_tidy() {
    let complaints = xtask::tidy::check(&xtask::tidy::repository());
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
