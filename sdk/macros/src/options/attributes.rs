//! Attributes of an option: doc comments and `#[option(…)]`.

use proc_macro2::{Ident, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt as _;
use syn::meta::ParseNestedMeta;
use syn::parse::ParseStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, Lit, LitStr, Meta, Token, bracketed};

use crate::advice;

const KEYS: [&str; 4] = ["default", "range", "choices", "name"];

/// Inclusive bounds; an absent one is open.
pub struct Bounds {
    pub low: Option<Expr>,
    pub high: Option<Expr>,
}

/// Allowed texts: an array, or the name of one.
pub struct Choices(pub TokenStream);

/// Contents of `#[option(…)]`.
#[derive(Default)]
pub struct OptionAttributes {
    pub default: Option<Expr>,
    pub range: Option<Bounds>,
    pub choices: Option<Choices>,
    pub name: Option<String>,
}

impl OptionAttributes {
    /// Reads the attributes of a field or a variant.
    pub fn of(attributes: &[Attribute]) -> syn::Result<Self> {
        let mut settings = Self::default();
        for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("option")) {
            attribute.parse_nested_meta(|meta| settings.add(&meta))?;
        }
        Ok(settings)
    }

    fn add(&mut self, meta: &ParseNestedMeta<'_>) -> syn::Result<()> {
        let key = meta.path.get_ident().map(Ident::to_string).unwrap_or_default();
        let is_new = match key.as_str() {
            "default" => self.default.replace(meta.value()?.parse()?).is_none(),
            "range" => self.range.replace(bounds(meta.value()?)?).is_none(),
            "choices" => self.choices.replace(choices(meta.value()?)?).is_none(),
            "name" => self.name.replace(meta.value()?.parse::<LitStr>()?.value()).is_none(),
            _ => {
                return Err(meta.error(format!("`{key}` is not a setting of an option; {}", advice(&key, &KEYS))));
            }
        };
        if is_new { Ok(()) } else { Err(meta.error(format!("`{key}` is given twice: remove one"))) }
    }
}

/// Bounds such as `1..=4`, `0..` and `..=9`. Both ends are collected as tokens, because only some builds of `syn` know
/// ranges.
fn bounds(input: ParseStream<'_>) -> syn::Result<Bounds> {
    let (mut low, mut high) = (TokenStream::new(), None);
    let mut is_inclusive = false;
    while !input.is_empty() && !input.peek(Token![,]) {
        if high.is_none() && input.peek(Token![..=]) {
            input.parse::<Token![..=]>()?;
            (high, is_inclusive) = (Some(TokenStream::new()), true);
        } else if high.is_none() && input.peek(Token![..]) {
            input.parse::<Token![..]>()?;
            high = Some(TokenStream::new());
        } else {
            high.as_mut().unwrap_or(&mut low).extend([input.parse::<TokenTree>()?]);
        }
    }
    let end = |tokens: TokenStream| if tokens.is_empty() { Ok(None) } else { syn::parse2(tokens).map(Some) };
    let bounds = Bounds { low: end(low)?, high: end(high.unwrap_or_default())? };
    if is_inclusive == bounds.high.is_some() && (bounds.low.is_some() || bounds.high.is_some()) {
        return Ok(bounds);
    }
    Err(input.error("the bounds of an option are inclusive: write `..=`"))
}

fn choices(input: ParseStream<'_>) -> syn::Result<Choices> {
    if !input.peek(syn::token::Bracket) {
        let name: Expr = input.parse()?;
        return Ok(Choices(quote!(#name)));
    }
    let inside;
    bracketed!(inside in input);
    let texts = Punctuated::<LitStr, Token![,]>::parse_terminated(&inside)?;
    Ok(Choices(quote!([#texts])))
}

/// Text of the doc comments without a final full stop; `None` if there is none.
pub fn description(attributes: &[Attribute]) -> Option<String> {
    let lines = attributes.iter().filter_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("doc") => match &pair.value {
            Expr::Lit(literal) => match &literal.lit {
                Lit::Str(text) => Some(text.value().trim().to_owned()),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    });
    let text = lines.collect::<Vec<_>>().join(" ");
    let text = text.trim().trim_end_matches('.');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Name in a run file of a field.
pub fn kebab(ident: &Ident) -> String {
    ident.unraw().to_string().replace('_', "-")
}
