//! `${NAME}`, `${NAME:default}` and `${file:PATH}` in texts: secrets stay out of the file, and out of
//! every message about it.

use std::path::Path;

/// The largest file that a value may come from.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// A text with everything put in. `$${` stands for `${`.
///
/// # Errors
/// What could not be put in; never a value.
pub(super) fn interpolate(
    text: &str,
    folder: &Path,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        if rest[..at].ends_with('$') {
            out.push_str(&rest[..at]);
            out.push('{');
            rest = &rest[at + 2..];
            continue;
        }
        out.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end =
            inner.find('}').ok_or("a \"${\" has no \"}\"; write \"$${\" for the text itself")?;
        out.push_str(&value(&inner[..end], folder, env)?);
        rest = &inner[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn value(
    name: &str,
    folder: &Path,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<String, String> {
    if let Some(path) = name.strip_prefix("file:") {
        return file(&folder.join(path));
    }
    let (name, default) = match name.split_once(':') {
        Some((name, default)) => (name, Some(default)),
        None => (name, None),
    };
    env(name).or_else(|| default.map(str::to_owned)).ok_or_else(|| {
        format!("the environment has no {name}; set it, or write ${{{name}:default}}")
    })
}

fn file(path: &Path) -> Result<String, String> {
    let failed = |what: String| format!("cannot read {}: {what}", path.display());
    let size = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if size > MAX_FILE_BYTES {
        return Err(failed(format!("it is larger than {MAX_FILE_BYTES} bytes")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_from_the_environment_a_default_or_a_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret"), "s3cret\n").unwrap();
        let env = |name: &str| (name == "HOST").then(|| "example".to_owned());
        let put = |text: &str| interpolate(text, folder.path(), &env);
        assert_eq!(put("http://${HOST}:${PORT:80}/"), Ok("http://example:80/".into()));
        assert_eq!(put("${file:secret}"), Ok("s3cret".into()));
        assert_eq!(put("$${HOST}"), Ok("${HOST}".into()));
        assert_eq!(put("plain $ { }"), Ok("plain $ { }".into()));
        for bad in ["${MISSING}", "${file:none}", "${HOST"] {
            assert!(put(bad).is_err(), "{bad}");
        }
    }
}
