//! How a connector is made from its configuration.

use std::path::PathBuf;

use serde::de::DeserializeOwned;

use crate::Connector;

/// What every connector is told about the destination it drives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// Its name: a lower-case slug, safe as a file name.
    pub name: String,
    /// A folder of its own for embedded stores; may not exist yet.
    pub data_dir: PathBuf,
}

/// The settings of a destination cannot work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("settings.{key}: {what}")]
pub struct SettingsError {
    /// The key below `[settings]`, dotted; empty if it is about all of them.
    pub key: String,
    /// What is wrong and what to do.
    pub what: String,
}

/// Makes connectors of one kind.
pub trait Factory: Send + Sync {
    /// The word after `connector =`.
    fn kind(&self) -> &'static str;

    /// The JSON Schema of `[settings]`.
    fn settings_schema(&self) -> schemars::Schema;

    /// Makes a connector. Touches nothing: `check` calls it offline.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings cannot work.
    fn build(
        &self,
        destination: Destination,
        settings: serde_json::Value,
    ) -> Result<Box<dyn Connector>, SettingsError>;
}

/// A factory with settings of its own type; implement this one, [`Factory`] follows.
pub trait TypedFactory: Send + Sync {
    /// The settings: unknown keys refused, every field described.
    type Settings: DeserializeOwned + schemars::JsonSchema;

    /// The word after `connector =`.
    const KIND: &'static str;

    /// Makes a connector.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings cannot work.
    fn make(
        &self,
        destination: Destination,
        settings: Self::Settings,
    ) -> Result<Box<dyn Connector>, SettingsError>;
}

impl<T: TypedFactory> Factory for T {
    fn kind(&self) -> &'static str {
        T::KIND
    }

    fn settings_schema(&self) -> schemars::Schema {
        schemars::schema_for!(T::Settings)
    }

    fn build(
        &self,
        destination: Destination,
        settings: serde_json::Value,
    ) -> Result<Box<dyn Connector>, SettingsError> {
        let settings = serde_json::from_value(settings)
            .map_err(|error| SettingsError { key: String::new(), what: error.to_string() })?;
        self.make(destination, settings)
    }
}
