//! The settings that a configuration file may have. Each is an option of the command line, which also judges its value.

/// What a value looks like in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `"text"`
    Text,
    /// `15`
    Number,
    /// `true`
    Flag,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Section of the file.
    pub section: &'static str,
    /// Key in the section; the id of the option that it stands for.
    pub key: &'static str,
    /// What its value looks like.
    pub kind: Kind,
    /// An example for the template, where the default is nothing to show.
    pub example: &'static str,
    /// What it does, for the template.
    pub about: &'static str,
}

impl Setting {
    /// `screen.theme`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    /// True for values that must not be shown.
    pub fn secret(&self) -> bool {
        self.key == "api_key"
    }

    /// The subcommands whose option it is; none: it is an option of all.
    pub fn commands(&self) -> &'static [&'static str] {
        match self.section {
            "server" => &["serve"],
            "attach" => &["attach", "snapshot"],
            _ => &[],
        }
    }
}

macro_rules! settings {
    ($($section:ident $key:ident $kind:ident $example:literal $about:literal;)+) => {
        /// Every setting, in the order of the template.
        pub static SETTINGS: &[Setting] = &[$(Setting {
            section: stringify!($section),
            key: stringify!($key),
            kind: Kind::$kind,
            example: $example,
            about: $about,
        }),+];
    };
}

settings! {
    screen theme Text "\"default-dark\"" "theme: a name from `T`, or of a file in the themes folder beside this one";
    screen color Text "\"auto\"" "colours: auto, never, 16, 256, truecolor";
    screen ascii Flag "false" "ASCII characters only (also chosen for a locale that is not UTF-8)";
    screen reduced_motion Flag "false" "no effects, and few frames a second";
    screen mouse Text "\"clicks\"" "mouse: off, clicks, hover (motion costs a message a cell)";
    screen fps Number "15" "frames a second at most";
    engine target Text "\"/models/target.gguf\"" "target model: a GGUF file, a safetensors folder, or a model of the hub (docs/models.md)";
    engine draft Text "\"/models/drafter\"" "drafter: a folder, or a model of the hub";
    engine mode Text "\"off\"" "decoding mode at the start: off, dflash, ddtree, shadow, auto";
    engine block_size Number "8" "slots in one draft block, seed included";
    engine tree_budget Number "32" "DDTree node budget";
    engine chain_seed Flag "true" "start the tree from the whole top-1 chain";
    engine device Text "\"auto\"" "where the models run: auto, cpu, cuda:N";
    engine threads Number "0" "compute threads (0: one a core)";
    engine tensor_parallel Number "1" "devices that share the target's layers";
    engine dtype Text "\"auto\"" "weight format in memory: auto, f32, q8";
    engine context Number "0" "tokens a sequence may have (0: what the model allows)";
    server host Text "\"127.0.0.1\"" "address that `spectop serve` listens on";
    server port Number "8080" "its port";
    server api_key Text "\"secret\"" "key that its clients must send";
    attach url Text "\"http://127.0.0.1:8080\"" "server that `spectop attach` and `snapshot` go to";
    attach api_key Text "\"secret\"" "key to send there";
}

/// The version of the file's format.
pub const SCHEMA: i64 = 1;

/// A file in which everything is commented out.
pub fn template() -> String {
    use std::fmt::Write as _;
    let mut out = format!(
        "# Configuration of spectop. What is commented out has the value shown, or none.\n\
         # Options on the command line and SPECTOP_… variables win over this file.\n\
         # `spectop config validate` checks it, `spectop config print` shows what is in force.\n\n\
         schema_version = {SCHEMA}\n"
    );
    let mut section = "";
    for setting in SETTINGS {
        if setting.section != section {
            section = setting.section;
            let _ = writeln!(out, "\n[{section}]");
        }
        let _ = writeln!(out, "# {}\n# {} = {}", setting.about, setting.key, setting.example);
    }
    out.push_str(
        "\n# Keys: a section for each place, a key or a list of keys for each action; `spectop config keys` lists all.\n\
         # [keys.dashboard]\n# prompt = \"p\"\n# rerun = [\"r\", \"F6\"]\n",
    );
    out
}
