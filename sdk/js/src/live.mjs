// Whether the plugin is being called. The build runs the modules once, without a host.

export const state = { live: false };
