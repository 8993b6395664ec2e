//! What wit-bindgen generates: the imports once, and one module for each interface that a plugin may export.
//!
//! Each interface comes from a world of its own, so that [`crate::plugin!`] can call the export macros of exactly
//! those that an author names; the linker unites the worlds. All modules share the types of [`imports`].
#![allow(missing_docs, unused_qualifications, clippy::all, clippy::semicolon_if_nothing_returned)]

pub mod imports {
    wit_bindgen::generate!({
        path: "wit",
        world: "imports",
        generate_all,
        generate_unused_types: true,
        additional_derives: [PartialEq],
    });
}

macro_rules! exports {
    ($($module:ident: $world:tt, $export:tt, $path:tt;)*) => {
        $(
            pub mod $module {
                wit_bindgen::generate!({
                    path: "wit",
                    world: $world,
                    export_macro_name: $export,
                    pub_export_macro: true,
                    default_bindings_module: $path,
                    with: { "gymkhana:plugin/types@0.1.0": crate::bindings::imports::gymkhana::plugin::types },
                    generate_unused_types: true,
                    additional_derives: [PartialEq],
                });
            }
        )*
    };
}

exports! {
    environment: "environment-plugin", "export_environment", "gymkhana_sdk::bindings::environment";
    environment_snapshot: "environment-snapshot-plugin", "export_environment_snapshot",
        "gymkhana_sdk::bindings::environment_snapshot";
    environment_state_key: "environment-state-key-plugin", "export_environment_state_key",
        "gymkhana_sdk::bindings::environment_state_key";
    environment_privileged: "environment-privileged-plugin", "export_environment_privileged",
        "gymkhana_sdk::bindings::environment_privileged";
    environment_oracle: "environment-oracle-plugin", "export_environment_oracle",
        "gymkhana_sdk::bindings::environment_oracle";
    environment_guidance: "environment-guidance-plugin", "export_environment_guidance",
        "gymkhana_sdk::bindings::environment_guidance";
    environment_render: "environment-render-plugin", "export_environment_render",
        "gymkhana_sdk::bindings::environment_render";
    tool: "tool-plugin", "export_tool", "gymkhana_sdk::bindings::tool";
    tool_snapshot: "tool-snapshot-plugin", "export_tool_snapshot", "gymkhana_sdk::bindings::tool_snapshot";
    tool_final_view: "tool-final-view-plugin", "export_tool_final_view",
        "gymkhana_sdk::bindings::tool_final_view";
    reward: "reward-plugin", "export_reward", "gymkhana_sdk::bindings::reward";
}
