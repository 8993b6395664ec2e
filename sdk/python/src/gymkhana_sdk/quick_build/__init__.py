"""Quick builds: a component that was bundled before receives the author's modules.

Bundling takes ten seconds of CPU time, and almost nothing of it depends on the author's text. A base is bundled once
for each combination of interfaces, capabilities, standard modules and installed packages. It has a slot in its memory,
into which a build writes the modules; they are imported at the first call (`_component/late.py`). Published components
are bundled whole.

A component imports `slot`; nothing else of this package may be imported here.
"""
