//! `#[derive(PluginOptions)]`: options of a plugin from the fields of a struct.

mod attributes;
mod choices;

use proc_macro2::{Ident, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned as _;
use syn::{Data, DeriveInput, Error, Expr, Field, Fields, Lit, Type};

use attributes::{Choices, OptionAttributes};
pub use choices::derive_value;

/// Kind of a field, by the last name of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Flag,
    Integer,
    Number,
    Text,
    Json,
    Bytes,
    /// A type with `OptionValue`, such as a derived enum.
    Own,
}

impl Kind {
    fn of(ty: &Type) -> Self {
        let Type::Path(path) = ty else { return Self::Own };
        let Some(last) = path.path.segments.last() else { return Self::Own };
        match last.ident.to_string().as_str() {
            "bool" => Self::Flag,
            "i64" | "i32" | "u64" | "u32" | "u16" | "u8" | "usize" => Self::Integer,
            "f64" => Self::Number,
            "String" => Self::Text,
            "Json" => Self::Json,
            "Vec" => Self::Bytes,
            _ => Self::Own,
        }
    }

    /// Words for the kind, and an example of a default.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Flag => ("a flag", "false"),
            Self::Integer => ("a whole number", "3"),
            Self::Number => ("a number", "0.5"),
            Self::Text => ("text", "\"auto\""),
            Self::Json => ("JSON text", "\"[]\""),
            Self::Bytes => ("bytes", "b\"\""),
            Self::Own => ("of its own type", "Mode::Auto"),
        }
    }

    /// Whether a literal can be a default of this kind.
    fn fits(self, literal: &Lit) -> bool {
        match self {
            Self::Flag => matches!(literal, Lit::Bool(_)),
            Self::Integer => matches!(literal, Lit::Int(_)),
            Self::Number => matches!(literal, Lit::Float(_)),
            Self::Text | Self::Json => matches!(literal, Lit::Str(_)),
            Self::Bytes => matches!(literal, Lit::ByteStr(_)),
            Self::Own => false,
        }
    }
}

/// Option of one field.
struct PluginOption<'a> {
    field: &'a Ident,
    ty: &'a Type,
    kind: Kind,
    name: String,
    description: String,
    default: Expr,
    attributes: OptionAttributes,
}

/// Implementations of `PluginOptions`, `Default` and `SnapshotState` for a struct.
pub fn derive(input: &DeriveInput) -> syn::Result<TokenStream> {
    if let Some(parameter) = input.generics.params.first() {
        return Err(Error::new(parameter.span(), "options have no parameters: remove them from the struct"));
    }
    let options = options(input)?;
    for (index, option) in options.iter().enumerate() {
        if options[..index].iter().any(|other| other.name == option.name) {
            let message = format!("two options are named `{}`: rename a field", option.name);
            return Err(Error::new(option.field.span(), message));
        }
    }
    let ident = &input.ident;
    let fields: Vec<&Ident> = options.iter().map(|option| option.field).collect();
    let defaults = options.iter().map(PluginOption::default_tokens);
    let declarations = options.iter().map(PluginOption::declaration_tokens);
    let checks = options.iter().map(PluginOption::check_tokens);
    Ok(quote! {
        #(#checks)*
        impl ::core::default::Default for #ident {
            fn default() -> Self {
                Self { #(#fields: #defaults),* }
            }
        }
        impl ::gymkhana_sdk::PluginOptions for #ident {
            fn declared() -> ::std::vec::Vec<::gymkhana_sdk::options::Declaration> {
                ::std::vec![#(#declarations),*]
            }
            fn to_values(&self) -> ::std::vec::Vec<::gymkhana_sdk::Value> {
                ::std::vec![#(::gymkhana_sdk::OptionValue::to_value(&self.#fields)),*]
            }
            fn from_values(
                values: &mut ::gymkhana_sdk::options::Values,
            ) -> ::core::result::Result<Self, ::gymkhana_sdk::Error> {
                ::core::result::Result::Ok(Self { #(#fields: values.take()?),* })
            }
        }
        impl ::gymkhana_sdk::snapshot::SnapshotState for #ident {
            fn write(&self, writer: ::gymkhana_sdk::snapshot::Writer) -> ::gymkhana_sdk::snapshot::Writer {
                ::gymkhana_sdk::options::write(self, writer)
            }
            fn read(
                reader: &mut ::gymkhana_sdk::snapshot::Reader<'_>,
            ) -> ::core::result::Result<Self, ::gymkhana_sdk::Error> {
                ::gymkhana_sdk::options::read(reader)
            }
        }
    })
}

fn options(input: &DeriveInput) -> syn::Result<Vec<PluginOption<'_>>> {
    let Data::Struct(data) = &input.data else {
        return Err(Error::new(input.ident.span(), "options are a struct with a field for each option"));
    };
    match &data.fields {
        Fields::Named(fields) => fields.named.iter().map(PluginOption::of).collect(),
        Fields::Unit => Ok(Vec::new()),
        Fields::Unnamed(fields) => Err(Error::new(fields.span(), "options are fields with names")),
    }
}

impl<'a> PluginOption<'a> {
    fn of(field: &'a Field) -> syn::Result<Self> {
        let Some(ident) = &field.ident else { return Err(Error::new(field.span(), "options are fields with names")) };
        let mut attributes = OptionAttributes::of(&field.attrs)?;
        let name = attributes.name.take().unwrap_or_else(|| attributes::kebab(ident));
        let fail = |message: &str| Err(Error::new(ident.span(), format!("option `{name}` {message}")));
        let Some(description) = attributes::description(&field.attrs) else {
            return fail("has no description: add a doc comment with its effect and unit");
        };
        let kind = Kind::of(&field.ty);
        let Some(default) = attributes.default.take() else {
            return fail(&format!("has no default: add `#[option(default = {})]`", kind.words().1));
        };
        if let Expr::Lit(literal) = &default
            && !kind.fits(&literal.lit)
        {
            let (words, example) = kind.words();
            let message = format!("option `{name}` is {words}: write a default such as `{example}`");
            return Err(Error::new(default.span(), message));
        }
        if attributes.range.is_some() && !matches!(kind, Kind::Integer | Kind::Number) {
            return fail("is not a number, so it has no `range`");
        }
        if attributes.choices.is_some() && kind != Kind::Text {
            return fail("is not text, so it has no `choices`");
        }
        Ok(Self { field: ident, ty: &field.ty, kind, name, description, default, attributes })
    }

    /// Default in the field's type.
    fn default_tokens(&self) -> TokenStream {
        let default = &self.default;
        match self.kind {
            Kind::Text => quote!(::std::string::String::from(#default)),
            Kind::Json => quote!(::gymkhana_sdk::Json(::std::string::String::from(#default))),
            Kind::Bytes => quote!(::std::vec::Vec::from(*#default)),
            Kind::Flag | Kind::Integer | Kind::Number | Kind::Own => quote!(#default),
        }
    }

    fn declaration_tokens(&self) -> TokenStream {
        let Self { ty, name, description, attributes, .. } = self;
        let default = self.default_tokens();
        let range = attributes.range.as_ref().map(|range| {
            let end = |end: &Option<Expr>, open: TokenStream| match end {
                Some(end) => quote!((#end) as f64),
                None => open,
            };
            let (low, high) = (end(&range.low, quote!(f64::NEG_INFINITY)), end(&range.high, quote!(f64::INFINITY)));
            quote!(.range(#low, #high))
        });
        let choices = attributes.choices.as_ref().map(|Choices(all)| quote!(.choices(&#all)));
        quote!(::gymkhana_sdk::options::Declaration::new::<#ty>(#name, #description, &#default)#range #choices)
    }

    /// Checks at compile time that the default is in the range or among the choices.
    fn check_tokens(&self) -> TokenStream {
        let Self { ty, name, default, attributes, .. } = self;
        let span = default.span();
        let message = |limits: &str| format!("the default of option `{name}` is not {limits}");
        let mut checks = TokenStream::new();
        if let Some(range) = &attributes.range {
            let message = message("in its range");
            let low = range.low.as_ref().map(|low| quote!(const LOW: #ty = #low; assert!(LOW <= DEFAULT, #message);));
            let high =
                range.high.as_ref().map(|high| quote!(const HIGH: #ty = #high; assert!(DEFAULT <= HIGH, #message);));
            checks.extend(quote_spanned!(span=> const _: () = { const DEFAULT: #ty = #default; #low #high };));
        }
        if let Some(Choices(all)) = &attributes.choices {
            let message = message("one of its choices");
            checks.extend(quote_spanned! {span=>
                const _: () = assert!(::gymkhana_sdk::options::is_one_of(#default, &#all), #message);
            });
        }
        checks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(fields: &str) -> String {
        let input = syn::parse_str(&format!("struct Options {{ {fields} }}")).expect("a struct");
        match derive(&input) {
            Ok(_) => panic!("{fields} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn options_of_every_kind_are_accepted() {
        let input = syn::parse_str(
            r#"struct Options {
                /// Ice.
                #[option(default = false)] slippery: bool,
                /// Highest number
                #[option(default = 100, range = 3..=1_000_000)] highest: u64,
                /// Change per step
                #[option(default = -0.5, range = ..=MOST)] change: f64,
                /// Comparison
                #[option(default = "auto", choices = ["auto", "text"])] compared_by: String,
                /// Roles
                #[option(default = DEFAULT)] roles: Json,
                /// Seed
                #[option(default = b"x")] seed: Vec<u8>,
                /// Mode
                #[option(default = Mode::Fast, name = "how")] mode: Mode,
            }"#,
        );
        let input: DeriveInput = input.expect("a struct");
        let names: Vec<String> =
            options(&input).expect("sound options").into_iter().map(|option| option.name).collect();
        assert_eq!(names, ["slippery", "highest", "change", "compared-by", "roles", "seed", "how"]);
        assert!(derive(&input).is_ok());
    }

    #[test]
    fn mistakes_name_the_option_and_the_fix() {
        for (fields, reason) in [
            ("#[option(default = 1)] a_b: i64", "option `a-b` has no description: add a doc comment"),
            ("/// A\n a: i64", "option `a` has no default: add `#[option(default = 3)]`"),
            ("/// A\n #[option(default = 1)] a: f64", "option `a` is a number: write a default such as `0.5`"),
            ("/// A\n #[option(default = 1)] a: String", "option `a` is text: write a default such as `\"auto\"`"),
            ("/// A\n #[option(default = \"x\")] a: Mode", "option `a` is of its own type"),
            ("/// A\n #[option(defualt = 1)] a: i64", "did you mean `default`?"),
            ("/// A\n #[option(default = 1, default = 2)] a: i64", "`default` is given twice"),
            ("/// A\n #[option(default = 1, range = 0..4)] a: i64", "write `..=`"),
            ("/// A\n #[option(default = true, range = 0..=4)] a: bool", "is not a number, so it has no `range`"),
            ("/// A\n #[option(default = 1, choices = [\"a\"])] a: i64", "is not text, so it has no `choices`"),
            (
                "/// A\n #[option(default = 1)] a_b: i64, /// B\n #[option(default = 1, name = \"a-b\")] c: i64",
                "two options",
            ),
        ] {
            let told = message(fields);
            assert!(told.contains(reason), "{fields}: {told}");
        }
    }
}
