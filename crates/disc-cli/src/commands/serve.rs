//! Serves a package until SIGTERM: `disc serve`.
use super::package::failed;
use crate::answer::Answer;
use disc_ir::Diagnostic;
use disc_serve::ServeArguments;
use serde_json::json;

pub(super) fn serve(given: &ServeArguments) -> Result<Answer, Vec<Diagnostic>> {
    disc_serve::serve(given.clone().into()).map_err(failed)?;
    Ok(Answer::new("", json!({ "served": given.package.display().to_string() })))
}
