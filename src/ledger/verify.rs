//! placeholder until verify lands
use std::path::Path;
/// Report.
#[derive(Debug, serde::Serialize)]
pub struct VerifyReport;
impl std::fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("")
    }
}
impl VerifyReport {
    /// Sound.
    pub fn is_sound(&self) -> bool {
        false
    }
}
/// Verify.
pub fn verify(_: &Path) -> Result<VerifyReport, super::OpenError> {
    Ok(VerifyReport)
}
