//! Defines the options of compiling and running.
use crate::Error;
use disc_codegen::target::{Target, TargetError};
use disc_options::{Affects, Kind, OPTIONS, Reader, Value};
use disc_passes::options::{ActivationForm, WeightForm};
use disc_ral::{Device, DeviceName, host_device, open_device};
use std::{path::PathBuf, sync::Arc};

macro_rules! declare {
    (
        compiler { $($(#[doc = $doc:literal])+ $name:ident: $ty:ty = $kind:expr, $default:expr, $affects:ident;)+ }
        front { $($front:tt)* }
    ) => {
        /// Options for compiling and running. Fields that a user may set come from the table in
        /// disc-options; here nothing is specialised unless it is asked for.
        #[derive(Clone, Debug, Default)]
        pub struct Options {
            $($(#[doc = $doc])+ pub $name: $ty,)+
            /// A directory for the IR after each pass, LLVM IR and assembly; `None`: `DISC_DUMP`.
            pub dump: Option<PathBuf>,
            /// Most rewrites that the passes may make in all: to bisect the one that breaks a
            /// program.
            pub fuel: Option<u64>,
            /// The folder of a cache of compiled code ([`crate::cache::directory`]); `None`:
            /// nothing is read from disk or written there.
            pub cache: Option<PathBuf>,
            /// Keep prepared weights in that folder too, written by a thread of its own and mapped
            /// by every load of the same code with the same weights.
            pub cache_weights: bool,
        }

        impl Options {
            /// Sets the option of this name.
            ///
            /// # Errors
            /// A name that is not in the table, or a value that the option cannot have.
            pub fn set(&mut self, name: &str, value: Value<'_>) -> Result<(), SetError> {
                match name {
                    $(stringify!($name) => self.$name = FromValue::from_value(value).ok_or(SetError::Value)?,)+
                    _ => return Err(SetError::Name),
                }
                Ok(())
            }

            /// The options that compiled code depends on by their values, for the cache key.
            pub(crate) fn code_key(&self) -> String {
                let values = [$((stringify!($name), Affects::$affects, format!("{:?}", self.$name))),+];
                let code = values.iter().filter(|(_, affects, _)| *affects == Affects::Code);
                code.map(|(name, _, value)| format!("{name}={value} ")).collect()
            }
        }
    };
}
disc_options::option_table!(declare);

/// A failure of [`Options::set`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetError {
    /// There is no such option.
    Name,
    /// The option cannot have this value.
    Value,
}

/// Types of fields that can be read from a [`Value`].
trait FromValue: Sized {
    /// Returns `None` for a value that the field cannot have.
    fn from_value(value: Value<'_>) -> Option<Self>;
}

impl FromValue for bool {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }
}

impl FromValue for Option<bool> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        bool::from_value(value).map(Some)
    }
}

impl FromValue for Option<usize> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Count(count) if count > 0 => Some(Some(count)),
            _ => None,
        }
    }
}

impl FromValue for Option<String> {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(Some(text.to_owned())),
            _ => None,
        }
    }
}

impl FromValue for WeightForm {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl FromValue for ActivationForm {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl FromValue for Specialize {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Flag(false) => Some(Self::Off),
            Value::Flag(true) => Some(Self::Auto),
            Value::Text("always") => Some(Self::Always),
            _ => None,
        }
    }
}

impl FromValue for LibraryChoice {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
    }
}

/// The choice between generated kernels and libraries of this machine for matmuls and convolutions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LibraryChoice {
    /// Generated kernels.
    #[default]
    Off,
    /// On CPUs the faster of both, measured; on GPUs of NVIDIA cuBLASLt for products and cuDNN for
    /// convolutions, by rules of sizes; kernels if there is no library.
    Auto,
    /// The products of `Auto` on GPUs of NVIDIA; an error if there is no cuBLASLt.
    CublasLt,
    /// The convolutions of `Auto` on GPUs of NVIDIA; an error if there is no cuDNN.
    Cudnn,
    /// oneDNN wherever it can, loaded from a file, or from where the system has it.
    OneDnn(Option<PathBuf>),
}

impl std::str::FromStr for LibraryChoice {
    type Err = ();

    /// Parses `off`, `auto`, `cublaslt`, `cudnn`, `onednn` or `onednn:PATH`.
    fn from_str(text: &str) -> Result<Self, ()> {
        match (text, text.strip_prefix("onednn:")) {
            ("off", _) => Ok(Self::Off),
            ("auto", _) => Ok(Self::Auto),
            ("cublaslt", _) => Ok(Self::CublasLt),
            ("cudnn", _) => Ok(Self::Cudnn),
            ("onednn", _) => Ok(Self::OneDnn(None)),
            (_, Some(path)) if !path.is_empty() => Ok(Self::OneDnn(Some(path.into()))),
            _ => Err(()),
        }
    }
}

/// The precision of products of f32 on a GPU, in the words of torch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MatmulPrecision {
    /// That of f32.
    #[default]
    Highest,
    /// Operands may be rounded to tf32.
    High,
    /// As `High`: no operand is rounded further.
    Medium,
}

impl FromValue for MatmulPrecision {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text("highest") => Some(Self::Highest),
            Value::Text("high") => Some(Self::High),
            Value::Text("medium") => Some(Self::Medium),
            _ => None,
        }
    }
}

/// The time at which a call on a device that runs beside the host reports its failures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Check {
    /// When the host waits for the device, or at the next call.
    #[default]
    Late,
    /// Before the call returns.
    Sync,
}

impl FromValue for Check {
    fn from_value(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text("late") => Some(Self::Late),
            Value::Text("sync") => Some(Self::Sync),
            _ => None,
        }
    }
}

/// The policy of compiling code for recurring sizes in the background
/// (docs/guide/specialisation.md).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Specialize {
    /// The code of the first compilation runs for all sizes.
    #[default]
    Off,
    /// For sizes that took much time; kept if a trial finds it faster.
    Auto,
    /// For all sizes that occur twice; kept however fast it is: for tests and measurements.
    Always,
}

impl Options {
    /// Sets the option of this name from text, as a command line gives it: `weights`, `int8`.
    ///
    /// # Errors
    /// A name that is not an option of the compiler, or a value that the option cannot have; the
    /// message names what can be.
    pub fn set_text(&mut self, name: &str, text: &str) -> Result<(), Error> {
        let known = || OPTIONS.iter().filter(|option| option.reader == Reader::Compiler);
        let Some(option) = known().find(|option| option.name == name) else {
            let names: Vec<&str> = known().map(|option| option.name).collect();
            return Err(Error::argument(format!("there is no option `{name}`: there are {}", names.join(", "))));
        };
        let flag = || match text {
            "true" => Some(Value::Flag(true)),
            "false" => Some(Value::Flag(false)),
            _ => None,
        };
        let value = match option.kind {
            Kind::Flag => flag(),
            Kind::FlagOr(word) => flag().or((text == word).then_some(Value::Text(text))),
            Kind::Count => text.parse().ok().map(Value::Count),
            Kind::Text(_) | Kind::Choice(_) | Kind::ChoiceOrPath(_) | Kind::Names(_) => Some(Value::Text(text)),
        };
        let wrong = || Error::argument(format!("the option `{name}` is `{text}`, expected {}", expected(option.kind)));
        self.set(name, value.ok_or_else(wrong)?).map_err(|_| wrong())
    }

    /// Returns `specialize`, as the environment overrides it.
    pub(crate) fn specialization(&self) -> Result<Specialize, Error> {
        let Some(text) = std::env::var_os("DISC_SPECIALIZE").filter(|text| !text.is_empty()) else { return Ok(self.specialize) };
        match text.to_str() {
            Some("0") => Ok(Specialize::Off),
            Some("1") => Ok(self.specialize),
            _ => Err(Error::argument(format!("DISC_SPECIALIZE is `{}`, expected 0 or 1", text.display()))),
        }
    }

    /// Rejects a device that is not there, and a `DISC_NUM_THREADS` that would apply and is no
    /// number of threads.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.open_device()?;
        self.check_threads()
    }

    /// Rejects options whose code could not run here: a target that does not exist, that is of
    /// another CPU or that is not of the device, and a device that is not there.
    ///
    /// # Errors
    /// As `Artifact::load`, which finds it out after a compilation.
    pub fn check_runs(&self) -> Result<(), Error> {
        self.check()?;
        let targets = crate::stages::targets(self)?;
        targets.host().check_host().map_err(|error| Error::target(error.to_string()))?;
        if self.is_host() && !targets.device().is_cpu() {
            let (target, device) = (targets.device().to_string(), "cpu".to_owned());
            return Err(Error::target(TargetError::OtherDevice { target, device }.to_string()));
        }
        Ok(())
    }

    /// Opens the requested device; without one the host, where weights are.
    pub(crate) fn open_device(&self) -> Result<Arc<dyn Device>, Error> {
        let Some(name) = &self.device else { return Ok(host_device()) };
        disc_simt::register();
        let opened = name.parse().and_then(|name: DeviceName| open_device(&name));
        opened.map_err(|error| Error::argument(error.to_string()))
    }

    /// Returns true if calls run on the host's processors.
    pub(crate) fn is_host(&self) -> bool {
        self.device.as_ref().is_none_or(|name| name.parse() == Ok(DeviceName::cpu()))
    }

    /// Returns the target that a device implies: `simt:sm_90` of the device of that name, that of
    /// its chip for another one.
    ///
    /// # Errors
    /// A device that is not there.
    pub(crate) fn target_of_device(&self) -> Result<Option<Target>, Error> {
        let Some(name) = self.device.as_ref().filter(|_| !self.is_host()) else { return Ok(None) };
        if let Ok(target) = name.parse() {
            return Ok(Some(target));
        }
        let device = self.open_device()?;
        let target = device.chip().and_then(|chip| Target::of_chip(&chip));
        target.map(Some).ok_or_else(|| Error::target(format!("no code is made for the chip of the device `{name}`")))
    }

    fn check_threads(&self) -> Result<(), Error> {
        let wish = std::env::var_os("DISC_NUM_THREADS").filter(|text| self.threads.is_none() && !text.is_empty());
        let is_count =
            |text: &std::ffi::OsString| text.to_str().is_some_and(|text| text.trim().parse().is_ok_and(|n: usize| n > 0));
        match wish.filter(|text| !is_count(text)) {
            Some(text) => Err(Error::argument(format!("DISC_NUM_THREADS is `{}`, expected a positive number", text.display()))),
            None => Ok(()),
        }
    }

    /// Returns the name of the requested target, if there is one.
    pub(crate) fn wanted_target(&self) -> Option<String> {
        self.target.clone().or_else(|| std::env::var("DISC_TARGET").ok().filter(|name| !name.is_empty()))
    }

    /// Returns `winograd` with its default.
    pub(crate) fn allows_winograd(&self) -> bool {
        self.winograd.unwrap_or(true)
    }

    /// Returns true if operands of products of f32 may be rounded to tf32.
    pub(crate) fn allows_tf32(&self) -> bool {
        self.matmul_precision != MatmulPrecision::Highest
    }

    /// Returns true if calls wait for the device before they return, as `DISC_CHECK` may ask.
    pub(crate) fn waits(&self) -> bool {
        self.check == Check::Sync || std::env::var_os("DISC_CHECK").is_some_and(|value| value == "sync")
    }

    /// Returns the folder for dumps, if there is one.
    pub(crate) fn dump_directory(&self) -> Option<PathBuf> {
        self.dump.clone().or_else(|| std::env::var_os("DISC_DUMP").filter(|name| !name.is_empty()).map(PathBuf::from))
    }
}

/// Describes the values of a kind, for a message.
fn expected(kind: Kind) -> String {
    match kind {
        Kind::Flag => "true or false".into(),
        Kind::FlagOr(word) => format!("true, false or {word}"),
        Kind::Count => "a positive number".into(),
        Kind::Text(example) | Kind::Names(example) => example.into(),
        Kind::Choice(words) | Kind::ChoiceOrPath(words) => format!("one of {}", words.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_option_of_the_compiler_takes_its_default_and_refuses_another_kind() {
        for option in OPTIONS.iter().filter(|option| option.reader == Reader::Compiler) {
            let mut options = Options::default();
            if option.default != Value::Unset {
                assert_eq!(options.set(option.name, option.default), Ok(()), "{}", option.name);
            }
            assert_eq!(options.set(option.name, Value::NoNames), Err(SetError::Value), "{}", option.name);
        }
        assert_eq!(Options::default().set("progress", Value::Flag(true)), Err(SetError::Name));
    }

    #[test]
    fn options_are_set_from_text() {
        let mut options = Options::default();
        for (name, text) in [("weights", "int8"), ("threads", "3"), ("winograd", "false"), ("specialize", "always")] {
            options.set_text(name, text).unwrap();
        }
        assert_eq!((options.threads, options.winograd), (Some(3), Some(false)));
        assert_eq!((options.weights, options.specialize), (WeightForm::Int8, Specialize::Always));
        let mut message = |name, text| options.set_text(name, text).unwrap_err().to_string();
        assert!(message("threads", "0").ends_with("the option `threads` is `0`, expected a positive number"));
        assert!(message("weights", "int3").ends_with("expected one of exact, bf16, int8, int4"));
        assert!(message("no_such", "1").contains("there is no option `no_such`: there are target, device, threads"));
    }

    #[test]
    fn the_key_has_what_code_depends_on_and_nothing_else() {
        let key = |name: &str, value| {
            let mut options = Options::default();
            options.set(name, value).unwrap();
            options.code_key()
        };
        let plain = Options::default().code_key();
        assert_ne!(key("weights", Value::Text("int8")), plain);
        for (name, value) in [
            ("threads", Value::Count(3)),
            ("pin_threads", Value::Flag(true)),
            ("target", Value::Text("x86-64-v2")),
            ("device", Value::Text("cpu")),
        ] {
            assert_eq!(key(name, value), plain, "{name}");
        }
    }

    #[test]
    fn a_device_is_opened_or_named_in_the_error() {
        let opened = |device: Option<&str>| Options { device: device.map(Into::into), ..Options::default() }.open_device();
        assert_eq!(opened(None).unwrap().name(), "cpu");
        assert_eq!(crate::devices()[0], "cpu");
        crate::devices().iter().for_each(|name| assert_eq!(opened(Some(name)).unwrap().name(), name));
        let error = opened(Some("cuda:0")).err().unwrap();
        let wanted = "error[E0700]: the device `cuda:0` is not available: compiled code can run here on `cpu`, `simt:gfx906` and";
        assert!(error.to_string().starts_with(wanted), "{error}");
        let error = opened(Some("gpu")).err().unwrap();
        assert_eq!(
            error.to_string(),
            "error[E0700]: unknown device `gpu`: expected a name such as `cpu`, `cuda:0`, `hip:0` or `simt:sm_90`"
        );
    }
}
