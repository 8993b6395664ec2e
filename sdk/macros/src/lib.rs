//! Procedural macros of gymkhana-sdk: export trait implementations from a component, embed the manifest and declare
//! options.

mod contract;
mod declaration;
mod manifest;
mod options;

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use syn::{DeriveInput, Error, LitByteStr};

use declaration::{Declaration, Export, Kind};
use manifest::{Manifest, Package};

/// Exports trait implementations as a plugin. See `gymkhana_sdk::plugin` for the syntax.
#[proc_macro]
pub fn plugin(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let tokens = syn::parse(input).and_then(|declaration| expand(&declaration));
    tokens.unwrap_or_else(Error::into_compile_error).into()
}

/// Declares the options of a plugin. See `gymkhana_sdk::PluginOptions`.
#[proc_macro_derive(PluginOptions, attributes(option))]
pub fn plugin_options(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derived(input, options::derive)
}

/// Makes an enum the type of an option. See `gymkhana_sdk::OptionValue`.
#[proc_macro_derive(OptionValue, attributes(option))]
pub fn option_value(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    derived(input, options::derive_value)
}

fn derived(
    input: proc_macro::TokenStream,
    derive: impl FnOnce(&DeriveInput) -> syn::Result<TokenStream>,
) -> proc_macro::TokenStream {
    let tokens = syn::parse(input).and_then(|input| derive(&input));
    tokens.unwrap_or_else(Error::into_compile_error).into()
}

fn expand(declaration: &Declaration) -> syn::Result<TokenStream> {
    let fail = |message: String| Error::new(Span::call_site(), message);
    let package = Package::from_cargo().map_err(fail)?;
    let manifest = Manifest::new(&package, &declaration.kinds()).map_err(fail)?;
    let exports = declaration.exports.iter().map(|export| export_tokens(export, &manifest));
    let section = section_tokens(&manifest.frame());
    Ok(quote! {
        #(#exports)*
        #section
        // The compiler tracks `Cargo.toml`, so a change to it rebuilds the manifest.
        const _: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    })
}

/// Exports of one kind. They exist only on WebAssembly, because native linkers reject their names.
fn export_tokens(export: &Export, manifest: &Manifest) -> TokenStream {
    let implementation = &export.implementation;
    let kind = format_ident!("{}", export.kind.name());
    let modules = export.modules();
    let macros = modules.iter().map(|module| format_ident!("export_{module}"));
    let range = manifest.reward_range.filter(|_| export.kind == Kind::Reward).map(|[low, high]| {
        quote! {
            impl ::gymkhana_sdk::reward::Ranged for #implementation {
                const RANGE: ::gymkhana_sdk::Range = ::gymkhana_sdk::Range { low: #low, high: #high };
            }
        }
    });
    let checks = export.interfaces.iter().map(|interface| {
        let promised = format_ident!("{}", interface.trait_name());
        quote! {
            const _: () = {
                const fn implements<T: ::gymkhana_sdk::#kind::#promised>() {}
                implements::<#implementation>();
            };
        }
    });
    quote! {
        #range
        #(#checks)*
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            type Exported = ::gymkhana_sdk::#kind::Exported<#implementation>;
            #(::gymkhana_sdk::bindings::#modules::#macros!(Exported);)*
        };
    }
}

/// Manifest as a custom section, which the linker keeps when it strips symbols.
fn section_tokens(frame: &[u8]) -> TokenStream {
    let length = frame.len();
    let bytes = LitByteStr::new(frame, Span::call_site());
    quote! {
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            #[used]
            #[unsafe(link_section = "gymkhana:manifest")]
            static MANIFEST: [u8; #length] = *#bytes;
        };
    }
}

/// Lists `known` after the nearest word, such as "did you mean `a`? known: `a`, `b`".
fn advice(word: &str, known: &[&str]) -> String {
    let listed = known.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    match known.iter().max_by(|a, b| strsim::jaro(word, a).total_cmp(&strsim::jaro(word, b))) {
        Some(nearest) if strsim::jaro(word, nearest) > 0.6 => format!("did you mean `{nearest}`? known: {listed}"),
        _ => format!("known: {listed}"),
    }
}
