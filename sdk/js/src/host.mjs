// Access to the host in native tests, where it is absent. The build replaces this file by one with the real functions.

/** Host interfaces by name; empty in native tests. */
export const host = {};
/** Whether a host is present. */
export const HOSTED = false;
