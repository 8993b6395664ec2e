//! Types and calls of the contract for wasmtime, generated from `wit/`.
//!
//! Arguments borrow from the host's records and results are owned, so that a call copies each text once.

// The generated code includes functions that the host does not use.
#![allow(missing_docs, dead_code, unused_qualifications, rust_2018_idioms, clippy::all, clippy::unwrap_used)]

wasmtime::component::bindgen!({
    path: ["../../wit", "../../wit/wrapper"],
    inline: "
        package gymkhana:host;
        world everything {
            import gymkhana:plugin/log@0.2.0;
            import gymkhana:plugin/random@0.2.0;
            import gymkhana:plugin/clock@0.2.0;
            import gymkhana:plugin/assets@0.2.0;
            import gymkhana:plugin/model@0.2.0;
            import gymkhana:plugin/tools@0.2.0;
            import gymkhana:plugin/http@0.2.0;
            import gymkhana:wrapper/inner@0.2.0;
            export gymkhana:plugin/environment@0.2.0;
            export gymkhana:plugin/environment-snapshot@0.2.0;
            export gymkhana:plugin/environment-state-key@0.2.0;
            export gymkhana:plugin/environment-privileged@0.2.0;
            export gymkhana:plugin/environment-oracle@0.2.0;
            export gymkhana:plugin/environment-guidance@0.2.0;
            export gymkhana:plugin/environment-render@0.2.0;
            export gymkhana:plugin/tool@0.2.0;
            export gymkhana:plugin/tool-snapshot@0.2.0;
            export gymkhana:plugin/tool-final-view@0.2.0;
            export gymkhana:plugin/reward@0.2.0;
        }
    ",
    ownership: Borrowing { duplicate_if_necessary: true },
    imports: {
        "gymkhana:plugin/model": async | trappable,
        "gymkhana:plugin/tools": async | trappable,
        "gymkhana:plugin/http": async | trappable,
        "gymkhana:wrapper/inner": async | trappable,
        default: trappable,
    },
    exports: { default: async },
});
