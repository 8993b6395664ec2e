"""Installed packages inside a component: their files, modules that native code lacks, and messages about them.

A component has no file system and one thread. The build writes the files of a plugin's packages into one archive
(`collect`); inside the component `prepare` makes the archive visible to `open`, `os` and the import system (`files`),
replaces functions of the standard library that cannot work (`shims`), and explains imports of native code (`native`).
"""
