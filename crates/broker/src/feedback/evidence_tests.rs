//! Tests of where evidence may come from. The files are real, and so are the links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::Map;

use super::*;

struct Site {
    _keep: tempfile::TempDir,
    root: AbsPath,
    outside: AbsPath,
}

fn site() -> Site {
    let keep = tempfile::tempdir().unwrap();
    let top = AbsPath::canonical(keep.path()).unwrap();
    let (root, outside) = (top.join("proj"), top.join("elsewhere"));
    for dir in [&root, &outside] {
        fs::create_dir(dir.as_path()).unwrap();
    }
    fs::create_dir(root.join("sub")).unwrap();
    fs::write(root.join("sub/a.log"), "inside").unwrap();
    fs::write(outside.join("key"), "outside").unwrap();
    Site { _keep: keep, root, outside }
}

fn take(site: &Site, path: impl AsRef<Path>) -> Result<Vec<u8>, FeedbackError> {
    take_in(&Context::new(Map::new(), Some(site.root.clone())), path, false)
}

fn take_in(context: &Context, path: impl AsRef<Path>, redact: bool) -> Result<Vec<u8>, FeedbackError> {
    let piece = Evidence { name: "e".into(), source: Source::Path(path.as_ref().to_path_buf()) };
    load(&[piece], context, &Redactor::off(), redact).map(|mut l| l.remove(0).bytes)
}

fn outside(result: &Result<Vec<u8>, FeedbackError>) -> bool {
    matches!(result, Err(FeedbackError::EvidenceOutside { .. }))
}

#[test]
fn files_of_the_project_are_read() {
    let site = site();
    assert_eq!(take(&site, "sub/a.log").unwrap(), b"inside");
    assert_eq!(take(&site, "sub/../sub/a.log").unwrap(), b"inside");
    assert_eq!(take(&site, site.root.join("sub/a.log")).unwrap(), b"inside");
    symlink("sub/a.log", site.root.join("link")).unwrap();
    symlink(site.root.join("sub").as_path(), site.root.join("dir")).unwrap();
    assert_eq!(take(&site, "link").unwrap(), b"inside", "a link that stays inside is only another name");
    assert_eq!(take(&site, "dir/a.log").unwrap(), b"inside");
}

#[test]
fn nothing_leads_out() {
    let site = site();
    symlink(site.outside.join("key").as_path(), site.root.join("link")).unwrap();
    symlink(site.outside.as_path(), site.root.join("dir")).unwrap();
    symlink("link", site.root.join("chain")).unwrap();
    for path in ["link", "dir/key", "chain", "../elsewhere/key", "sub/../../elsewhere/key", "/etc/passwd", "/"] {
        assert!(outside(&take(&site, path)), "{path}");
    }
    assert!(outside(&take(&site, site.outside.join("key"))));
    // A folder whose name begins like the root's is another folder.
    fs::create_dir(site.root.parent().unwrap().join("proj2")).unwrap();
    fs::write(site.root.parent().unwrap().join("proj2/x"), "").unwrap();
    assert!(outside(&take(&site, "../proj2/x")));
}

/// Whether a file exists elsewhere is no business of whoever names it.
#[test]
fn a_missing_file_is_told_only_inside() {
    let site = site();
    assert!(outside(&take(&site, "/no/such/file")) && outside(&take(&site, "../elsewhere/none")));
    let error = take(&site, "sub/none").unwrap_err();
    assert!(matches!(error, FeedbackError::EvidenceUnreadable { .. }), "{error}");
    assert!(error.to_string().contains("evidence[0].path"), "{error}");
}

#[test]
fn control_and_output_folders_count_and_no_project_means_none() {
    let site = site();
    let mut context = Context::new(Map::new(), None);
    assert!(outside(&take_in(&context, "sub/a.log", false)));
    assert!(outside(&take_in(&context, site.outside.join("key"), false)));
    context.output_dir = Some(site.outside.clone());
    assert_eq!(take_in(&context, site.outside.join("key"), false).unwrap(), b"outside");
    context.output_dir = None;
    let host = crate::daemon::HostPaths { control_dir: Some(site.outside.clone()), ..Default::default() };
    let control = crate::daemon::Control::locate(&site.root, &host);
    control.create().unwrap();
    fs::write(control.dir().join("log"), "of the daemon").unwrap();
    context.control = Some(control.clone());
    assert_eq!(take_in(&context, control.dir().join("log"), false).unwrap(), b"of the daemon");
    assert!(
        outside(&take_in(&context, site.outside.join("key"), false)),
        "the folder above is not the control directory"
    );
}

#[test]
fn only_regular_files() {
    let site = site();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.root.join("pipe").as_path(),
        rustix::fs::FileType::Fifo,
        Mode::from(0o600),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(site.root.join("sock").as_path()).unwrap();
    for path in ["sub", ".", "pipe", "sock"] {
        let error = take(&site, path).unwrap_err();
        assert!(matches!(error, FeedbackError::EvidenceNotAFile { .. }), "{path}: {error}");
    }
}

/// The race: after the check, a folder or the file becomes a link. Opening must fail, whatever it leads to.
#[test]
fn a_link_that_appears_after_the_check_is_not_followed() {
    let site = site();
    symlink(site.outside.as_path(), site.root.join("dir")).unwrap();
    symlink(site.outside.join("key").as_path(), site.root.join("file")).unwrap();
    for inner in ["dir/key", "file"] {
        assert!(open_inside(&site.root, Path::new(inner)).is_err(), "{inner}");
    }
    let mut text = String::new();
    open_inside(&site.root, Path::new("sub/a.log")).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "inside");
}

#[test]
fn sizes_are_bounded_each_and_together() {
    let site = site();
    fs::write(site.root.join("exact"), vec![b'x'; MAX_EVIDENCE_BYTES]).unwrap();
    assert_eq!(take(&site, "exact").unwrap().len(), MAX_EVIDENCE_BYTES);
    fs::write(site.root.join("large"), vec![b'x'; MAX_EVIDENCE_BYTES + 1]).unwrap();
    assert!(matches!(take(&site, "large"), Err(FeedbackError::TooLarge { .. })));
    let many: Vec<_> = (0..=MAX_EVIDENCE_TOTAL / MAX_EVIDENCE_BYTES)
        .map(|n| Evidence { name: n.to_string(), source: Source::Path("exact".into()) })
        .collect();
    let context = Context::new(Map::new(), Some(site.root.clone()));
    let error = load(&many, &context, &Redactor::off(), false).unwrap_err();
    assert_eq!(error.field(), Some("evidence"), "{error}");
}

#[test]
fn bytes_that_cannot_be_redacted_are_not_taken_then() {
    let site = site();
    fs::write(site.root.join("bin"), [0xff, 0xfe, 0]).unwrap();
    let context = Context::new(Map::new(), Some(site.root.clone()));
    assert!(matches!(take_in(&context, "bin", true), Err(FeedbackError::EvidenceNotText { .. })));
    assert_eq!(take_in(&context, "bin", false).unwrap(), [0xff, 0xfe, 0]);
}
