//! Parser for the body of `plugin! { … }`.

use proc_macro2::Ident;
use quote::format_ident;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Error, Path, Token, braced};

use crate::advice;

/// Kind of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Environment,
    Tool,
    Reward,
    /// Environment around another one.
    Wrapper,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Environment, Self::Tool, Self::Reward, Self::Wrapper];

    /// Name in the macro and among the SDK's modules.
    pub fn name(self) -> &'static str {
        match self {
            Self::Environment => "environment",
            Self::Tool => "tool",
            Self::Reward => "reward",
            Self::Wrapper => "wrapper",
        }
    }

    /// Name in the manifest, and of the interface that the plugin exports.
    pub fn interface(self) -> &'static str {
        match self {
            Self::Environment | Self::Wrapper => "environment",
            Self::Tool => "tool",
            Self::Reward => "reward",
        }
    }

    /// Optional interfaces of this kind.
    fn interfaces(self) -> &'static [Interface] {
        match self {
            Self::Environment => &[
                Interface("snapshot", "Snapshot"),
                Interface("state_key", "StateKey"),
                Interface("privileged", "Privileged"),
                Interface("oracle", "Oracle"),
                Interface("guidance", "Guidance"),
                Interface("render", "Render"),
            ],
            Self::Tool => &[Interface("snapshot", "Snapshot"), Interface("final_view", "FinalView")],
            Self::Reward | Self::Wrapper => &[],
        }
    }
}

/// Optional interface: its keyword in the macro and its trait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface(&'static str, &'static str);

impl Interface {
    /// Trait that the author implements.
    pub fn trait_name(self) -> &'static str {
        self.1
    }
}

/// One export, such as `environment: FrozenLake { snapshot, oracle }`.
pub struct Export {
    pub kind: Kind,
    pub implementation: Path,
    pub interfaces: Vec<Interface>,
}

impl Export {
    /// Binding modules of the SDK behind this export; each has a macro of the same name.
    pub fn modules(&self) -> Vec<Ident> {
        let kind = self.kind.interface();
        // A wrapper passes on all that the environment inside may offer.
        let interfaces = match self.kind {
            Kind::Wrapper => Kind::Environment.interfaces(),
            _ => &self.interfaces,
        };
        let optional = interfaces.iter().map(|interface| format_ident!("{kind}_{}", interface.0));
        std::iter::once(format_ident!("{kind}")).chain(optional).collect()
    }
}

/// Complete body: at least one export, at most one of each kind.
pub struct Declaration {
    pub exports: Vec<Export>,
}

impl Declaration {
    /// Kinds in source order.
    pub fn kinds(&self) -> Vec<Kind> {
        self.exports.iter().map(|export| export.kind).collect()
    }
}

impl Parse for Declaration {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.is_empty() {
            return Err(input.error("the plugin has no implementation: write `plugin! { tool: MyTool }`"));
        }
        let mut exports: Vec<Export> = Vec::new();
        while !input.is_empty() {
            let start = input.span();
            let export: Export = input.parse()?;
            if exports.iter().any(|other| other.kind.interface() == export.kind.interface()) {
                let message =
                    format!("a plugin has at most one {}: split it into two plugins", export.kind.interface());
                return Err(Error::new(start, message));
            }
            exports.push(export);
            // A comma between exports is optional.
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Self { exports })
    }
}

impl Parse for Export {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let word: Ident = input.parse()?;
        let names = Kind::ALL.map(Kind::name);
        let Some(kind) = Kind::ALL.into_iter().find(|kind| word == kind.name()) else {
            let advice = advice(&word.to_string(), &names);
            return Err(Error::new(word.span(), format!("`{word}` is not a kind of plugin; {advice}")));
        };
        input.parse::<Token![:]>()?;
        let implementation = input.parse()?;
        let interfaces = if input.peek(syn::token::Brace) { interfaces(kind, input)? } else { Vec::new() };
        Ok(Self { kind, implementation, interfaces })
    }
}

fn interfaces(kind: Kind, input: ParseStream<'_>) -> syn::Result<Vec<Interface>> {
    let inside;
    braced!(inside in input);
    let words = Punctuated::<Ident, Token![,]>::parse_terminated(&inside)?;
    let mut found = Vec::new();
    for word in words {
        let Some(interface) = kind.interfaces().iter().find(|interface| word == interface.0) else {
            let known: Vec<&str> = kind.interfaces().iter().map(|interface| interface.0).collect();
            let kind = kind.name();
            let message = match known.is_empty() {
                true => format!("a {kind} has no optional interfaces: remove `{word}`"),
                false => {
                    format!("`{word}` is not an optional interface of `{kind}`; {}", advice(&word.to_string(), &known))
                }
            };
            return Err(Error::new(word.span(), message));
        };
        if found.contains(interface) {
            return Err(Error::new(word.span(), format!("`{word}` is listed twice: remove one")));
        }
        found.push(*interface);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        match syn::parse_str::<Declaration>(text) {
            Ok(_) => panic!("{text} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn kinds_and_interfaces_become_modules() {
        let declaration: Declaration =
            syn::parse_str("environment: game::Lake { snapshot, state_key }, tool: Ruler").expect("well formed");
        assert_eq!(declaration.kinds(), [Kind::Environment, Kind::Tool]);
        let modules = declaration.exports[0].modules();
        assert_eq!(modules, ["environment", "environment_snapshot", "environment_state_key"]);
        assert_eq!(declaration.exports[1].modules(), ["tool"]);
        let wrapper: Declaration = syn::parse_str("wrapper: Retry").expect("well formed");
        let modules = wrapper.exports[0].modules();
        assert_eq!((modules.len(), &modules[1]), (7, &format_ident!("environment_snapshot")));
    }

    #[test]
    fn mistakes_name_the_word_and_the_fix() {
        assert!(message("enviroment: Lake").contains("did you mean `environment`?"));
        assert!(message("environment: Lake { snapsot }").contains("did you mean `snapshot`?"));
        assert!(message("environment: Lake { oracle, oracle }").contains("twice"));
        assert!(message("reward: Match { snapshot }").contains("no optional interfaces"));
        assert!(message("tool: A, tool: B").contains("at most one tool"));
        assert!(message("wrapper: A, environment: B").contains("at most one environment"));
        assert!(message("wrapper: A { snapshot }").contains("no optional interfaces"));
        assert!(message("").contains("plugin! { tool: MyTool }"));
    }
}
