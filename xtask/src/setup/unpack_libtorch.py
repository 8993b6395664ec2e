"""Unpacks from the wheels in one folder what the host needs of libtorch into another: python unpack.py FROM TO"""

import pathlib
import shutil
import sys
import zipfile

KEEP = {
    "torch/lib/libc10.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libgomp.so.1",
    # libtorch_cpu.so finds these by its own run path, next to `torch/`.
    "nvidia/cu13/lib/libcudart.so.13",
    "nvidia/cu13/lib/libcupti.so.13",
}
HEADERS = "torch/include/"
# Names that texts of licences begin with, in any folder of a wheel's description.
LICENSES = ("LICENSE", "License", "NOTICE")

source, destination = map(pathlib.Path, sys.argv[1:])
missing = set(KEEP)
headers = 0
licenses = 0
for wheel in sorted(source.glob("*.whl")):
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            place = pathlib.PurePosixPath(item.filename)
            if place.parts[0].endswith(".dist-info") and place.name.startswith(LICENSES):
                licenses += 1
                path = destination / "licenses" / place.parts[0].removesuffix(".dist-info") / place.name
            elif not item.is_dir() and (item.filename in KEEP or item.filename.startswith(HEADERS)):
                missing.discard(item.filename)
                headers += item.filename.startswith(HEADERS)
                path = destination / item.filename
            else:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(item) as packed, path.open("wb") as file:
                shutil.copyfileobj(packed, file, 1 << 20)
if missing or not headers or not licenses:
    sys.exit(f"the wheels lack {sorted(missing) or (LICENSES if headers else HEADERS)}")
