//! `#[derive(OptionValue)]`: an option with one of several names, from the variants of an enum.

use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Fields, Ident};

use super::attributes::OptionAttributes;

/// Implementation of `OptionValue` for an enum.
pub fn derive_value(input: &DeriveInput) -> syn::Result<TokenStream> {
    let Data::Enum(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "choices are an enum with a variant for each text"));
    };
    let mut choices: Vec<(&Ident, String)> = Vec::new();
    for variant in &data.variants {
        if !matches!(variant.fields, Fields::Unit) {
            return Err(Error::new(variant.span(), "a choice has no fields"));
        }
        let name = OptionAttributes::of(&variant.attrs)?.name.unwrap_or_else(|| kebab(&variant.ident));
        if choices.iter().any(|(_, other)| *other == name) {
            return Err(Error::new(variant.span(), format!("two choices are named `{name}`: rename one")));
        }
        choices.push((&variant.ident, name));
    }
    let ident = &input.ident;
    let (variants, names): (Vec<_>, Vec<_>) = choices.into_iter().unzip();
    Ok(quote! {
        impl ::gymkhana_sdk::OptionValue for #ident {
            fn to_value(&self) -> ::gymkhana_sdk::Value {
                ::gymkhana_sdk::Value::Text(::std::string::String::from(match self { #(Self::#variants => #names),* }))
            }
            fn from_value(value: ::gymkhana_sdk::Value) -> ::core::option::Option<Self> {
                let ::gymkhana_sdk::Value::Text(text) = value else { return ::core::option::Option::None };
                match text.as_str() {
                    #(#names => ::core::option::Option::Some(Self::#variants),)*
                    _ => ::core::option::Option::None,
                }
            }
            fn limits() -> ::gymkhana_sdk::options::Limits {
                ::gymkhana_sdk::options::Limits::choices(&[#(#names),*])
            }
        }
    })
}

/// Name in a run file of a variant: `OneByOne` is `one-by-one`.
fn kebab(ident: &Ident) -> String {
    let mut name = String::new();
    for letter in ident.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_texts() {
        let input = syn::parse_str("enum Mode { Auto, OneByOne, #[option(name = \"4x4\")] Small }").expect("an enum");
        let tokens = derive_value(&input).expect("sound choices").to_string();
        assert!(tokens.contains("Self :: OneByOne => \"one-by-one\"") && tokens.contains("\"4x4\""), "{tokens}");
        for (source, reason) in [
            ("struct Mode;", "choices are an enum"),
            ("enum Mode { Auto(u8) }", "has no fields"),
            ("enum Mode { Auto, #[option(name = \"auto\")] Other }", "two choices are named `auto`"),
        ] {
            let refused = derive_value(&syn::parse_str(source).expect("a type")).expect_err(reason);
            assert!(refused.to_string().contains(reason), "{refused}");
        }
    }
}
