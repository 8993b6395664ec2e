// Whether the plugin is being called. A component is made by running its modules once, without a host to ask.

export const state = { live: false };
