//! Serves a package until SIGTERM: `disc serve`.
use super::package::failed;
use crate::answer::Answer;
use disc_ir::Diagnostic;
use disc_serve::ServeOptions;
use serde_json::json;

pub(super) fn serve(given: &ServeOptions) -> Result<Answer, Vec<Diagnostic>> {
    disc_serve::serve(given.clone()).map_err(failed)?;
    Ok(Answer::new("", json!({ "served": given.package.display().to_string() })))
}
