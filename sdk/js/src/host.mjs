// What the host offers, where there is none: the build puts the real functions in place of this file.

/** The host's interfaces by their names; none in native tests. */
export const host = {};
/** Whether there is a host. */
export const HOSTED = false;
